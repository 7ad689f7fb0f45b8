"""clusterjobs clusters diff and clusters upgrade: compare configs, and bring them up to date."""

from __future__ import annotations

import dataclasses
import difflib
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import click

from clusterjobs.clusters.source import is_description
from clusterjobs.console.options import json_option, site_file_option
from clusterjobs.console.show import print_json, show_problems, styled
from clusterjobs.counted import counted
from clusterjobs.errors import Location, Problem, one_problem
from clusterjobs.runs.clusters import Described, find_config_file, read_cluster_file
from clusterjobs.sites.folders import read_text
from clusterjobs.validation import optional_deps
from clusterjobs.validation.compare import differences
from clusterjobs.validation.upgrade import upgrade as upgraded


@click.command(short_help="Compare two configs.")
@click.argument("old")
@click.argument("new")
@site_file_option
@json_option
def diff(old: str, new: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show how config NEW differs from OLD, and what a running cluster needs to get there.

    Order, comments and spelled-out defaults make no difference. A ParallelCluster config and a
    description of a Slurm cluster are compared by what a plan knows of them.

    \b
    Examples:
      clusterjobs clusters diff running.yaml wanted.yaml
      clusterjobs clusters diff p5-h100 p5-h100-capacity-block --json
    """
    first, second = (read_cluster_file(find_config_file(name), site) for name in (old, new))
    found = differences(first, second)
    if as_json:
        print_json([dataclasses.asdict(difference) for difference in found])
        return
    if not found:
        click.echo("no difference")
    for difference in found:
        click.echo(
            f"{difference.path}: {_value_text(difference.old)} -> {_value_text(difference.new)}"
        )
        if difference.when:
            click.echo(f"    {_WHEN[difference.when]}")
        if difference.needs and difference.needs != "-":
            click.echo(f"    ParallelCluster: {difference.needs}")
    is_described = isinstance(first, Described) or isinstance(second, Described)
    if found and not is_described and not optional_deps.is_installed():
        what = "skipped: what a running cluster takes, by ParallelCluster's update policies"
        click.echo(f"{what}; {optional_deps.HOW_TO_INSTALL} adds them", err=True)


_LONG = 60


def _value_text(value: Any) -> str:
    """A value of a config on one line, shortened."""
    written = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _LONG else written[: _LONG - 4] + " ..."


_WHEN = {
    "running": "can be applied while the cluster runs",
    "replaced": "can be applied while the cluster runs: QueueUpdateStrategy replaces the nodes",
    "stopped": "needs its nodes stopped or replaced",
    "queue": "needs another queue in place of this one",
    "cluster": "needs a new cluster",
}


@click.command(short_help="Bring an older config up to ParallelCluster 3.16.")
@click.argument("file", type=click.Path(path_type=pathlib.Path, dir_okay=False))
@click.option("--write", is_flag=True, help="Write the changes; without it they are only shown.")
@json_option
def upgrade(file: pathlib.Path, write: bool, as_json: bool) -> int:
    """Bring an older config FILE up to ParallelCluster 3.16, as far as that is safe.

    Shows a diff; --write makes the changes. Comments and order are kept. Changes that need your
    decision are listed with their lines.

    \b
    Examples:
      clusterjobs clusters upgrade my-cluster.yaml
      clusterjobs clusters upgrade my-cluster.yaml --write
    """
    before = read_text(file)
    if is_description(before):
        raise one_problem(
            "a description of a Slurm cluster, which belongs to no release of ParallelCluster",
            Location(str(file), 1, 1),
            hint="clusterjobs clusters import --from-slurm describes the cluster as it is now",
        )
    result = upgraded(before, str(file))
    if write and result.text != before:
        file.write_bytes(result.text.encode())
    if as_json:
        print_json(
            {
                "changed": _rows(result.changed),
                "left": _rows(result.left),
                "notes": _rows(result.notes),
                "written": write,
            }
        )
        return 1 if result.left else 0
    for line in _diff_lines(before, result.text, str(file)):
        click.echo(styled(line, fg={"+": "green", "-": "red", "@": "cyan"}.get(line[:1])))
    if not result.changed:
        click.echo(f"{file}: nothing to change")
    elif not write:
        click.echo(f"{counted(len(result.changed), 'safe change')}; --write makes them", err=True)
    show_problems([*result.left, *result.notes])
    return 1 if result.left else 0


def _diff_lines(before: str, after: str, name: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    return difflib.unified_diff(old, new, name, f"{name} (upgraded)", lineterm="")


def _rows(found: Sequence[Problem]) -> list[dict[str, Any]]:
    return [
        {"line": problem.where and problem.where.line, "what": problem.what, "change": problem.hint}
        for problem in found
    ]
