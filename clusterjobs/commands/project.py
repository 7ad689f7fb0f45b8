"""From the files that a person names to a plan and its outputs: what several commands share."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import click

from clusterjobs.cluster.find import find_cluster
from clusterjobs.cluster.fit import fit_cluster
from clusterjobs.cluster.read import read_cluster
from clusterjobs.errors import Location, one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import resolve
from clusterjobs.render.outputs import Inputs, render_outputs
from clusterjobs.spec.load import load_spec
from clusterjobs.spec.site import load_site
from clusterjobs.yaml_source import MAX_BYTES, Document, decode

SITE_FILE = "site.yaml"

spec_argument = click.argument("spec", type=click.Path(path_type=pathlib.Path))
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a value of the spec for this run: --set nodes=4 --set args.lr=3e-4.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=pathlib.Path("generated"),
    show_default=True,
    help="The folder for the files.",
)


@dataclass(frozen=True)
class Project:
    """A spec with its cluster and site, read and planned."""

    plan: Plan
    inputs: Inputs
    cluster_document: Document
    site: dict[str, object]
    site_files: tuple[str, ...]

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        cluster_yaml = fit_cluster(self.cluster_document, self.site, self.site_files)
        # Its header names the config as messages do, with folders; a file that is written does not.
        named = cluster_yaml.replace(self.cluster_document.file, self.inputs.cluster[0], 1)
        return render_outputs(self.plan, named, self.inputs)


def load_project(spec: pathlib.Path, settings: Sequence[str] = ()) -> Project:
    """Read all files that the spec leads to, and make the plan. Raises InputError."""
    text = read_text(spec)
    loaded = load_spec(text, str(spec), option_models(), settings)
    where = loaded.source.locate(("cluster",))
    config = find_cluster(loaded.experiment.cluster, spec.parent, where)
    config_text = read_text(config)
    searched = _site_files(spec)
    sites = tuple((str(file), read_text(file)) for file in searched if file.is_file())
    site = load_site(sites)
    cluster, document = read_cluster(config_text, _shown(config), site)
    return Project(
        resolve(loaded, cluster),
        Inputs(
            (spec.name, text),
            (config.name, config_text),
            tuple((pathlib.Path(file).name, content) for file, content in sites),
            tuple(settings),
        ),
        document,
        site,
        tuple(map(str, searched)),
    )


def _shown(path: pathlib.Path) -> str:
    """The path as it is shorter to read: from here, if it is below here."""
    try:
        return str(path.relative_to(pathlib.Path.cwd()))
    except ValueError:
        return str(path)


def _site_files(spec: pathlib.Path) -> list[pathlib.Path]:
    """Where a site.yaml may be, the nearest first: beside the spec, here, for this user."""
    config_home = os.environ.get("XDG_CONFIG_HOME") or str(pathlib.Path.home() / ".config")
    folders = [spec.parent, pathlib.Path(), pathlib.Path(config_home) / "clusterjobs"]
    return list(dict.fromkeys(folder / SITE_FILE for folder in folders))


def read_text(path: pathlib.Path) -> str:
    """A file's text. Raises InputError for whatever can be wrong with a path or its bytes."""
    try:
        with path.open("rb") as file:
            return decode(file.read(MAX_BYTES + 1), str(path))
    except FileNotFoundError:
        raise one_problem(f"there is no file {path}", hint=_beside(path)) from None
    except IsADirectoryError:
        raise one_problem(f"{path} is a folder", hint="name the file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        where, hint = Location(str(path), 1, 1), "check the path, and who may read it"
        raise one_problem(f"cannot read {path}: {reason}", where, hint=hint) from None


def _beside(path: pathlib.Path) -> str:
    from clusterjobs.errors import nearest

    folder = path.parent
    names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    match = nearest(path.name, names)
    return f"did you mean {folder / match}?" if match else f"looked in {folder.resolve()}"
