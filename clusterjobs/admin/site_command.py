"""clusterjobs site: shows the site folders in use, and makes a new one."""

import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import click

from clusterjobs import resources
from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.clusters.source import cluster_names, find_cluster
from clusterjobs.console import printable, show_problems, table
from clusterjobs.errors import InputError, Problem, did_you_mean, in_order, nearest, one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.runs.clusters import read_cluster_file
from clusterjobs.sites import folders as site_folders
from clusterjobs.sites.folders import (
    CLUSTERS,
    DEFAULTS_FILE,
    POLICY_FILE,
    SITE_FILE,
    TEMPLATES,
    TESTS,
    VARIABLE,
    SiteFolders,
    find_site_folders,
    is_folder,
    load_site,
    read_text,
    unreadable,
    user_folder,
)
from clusterjobs.sites.prices import KEY as PRICES
from clusterjobs.sites.prices import SitePrice, load_site_prices
from clusterjobs.spec.defaults import load_defaults, value_problems
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted, look_at

# ------------------------------------------------------------------ site contents
# What the site folders provide: values, defaults, policies, clusters, templates and tests.
# Each kind of content is a function of `_KINDS`, which reads one folder.


class Row(NamedTuple):
    """A file or folder of a site folder, and the names of what it provides."""

    name: str
    provides: tuple[str, ...]

    def shown(self) -> str:
        """The names on one line."""
        return ", ".join(self.provides) or "nothing"


class FolderContents(NamedTuple):
    """One site folder. `found_by`: the variable, the user or the system."""

    path: pathlib.Path
    found_by: str
    exists: bool
    rows: tuple[Row, ...] = ()

    def data(self) -> dict[str, Any]:
        """The folder as data. Names and structure are stable across versions."""
        provides = {row.name.rstrip("/"): list(row.provides) for row in self.rows}
        return {
            "folder": str(self.path),
            "found_by": self.found_by,
            "exists": self.exists,
            **provides,
        }


def site_contents() -> tuple[list[FolderContents], list[Problem]]:
    """The three possible folders, the highest precedence first, and the problems in them."""
    site, problems = find_site_folders(), list[Problem]()
    found: list[FolderContents] = []
    for path, found_by in _possible():
        if path not in site.folders:
            found.append(FolderContents(path, found_by, exists=False))
            continue
        rows = [row for kind in _KINDS for row in _caught(kind, path, site, problems)]
        found.append(FolderContents(path, found_by, exists=True, rows=tuple(rows)))
    return found, in_order(problems)


def _possible() -> Iterator[tuple[pathlib.Path, str]]:
    if named := os.environ.get(VARIABLE):
        yield pathlib.Path(named), f"${VARIABLE}"
    if own := user_folder():
        yield own, "the user's own"
    yield site_folders.SYSTEM_FOLDER, "the system's"


_Kind = Callable[[pathlib.Path, SiteFolders, list[Problem]], Iterator[Row]]


def _caught(
    kind: _Kind, folder: pathlib.Path, site: SiteFolders, problems: list[Problem]
) -> list[Row]:
    try:
        return list(kind(folder, site, problems))
    except InputError as error:
        problems += error.problems
        return []


# Names of a site.yaml that clusterjobs reads; configs of clusters may refer to any other.
_OWN_NAMES = (PRICES, "requires", "parallelcluster")


def _values(folder: pathlib.Path, site: SiteFolders, problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(SITE_FILE):
        text = read_text(file)
        found, document = load_site([(str(file), text)]), yaml_document.load(text, str(file))
        prices = load_site_prices([(str(file), text)])
        facts = _facts(_named(site), None) if prices else {}

        def warn(path: Path, what: str, hint: str, document: Document = document) -> None:
            where = document.locate_key(path) if len(path) == 1 else document.locate(path)
            problems.append(Problem(what, where, dotted(path), hint, warning=True))

        for name in found:
            meant = nearest(str(name), _OWN_NAMES, cutoff=0.8)
            if meant and name != meant:
                warn((name,), "only references use this name", f"did you mean {meant}?")
        for index, price in enumerate(prices):
            if wrong := _of_no_nodes(price, facts):
                warn((PRICES, index), f"the price is for no nodes: {wrong[0]}", wrong[1])
        yield Row(SITE_FILE, tuple(found))


def _of_no_nodes(price: SitePrice, facts: Mapping[str, ClusterFacts]) -> tuple[str, str] | None:
    """Why no known cluster has nodes of this price, and a hint; None if one has them."""
    if price.cluster and price.cluster not in facts:
        return f"there is no cluster {price.cluster}", did_you_mean(price.cluster, [*facts])
    chosen = [facts[price.cluster]] if price.cluster else facts.values()
    here = [one for one in chosen if not price.region or one.region in (price.region, "")]
    groups = [group for one in here for part in one.partitions for group in part.node_groups]
    types = sorted({group.node_type.name for group in groups})
    if price.instance_type in types:
        return None
    where = price.cluster or f"the clusters of {price.region}"
    hint = did_you_mean(price.instance_type, types)
    return f"no {price.instance_type} in {where}", hint


def _defaults(folder: pathlib.Path, site: SiteFolders, problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(DEFAULTS_FILE):
        named = _named(site)
        models = option_models()
        defaults = load_defaults(read_text(file), str(file), cluster_names(named), models)
        problems += value_problems(defaults, models)
        has_queue = look_at(defaults.document.value, ("all", "queue")) is not None
        facts = _facts(named, None if has_queue else defaults.clusters())
        queues = {name: [p.name for p in one.partitions if p.name] for name, one in facts.items()}
        for cluster in defaults.clusters():
            known = queues.get(cluster, [])
            problems += defaults.unknown_queues(cluster, known)
            problems += defaults.unknown_queue(("clusters", cluster), known)
        problems += defaults.unknown_queue(("all",), {*chain(*queues.values())})
        paths = ((*one.base, key) for one in defaults.sections() for key in one.value)
        yield Row(DEFAULTS_FILE, tuple(map(dotted, paths)))


def _named(site: SiteFolders) -> dict[str, pathlib.Path]:
    with contextlib.suppress(InputError):  # reported for the folder that has the clusters
        return site.cluster_files
    return {}


def _facts(
    named: Mapping[str, pathlib.Path], wanted: Sequence[str] | None
) -> dict[str, ClusterFacts]:
    """The facts of these clusters, by default of all that a spec can name.

    Without those whose config cannot be read, which a spec's plan reports.
    """
    found: dict[str, ClusterFacts] = {}
    for name in cluster_names(named) if wanted is None else wanted:
        with contextlib.suppress(InputError):
            found[name] = read_cluster_file(find_cluster(name, pathlib.Path(), site=named)).facts
    return found


def _policy(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    own = SiteFolders((folder,))
    if own.files(POLICY_FILE):
        yield Row(POLICY_FILE, tuple(one.rule.name for one in own.rules))


def _clusters(folder: pathlib.Path, site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    own, used = SiteFolders((folder,)).clusters, site.clusters
    names = [_cluster_name(name, one.file, used[name].file) for name, one in own.items()]
    if own or is_folder(folder / CLUSTERS):
        yield Row(f"{CLUSTERS}/", tuple(names))


def _cluster_name(name: str, file: pathlib.Path, used: pathlib.Path) -> str:
    return name if file == used else f"{name} (not used: {used} has the same name)"


def _templates(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    yield from _names_below(folder, TEMPLATES, (".j2", ".sh"))


def _tests(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    yield from _names_below(folder, TESTS, (".yaml", ".yml"))


def _names_below(folder: pathlib.Path, name: str, endings: tuple[str, ...]) -> Iterator[Row]:
    for below in SiteFolders((folder,)).subfolders(name):
        try:
            paths = sorted(path for path in below.rglob("*") if path.suffix in endings)
        except OSError as error:
            raise unreadable(below, error) from None
        yield Row(f"{name}/", tuple(path.relative_to(below).as_posix() for path in paths))


_KINDS: tuple[_Kind, ...] = (_values, _defaults, _policy, _clusters, _templates, _tests)


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
@click.pass_context
def site(context: click.Context, as_json: bool) -> int:
    """Show the site folders in use, the highest precedence first, and what each provides.

    \b
    Examples:
      clusterjobs site
      clusterjobs site --json | jq '.folders[].clusters'
      clusterjobs site init our-site
    """
    if context.invoked_subcommand:
        return 0
    folders, problems = site_contents()
    if as_json:
        rows = [one.data() for one in folders]
        click.echo(json.dumps({"folders": rows}, indent=2, ensure_ascii=False))
    else:
        click.echo("\n\n".join(_folder_text(one) for one in folders))
    show_problems(problems)
    return 1 if any(not one.warning for one in problems) else 0


def _folder_text(folder: FolderContents) -> str:
    head = printable(f"{folder.path} ({folder.found_by})")
    if not folder.exists:
        return f"{head}: not there"
    rows = [[f"  {row.name}", printable(row.shown())] for row in folder.rows]
    return f"{head}\n{table(rows)}" if rows else f"{head}: empty"


@site.command(short_help="Write a commented site folder.")
@click.argument(
    "folder", type=click.Path(path_type=pathlib.Path), default=pathlib.Path("clusterjobs-site")
)
def init(folder: pathlib.Path) -> None:
    """Write a commented site folder to FOLDER, by default ./clusterjobs-site.

    All values in it are commented out. Files that exist are kept.

    \b
    Examples:
      clusterjobs site init
      clusterjobs site init ~/.config/clusterjobs
    """
    packaged = resources.site_folder_dir()
    for source in sorted(path for path in packaged.rglob("*") if path.is_file()):
        target = folder / source.relative_to(packaged)
        is_new = _write_new(target, source.read_text(encoding="utf-8"))
        click.echo(f"  {printable(str(target))}{'' if is_new else ' (kept: it exists)'}")
    if expected := _expect_what_is_rendered(folder):
        click.echo(f"  {printable(str(expected))}")
    click.echo(f"\nuse it with: export {VARIABLE}={printable(str(folder.resolve()))}")


def _expect_what_is_rendered(folder: pathlib.Path) -> pathlib.Path | None:
    """Write what the example's test expects; None if something is expected already."""
    from clusterjobs.admin.site_tests import SiteTest

    example = SiteTest(folder / TESTS / "example", folder)
    if example.expected.exists():
        return None
    with contextlib.suppress(InputError):  # of files that were there: `templates test` reports it
        example.accept(example.rendered())
        return example.expected
    return None


def _write_new(path: pathlib.Path, text: str) -> bool:
    """Write a file; False if there is one. Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        if error.filename == str(path):
            return False
        raise one_problem(f"{error.filename} is not a folder", hint="name another one") from None
    except OSError as error:
        what = f"cannot write {error.filename or path}: {error.strerror}"
        raise one_problem(what, hint="check the path, and who may write there") from None
    return True
