"""From the files that a person names to a plan and its outputs: what several commands share."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from clusterjobs.commands.files import read_sites, read_text, shown_path, site_files
from clusterjobs.commands.missing import missing_inputs
from clusterjobs.commands.shell_check import check_code
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.parallelcluster.find import find_cluster
from clusterjobs.parallelcluster.read import read_cluster
from clusterjobs.parallelcluster.render_config import Fitted, fit
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import config_files, resolve
from clusterjobs.render.outputs import Inputs, render_outputs
from clusterjobs.spec.load import Spec, load_spec
from clusterjobs.spec.site import load_site
from clusterjobs.yaml.document import Document


@dataclass(frozen=True)
class Project:
    """A spec with its cluster and site, read and planned."""

    plan: Plan
    inputs: Inputs
    cluster_document: Document
    site: dict[str, object]
    site_files: tuple[str, ...]

    @functools.cached_property
    def fitted(self) -> Fitted:
        """The cluster's config as the job needs it. Raises InputError where it cannot be so."""
        try:
            found = fit(self.cluster_document, self.site, self.site_files, self.plan.associations)
        except InputError as error:
            raise InputError([*self._of_the_spec, *error.problems]) from None
        if any(not problem.warning for problem in found.problems):
            raise InputError([*self._of_the_spec, *found.problems])
        return found

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Of the plan, of the fitting, and of what this machine lacks."""
        return (*self._of_the_spec, *self.fitted.problems)

    @functools.cached_property
    def _of_the_spec(self) -> tuple[Problem, ...]:
        return (*self.plan.warnings, *missing_inputs(self.plan))

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        return render_outputs(self.plan, self.fitted.text, self.inputs)


def load_project(
    spec: pathlib.Path, settings: Sequence[str] = (), to_write: bool = True
) -> Project:
    """Read all files that the spec leads to, and make the plan. Raises InputError.

    `to_write`: what is missing of the site's values is wrong too, beside all that is wrong.
    """
    text = read_text(spec)
    loaded = load_spec(text, str(spec), option_models(), settings)
    check_code(loaded)
    where = loaded.source.locate(("cluster",))
    config = find_cluster(loaded.experiment.cluster, spec.parent, where)
    config_text = read_text(config)
    searched = site_files(spec)
    sites = read_sites(searched)
    site = load_site(sites)
    cluster, document = read_cluster(config_text, shown_path(config), site)
    try:
        plan = resolve(loaded, cluster, _read_configs(loaded, spec))
    except InputError as error:
        unfit = _unfit(document, site, tuple(map(str, searched))) if to_write else ()
        raise InputError([*error.problems, *unfit]) from None
    return Project(
        plan,
        Inputs(
            (_name(spec), text),
            (_name(config), config_text),
            tuple((_name(pathlib.Path(file)), content) for file, content in sites),
            tuple(settings),
        ),
        document,
        site,
        tuple(map(str, searched)),
    )


def _unfit(
    document: Document, site: dict[str, object], files: tuple[str, ...]
) -> tuple[Problem, ...]:
    """Why the cluster's config cannot be written, whatever the job is."""
    try:
        fit(document, site, files)
    except InputError as error:
        return error.problems
    return ()


def _read_configs(loaded: Spec, spec: pathlib.Path) -> dict[str, str]:
    """The program's own config files that are on this machine: beside the spec, or in workdir."""
    folders = [spec.parent, spec.parent / (loaded.experiment.workdir or ".")]
    found: dict[str, str] = {}
    for name in config_files(loaded):
        places = [folder / name for folder in folders if (folder / name).is_file()]
        if places:
            found[name] = read_text(places[0])
    return found


def _name(path: pathlib.Path) -> str:
    """A file's name as text: Linux allows any bytes in one, a manifest only UTF-8."""
    return path.name.encode("utf-8", "replace").decode()
