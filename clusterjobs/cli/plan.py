"""clusterjobs plan: prints each derived value with its reason."""

import pathlib
from collections.abc import Sequence

import click

from clusterjobs.console import (
    group_option,
    print_json,
    set_option,
    show_problems,
    spec_argument,
    user_option,
)
from clusterjobs.runs.load import load, read_spec
from clusterjobs.runs.needs import read_need_graph
from clusterjobs.runs.plan_text import plan_data, plan_text, points_table, scripts_table, sweep_data
from clusterjobs.runs.run import Run
from clusterjobs.sites.folders import supposed_user

_EXAMPLES = """\b
Examples:
  clusterjobs plan exp.yaml
  clusterjobs plan exp.yaml --set nodes=8
  clusterjobs plan exp.yaml --json | jq .world_size
  clusterjobs plan sweep.yaml --points
  clusterjobs plan sweep.yaml --point 7
  clusterjobs plan exp.yaml --graph              (the specs that it needs)
  clusterjobs plan exp.yaml --group students     (as the site's policies see a student)
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@set_option
@user_option
@group_option
@click.option(
    "--point", metavar="POINT", help="Show the plan of this point of a sweep: 3, or a name."
)
@click.option("--points", is_flag=True, help="Show a table of the sweep's points.")
@click.option("--graph", is_flag=True, help="Draw a graph of SPEC and all that it `needs`.")
@click.option(
    "--mermaid", is_flag=True, help="Print the graph as Mermaid, for a web page or an issue."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the graph, as JSON.")
def plan(
    spec: pathlib.Path,
    settings: tuple[str, ...],
    user: str | None,
    groups: tuple[str, ...],
    point: str | None,
    points: bool,
    graph: bool,
    mermaid: bool,
    as_json: bool,
) -> None:
    """Show each value derived from SPEC, each directive and variable, with its reason.

    For a sweep: its points and scripts, and the values of the first point.
    """
    if graph or mermaid:
        _show_graph(spec, settings, mermaid, as_json)
        return
    run = load(spec, settings, to_write=False, user=supposed_user(user, groups))
    if run.sweep:
        _show_sweep(run, point, points, as_json)
    elif points or point is not None:
        raise click.UsageError(f"--points, --point: {spec} has no sweep")
    elif as_json:
        show_problems(run.plan.warnings)
        print_json(plan_data(run))
    else:
        show_problems(run.plan.warnings)
        click.echo(plan_text(run))


def _show_graph(spec: pathlib.Path, settings: Sequence[str], mermaid: bool, as_json: bool) -> None:
    from clusterjobs.runs.needs import drawn_graph, graph_data, mermaid_graph

    _, files = read_spec(spec, settings)
    found = read_need_graph(files, files.load_points(settings))
    if as_json:
        print_json(graph_data(found))
    else:
        click.echo(mermaid_graph(found) if mermaid else drawn_graph(found))


def _show_sweep(run: Run, point: str | None, points: bool, as_json: bool) -> None:
    """Print the plan. `point`: the point to show, by default the first. `points`: only a table."""
    chosen = run.at(point or "0")
    show_problems(run.plan_warnings)
    if as_json:
        print_json({**plan_data(chosen), "sweep": sweep_data(run)})
    elif points:
        click.echo(points_table(run))
    else:
        assert chosen.loaded.point
        click.echo(scripts_table(run))
        click.echo(f"\nthe point {chosen.loaded.point.name}\n{plan_text(chosen)}")
