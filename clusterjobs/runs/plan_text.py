"""A plan as text and as data: all values with their reasons, and the points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterjobs.console import printable, table
from clusterjobs.errors import counted
from clusterjobs.frameworks.arguments import argument_key
from clusterjobs.plugins import BLOCKS
from clusterjobs.runs.run import Run, point_rows, shown
from clusterjobs.script.shell import quote
from clusterjobs.sections.launch import argument_groups
from clusterjobs.sections.plan import Plan, Role
from clusterjobs.slurm.options import in_words, seconds_of
from clusterjobs.text import Text, partition, show

if TYPE_CHECKING:
    from clusterjobs.spec.effective import Value as MergedValue

# ------------------------------------------------------------------ summary
# A short summary of a run, printed after a render.


def summary(plan: Plan) -> str:
    """The job, its cluster, and the numbers that matter most."""
    job, shape, batch = plan.job, plan.placement.shape, plan.batch
    rows = [
        ("job", f"{job.name}: {job.title}"),
        ("cluster", f"{job.cluster}, partition {plan.placement.partition}"),
        (
            "ranks",
            f"{shape.world_size} = nodes {shape.nodes} x ranks per node {shape.ranks_per_node}",
        ),
    ]
    if batch:
        rows.append(
            (
                "batch",
                f"{batch.global_} = micro {batch.micro} x accumulation "
                f"{batch.accumulation} x data parallel {plan.parallelism.data}",
            )
        )
    rows += [(role.name, role.where(plan.placement.all_nodes)) for role in plan.roles]
    if plan.container:
        rows.append(("container", f"{show(plan.container.image)}, by {plan.container.runtime}"))
    rows.append(("time limit", _time_limit(job.time_limit)))
    return table([(f"{name}:", value) for name, value in rows])


def run_summary(run: Run) -> str:
    """The job; of a sweep, its points and scripts, and the job of its first point."""
    first = f"{scripts_table(run)}\n\nthe first point, {run.points[0].point.name}\n"
    return f"{first if run.sweep else ''}{summary(run.plan)}"


def scripts_table(run: Run) -> str:
    """The number of points in each script, and why it is a script of its own."""
    arrays, files = run.arrays, run.script_names
    scripts = "one script" if len(files) == 1 else f"{len(files)} scripts"
    rows = [("sweep:", f"{run.name}: {counted(len(run.points), 'point')} in {scripts}")]
    if len(files) > 1:
        for file, array in zip(files, arrays, strict=True):
            points = counted(len(array.table.points), "point")
            rows.append((f"  {file}", f"{points}: {array.reason}" if array.reason else points))
    return table(rows)


def _time_limit(written: str | None) -> str:
    """The time limit with its meaning in words: to Slurm, 24:00 is 24 minutes."""
    if written is None:
        return "the partition's own; without a limit, the job is not stopped"
    seconds = seconds_of(written)
    return f"{written} ({in_words(seconds)})" if seconds else written


def plan_text(run: Run) -> str:
    """The plan as tables of values and reasons."""
    plan, (job,) = run.plan, run.planned_jobs
    sections = [summary(plan), *(text for one in BLOCKS.values() for text in one.text(job))]
    from clusterjobs.spec.effective import shown_value

    merged: list[_Row] = [(one.name, shown_value(one.value), one.origin) for one in _merged(run)]
    first = [("not from the spec itself", merged)] if merged else []
    for title, rows in [*first, *_sections(plan)]:
        cells = [[f"  {name}", str(value), reason] for name, value, reason in rows]
        sections.append(f"{title}\n{table(cells)}")
    return "\n\n".join(sections)


_Row = tuple[str, str | int, str]


def _merged(run: Run) -> list[MergedValue]:
    """The values from defaults, from files that the spec extends, and from `--set`."""
    from clusterjobs.spec.effective import single_values  # a render shows none of them

    return [one for one in single_values(run.loaded.merged) if one.role != "spec"]


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
    known = filter(None, (launch.origins.get(show(word)) for word in program))
    yield _joined(program), "", next(known, default)
    for first, *values in arguments:
        name, equals, value = partition(first, "=")
        origin = launch.origins.get(show(name)) or launch.origins.get(argument_key(show(name)))
        yield quote(name), _joined([value, *values] if equals else values), origin or default


def _joined(words: Sequence[str | Text]) -> str:
    """Quoted as in job.sh."""
    return " ".join(map(quote, words))


def _flag(value: str | Text | int) -> str | int:
    if value is True:
        return ""
    return value if isinstance(value, int) else show(value)


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
        "roles": [role.data() for role in plan.roles],
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


# ------------------------------------------------------------------ points of a sweep


def points_table(run: Run) -> str:
    """The points of a sweep with their values and scripts."""
    head, *rows = point_rows(run.tasks)
    return table([[printable(cell) for cell in row] for row in (head, *rows)])


def sweep_data(run: Run) -> dict[str, Any]:
    """The points and scripts as data. Names and structure are stable across versions."""
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
