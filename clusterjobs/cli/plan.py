"""clusterjobs plan: prints each derived value with its reason."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import click

from clusterjobs.cli.summary import scripts_table, summary
from clusterjobs.console.options import group_option, set_option, spec_argument, user_option
from clusterjobs.console.show import print_json, printable, show_problems, table
from clusterjobs.frameworks.arguments import argument_key
from clusterjobs.plugins import BLOCKS
from clusterjobs.runs.load import load, read_spec
from clusterjobs.runs.needs import read_need_graph
from clusterjobs.runs.run import Run, point_rows, shown
from clusterjobs.script.shell import quote
from clusterjobs.sections.launch.render import argument_groups
from clusterjobs.sections.plan import Plan, Role
from clusterjobs.sections.roles.plan import role_data
from clusterjobs.sites.policy_files import supposed_user
from clusterjobs.spec.effective import Value, shown_value, single_values
from clusterjobs.spec.references import show

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
        show_sweep(run, point, points, as_json)
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


def plan_text(run: Run) -> str:
    """The plan as tables of values and reasons."""
    plan, (job,) = run.plan, run.planned_jobs
    sections = [summary(plan), *(text for one in BLOCKS.values() for text in one.text(job))]
    merged: list[_Row] = [(one.name, shown_value(one.value), one.origin) for one in _merged(run)]
    first = [("not from the spec itself", merged)] if merged else []
    for title, rows in [*first, *_sections(plan)]:
        cells = [[f"  {name}", str(value), reason] for name, value, reason in rows]
        sections.append(f"{title}\n{table(cells)}")
    return "\n\n".join(sections)


_Row = tuple[str, str | int, str]


def _merged(run: Run) -> list[Value]:
    """The values from defaults, from files that the spec extends, and from `--set`."""
    return [one for one in single_values(run.spec.merged) if one.role != "spec"]


def _sections(plan: Plan) -> list[tuple[str, list[_Row]]]:
    variables = plan.environment.variables
    return [
        ("derived", [(d.name, d.value, _with_source(d.reason, d.source)) for d in plan.derived]),
        ("sbatch", [(f"--{d.name}", _flag(d.value), d.reason) for d in plan.job.directives]),
        ("srun", [(f"--{d.name}", _flag(d.value), d.reason) for d in plan.launch.srun_options]),
        (
            "environment",
            [(v.name, show(v.value), _with_source(v.reason, v.source)) for v in variables],
        ),
        ("command", list(_command(plan))),
        *((f"role {role.name}", list(_role(role))) for role in plan.roles),
    ]


def _role(role: Role) -> Iterator[_Row]:
    yield _joined(role.words), "", f"roles.{role.name}.command"
    for one in role.options:
        yield f"--{one.name}", _flag(one.value), one.reason


def _command(plan: Plan) -> Iterator[_Row]:
    """Each argument with its values, and the key of the spec that it comes from."""
    launch = plan.launch
    if launch.prefix:
        yield _joined(launch.prefix), "", "prefix"
    program, *arguments = argument_groups(launch.words)
    default = f"framework: {plan.job.framework}"
    yield _joined(program), "", next(filter(None, map(launch.origins.get, program)), default)
    for first, *values in arguments:
        name, equals, value = first.partition("=")
        origin = launch.origins.get(name) or launch.origins.get(argument_key(name))
        yield show(name), _joined([value, *values] if equals else values), origin or default


def _joined(words: Sequence[str]) -> str:
    """Quoted as in job.sh."""
    return " ".join(map(quote, words))


def _flag(value: str | int | bool) -> str | int:
    if value is True:
        return ""
    return show(value) if isinstance(value, str) else value


def _with_source(reason: str, source: str) -> str:
    return f"{reason} ({source})" if source else reason


def plan_data(run: Run) -> dict[str, Any]:
    """The plan as data. Names and structure are stable across versions."""
    plan, (planned,) = run.plan, run.planned_jobs
    job, placement, batch = plan.job, plan.placement, plan.batch
    shape = placement.shape
    return {
        "name": job.name,
        "cluster": job.cluster,
        "partition": placement.partition,
        "instance_type": placement.node_type.name,
        "framework": job.framework,
        "launcher": plan.launch.launcher.name,
        "nodes": shape.nodes,
        "ranks_per_node": shape.ranks_per_node,
        "gpus_per_node": shape.gpus_per_node,
        "world_size": shape.world_size,
        "data_parallel": plan.parallelism.data,
        "batch": batch
        and {
            "micro": batch.micro,
            "accumulation": batch.accumulation,
            "global": batch.global_,
        },
        "roles": [role_data(role) for role in plan.roles],
        **{name: one.data(planned) for name, one in BLOCKS.items()},
        "merged": [
            {"name": one.name, "value": one.value, "origin": one.origin, "from": one.role}
            for one in _merged(run)
        ],
        "sections": {
            title: [
                {"name": name, "value": value, "reason": reason} for name, value, reason in rows
            ]
            for title, rows in _sections(plan)
        },
    }


# ------------------------------------------------------------------ show plan
#
# `clusterjobs plan` of a sweep: its points and scripts, and the plan of one point.


def show_sweep(run: Run, point: str | None, points: bool, as_json: bool) -> None:
    """Print the plan. `point`: the point to show, by default the first. `points`: only a table."""
    chosen = run.at(point or "0")
    show_problems(run.plan_warnings)
    if as_json:
        print_json({**plan_data(chosen), "sweep": _data(run)})
    elif points:
        click.echo(_points_table(run))
    else:
        assert chosen.spec.point
        click.echo(scripts_table(run))
        click.echo(f"\nthe point {chosen.spec.point.name}\n{plan_text(chosen)}")


def _points_table(run: Run) -> str:
    head, *rows = point_rows(run.tasks)
    return table([[printable(cell) for cell in row] for row in (head, *rows)])


def _data(run: Run) -> dict[str, Any]:
    """Names and structure are stable across versions."""
    files = zip(run.script_names, run.arrays, strict=True)
    scripts = [
        {"script": file, "points": len(one.table.points), "reason": one.reason}
        for file, one in files
    ]
    return {"name": run.name, "scripts": scripts, "points": list(_points(run))}


def _points(run: Run) -> Iterator[dict[str, Any]]:
    for file, task in run.tasks:
        point = task.point.point
        yield {
            "index": point.index,
            "name": point.name,
            "values": {key: shown(value) for key, value in point.values.items()},
            "script": file,
            "task": task.key,
            "content": task.point.content,
        }
