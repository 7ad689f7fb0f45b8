"""clusterjobs clusters: show, compare and upgrade the files of clusters."""

from __future__ import annotations

import dataclasses
import difflib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import click

from clusterjobs.cli.cluster_tables import cluster_data, list_text, show_text, value_text
from clusterjobs.clusters.described.read import is_description
from clusterjobs.console.show import print_json, show_problems, styled
from clusterjobs.counted import counted
from clusterjobs.errors import Location, Problem, one_problem
from clusterjobs.importing.command import import_
from clusterjobs.runs.clusters import Described, find_config_file, named_clusters, read_cluster_file
from clusterjobs.sites.folders import read_text
from clusterjobs.validation.compare import differences

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
_site = click.option(
    "--site",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="The site.yaml to use.",
)


@click.group()
def clusters() -> None:
    """The files of clusters: the ready ones and your own.

    \b
    Examples:
      clusterjobs clusters list
      clusterjobs clusters show p4d-a100
      clusterjobs clusters import --from-slurm > my-cluster.yaml
      clusterjobs clusters diff p4d-a100 my-cluster.yaml
      clusterjobs clusters upgrade my-cluster.yaml
    """


clusters.add_command(import_)


@clusters.command(name="list", short_help="List the clusters that a spec can name.")
@_json
def list_(as_json: bool) -> int:
    """List the clusters that a spec can name: queues, nodes, GPUs, fabric, storage, price, file.

    They are the ready ones, and `clusters/NAME.yaml` in the site folders.

    \b
    Examples:
      clusterjobs clusters list
      clusterjobs clusters list --json | jq '.[].name'
    """
    rows, problems = named_clusters()
    if as_json:
        print_json([{**cluster_data(row.config), **row.origin()} for row in rows])
    else:
        click.echo(list_text(rows))
    show_problems(problems)
    return 1 if problems else 0


@clusters.command(short_help="Show the queues, nodes and storage of a cluster.")
@click.argument("cluster")
@_site
@_json
def show(cluster: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show what CLUSTER has: a cluster's name, a ParallelCluster config, or a description.

    \b
    Examples:
      clusterjobs clusters show p4d-a100
      clusterjobs clusters show my-cluster.yaml --json
    """
    config = read_cluster_file(find_config_file(cluster), site)
    if as_json:
        print_json(cluster_data(config))
    else:
        click.echo(show_text(config))


@clusters.command(short_help="Print the values that your site.yaml lacks.")
@click.argument("cluster")
def site(cluster: str) -> None:
    """Print the values that site.yaml lacks for CLUSTER, for you to fill in.

    \b
    Examples:
      clusterjobs clusters site p4d-a100 >> site.yaml
    """
    from clusterjobs.clusters.parallelcluster.site_values import site_form

    config = read_cluster_file(find_config_file(cluster))
    if isinstance(config, Described):
        click.echo(f"{config.file} describes a Slurm cluster: it has no values of a site", err=True)
        return
    form = site_form(config.document, config.site)
    if form.lines:
        click.echo(f"# Values of your site for {config.cluster.name}:")
    for line in form.lines:
        click.echo(line)
    if form.blank:
        click.echo(f"your site.yaml has no value for {', '.join(form.blank)}", err=True)
    elif not form.lines:
        click.echo("your site.yaml has all values", err=True)


@clusters.command(short_help="Compare two configs.")
@click.argument("old")
@click.argument("new")
@_site
@_json
def diff(old: str, new: str, site: pathlib.Path | None, as_json: bool) -> None:
    """Show how config NEW differs from OLD, and what a running cluster needs to get there.

    Order, comments and spelled-out defaults make no difference. A ParallelCluster config and a
    description of a Slurm cluster are compared by what a plan knows of them.

    \b
    Examples:
      clusterjobs clusters diff running.yaml wanted.yaml
      clusterjobs clusters diff p5-h100 p5-h100-capacity-block --json
    """
    from clusterjobs.validation import optional_deps

    first, second = (read_cluster_file(find_config_file(name), site) for name in (old, new))
    found = differences(first, second)
    if as_json:
        print_json([dataclasses.asdict(difference) for difference in found])
        return
    if not found:
        click.echo("no difference")
    for difference in found:
        click.echo(
            f"{difference.path}: {value_text(difference.old)} -> {value_text(difference.new)}"
        )
        if difference.when:
            click.echo(f"    {_WHEN[difference.when]}")
        if difference.needs and difference.needs != "-":
            click.echo(f"    ParallelCluster: {difference.needs}")
    is_described = isinstance(first, Described) or isinstance(second, Described)
    if found and not is_described and not optional_deps.is_installed():
        what = "skipped: what a running cluster takes, by ParallelCluster's update policies"
        click.echo(f"{what}; {optional_deps.HOW_TO_INSTALL} adds them", err=True)


_WHEN = {
    "running": "can be applied while the cluster runs",
    "replaced": "can be applied while the cluster runs: QueueUpdateStrategy replaces the nodes",
    "stopped": "needs its nodes stopped or replaced",
    "queue": "needs another queue in place of this one",
    "cluster": "needs a new cluster",
}


@clusters.command(short_help="Bring an older config up to ParallelCluster 3.16.")
@click.argument("file", type=click.Path(path_type=pathlib.Path, dir_okay=False))
@click.option("--write", is_flag=True, help="Write the changes; without it they are only shown.")
@_json
def upgrade(file: pathlib.Path, write: bool, as_json: bool) -> int:
    """Bring an older config FILE up to ParallelCluster 3.16, as far as that is safe.

    Shows a diff; --write makes the changes. Comments and order are kept. Changes that need your
    decision are listed with their lines.

    \b
    Examples:
      clusterjobs clusters upgrade my-cluster.yaml
      clusterjobs clusters upgrade my-cluster.yaml --write
    """
    from clusterjobs.validation.upgrade import upgrade as make_changes

    before = read_text(file)
    if is_description(before):
        raise one_problem(
            "a description of a Slurm cluster, which belongs to no release of ParallelCluster",
            Location(str(file), 1, 1),
            hint="clusterjobs clusters import --from-slurm describes the cluster as it is now",
        )
    result = make_changes(before, str(file))
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
