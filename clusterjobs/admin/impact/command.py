"""clusterjobs impact: renders all specs before and after a change, and groups the differences."""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from clusterjobs.admin.impact.batch import OtherVersion, outcomes
from clusterjobs.admin.impact.differences import Groups, Outcome, Report
from clusterjobs.admin.impact.sides import Change, Sides, both_sides
from clusterjobs.clusters.source import cluster_names
from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.runs.ci_reports import ci_options, write_reports
from clusterjobs.runs.find_specs import Found, find_specs

_EXAMPLES = """\b
Examples:
  CLUSTERJOBS_SITE=~/new-site clusterjobs impact /fsx/users --before /etc/clusterjobs
  clusterjobs impact /fsx/users --against HEAD       (in a checkout of the site folder)
  clusterjobs impact /fsx/users --cluster p4d-a100=new-p4d.yaml
  clusterjobs impact /fsx/users --clusterjobs /opt/clusterjobs-0.1/bin/clusterjobs
"""

_Named = tuple[tuple[str, Path], ...]


def _clusters(_context: click.Context, _option: click.Parameter, items: Iterable[str]) -> _Named:
    found: dict[str, Path] = {}
    for item in items:
        name, sign, file = item.partition("=")
        if not sign or not re.fullmatch(r"[\w][\w.-]*", name):
            raise click.BadParameter(f"{item!r} is not NAME=FILE, such as p4d-a100=new.yaml")
        if not Path(file).is_file():
            raise click.BadParameter(f"there is no file {file!r}")
        if name in found:
            raise click.BadParameter(f"{name} is named twice")
        found[name] = Path(file)
    return tuple(found.items())


def _program(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    found = shutil.which(name) if name else None
    if name and not found:
        raise click.BadParameter(f"there is no program {name!r}")
    return os.path.abspath(found) if found else None  # noqa: PTH100  # its links may matter


@click.command(epilog=_EXAMPLES)
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--before",
    "--site",  # its first name
    "site",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Before: this site folder in place of the present one.",
)
@click.option(
    "--against",
    metavar="REV",
    help="Before: the site folders at this git revision, and all else in their repository.",
)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME=FILE",
    callback=_clusters,
    help="After: this config for the cluster of that name.",
)
@click.option(
    "--clusterjobs",
    "executable",
    metavar="OLD",
    callback=_program,
    help="Before: rendered by this other installed version.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="Worker processes; by default one per CPU."
)
@click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
@ci_options
def impact(
    folders: tuple[Path, ...],
    site: Path | None,
    against: str | None,
    clusters: _Named,
    executable: str | None,
    jobs: int | None,
    as_json: bool,
    junit: Path | None,
    sarif: Path | None,
) -> int:
    """Render every spec below the FOLDERs before and after a change; show what differs.

    A file that does not run is not compared (the manifest). The exit code is 1 if the
    change breaks a spec: it fails, or is refused by a rule, and was not before.
    """
    if site and against:
        raise click.UsageError("--before and --against both say what was before: give one of them")
    if not (site or against or clusters or executable):
        what = "nothing to compare with: give --before OLD, --against REV, --cluster NAME=FILE or "
        raise click.UsageError(f"{what}--clusterjobs OLD")
    change = Change(site, against, clusters, executable)
    with both_sides(change) as sides:
        show_problems(_new_names(sides))
        if executable:
            OtherVersion(executable).close()  # an error now, not in each worker
        found = find_specs(folders, _of_the_site(sides))
        show_problems(_unread(found))
        groups = Groups()
        stopped = _compare(found, sides, jobs or _cpus(), groups)
        report = Report(sides.before, sides.after, found, groups, complete=not stopped)
        write_reports(junit, sarif, groups.cases())
        click.echo(
            json.dumps(report.data(), indent=2, ensure_ascii=False) if as_json else report.text()
        )
        return stopped or (1 if groups.any_broken else 0)


def _new_names(sides: Sides) -> list[Problem]:
    """Clusters of --cluster that do not exist before the change: perhaps a misspelt name."""
    known = cluster_names(sides.before.site.cluster_files) if sides.after.clusters else ()
    return [
        Problem(
            f"--cluster: there is no cluster {one.name} before the change",
            hint=did_you_mean(one.name, known),
            warning=True,
        )
        for one in sides.after.clusters
        if one.name not in known
    ]


def _compare(found: Found, sides: Sides, jobs: int, groups: Groups) -> int:
    """Fill `groups`; 0 if they are complete. Else an exit code: what is known is still shown."""
    at_term = signal.signal(signal.SIGTERM, _stop)
    jobs = max(1, min(jobs, len(found.specs) // 10))
    results = outcomes(found.specs, sides, found.bases, jobs)
    try:
        if not sys.stderr.isatty():
            _add(results, groups)
            return 0
        with click.progressbar(results, len(found.specs), "rendering", file=sys.stderr) as shown:
            _add(shown, groups)
    except KeyboardInterrupt:
        return 130
    except InputError as error:
        show_problems(error.problems)
        return 1
    finally:
        results.close()
        signal.signal(signal.SIGTERM, at_term)
    return 0


def _add(results: Iterable[Outcome], groups: Groups) -> None:
    for outcome in results:
        groups.add(outcome)


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _of_the_site(sides: Sides) -> list[Path]:
    """Folders without specs of users: the tests of a site may be meant to fail."""
    folders = (folder for side in sides[:2] for folder in side.site.folders)
    return [folder / name for folder in folders for name in ("clusters", "templates", "tests")]


def _unread(found: Found) -> list[Problem]:
    return [
        Problem(f"not looked at: {path}: {reason}", warning=True) for path, reason in found.unread
    ]
