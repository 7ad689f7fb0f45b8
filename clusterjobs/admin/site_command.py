"""clusterjobs site: shows the site folders in use, and makes a new one."""

import contextlib
import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import click

from clusterjobs import resources
from clusterjobs.clusters.source import cluster_names, find_cluster
from clusterjobs.console import printable, show_problems, table
from clusterjobs.errors import InputError, Problem, in_order, one_problem
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
from clusterjobs.sites.prices import load_site_prices
from clusterjobs.spec.defaults import load_defaults, value_problems
from clusterjobs.yaml.document import dotted

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


def _values(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(SITE_FILE):
        text = read_text(file)
        load_site_prices([(str(file), text)])
        yield Row(SITE_FILE, tuple(load_site([(str(file), text)])))


def _defaults(folder: pathlib.Path, site: SiteFolders, problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(DEFAULTS_FILE):
        named: dict[str, pathlib.Path] = {}
        with contextlib.suppress(InputError):  # reported for the folder that has the clusters
            named = site.cluster_files
        models = option_models()
        defaults = load_defaults(read_text(file), str(file), cluster_names(named), models)
        problems += value_problems(defaults, models)
        for cluster in defaults.clusters():
            problems += defaults.unknown_queues(cluster, _queues_of(cluster, named))
        paths = ((*one.base, key) for one in defaults.sections() for key in one.value)
        yield Row(DEFAULTS_FILE, tuple(map(dotted, paths)))


def _queues_of(cluster: str, named: dict[str, pathlib.Path]) -> tuple[str, ...]:
    """The queues of a cluster; none if its config cannot be read, which a spec's plan reports."""
    try:
        facts = read_cluster_file(find_cluster(cluster, pathlib.Path(), site=named)).facts
    except InputError:
        return ()
    return tuple(one.name for one in facts.partitions if one.name)


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
