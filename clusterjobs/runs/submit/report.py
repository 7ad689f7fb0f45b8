"""The report of `submit` about a sweep: which points it submits, and why not the others."""

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from clusterjobs.console import printable, table
from clusterjobs.errors import counted
from clusterjobs.runs.jobs.states import COMPLETED, PENDING, PointState, counts_in_words
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.needed_jobs import BY_NAME, KnownJobs
from clusterjobs.runs.submit.points import Chosen, RunJob, RunSubmission, SubmitOptions, former_note
from clusterjobs.slurm.jobs import in_words
from clusterjobs.spec.need_graph import NeedingSpec


def job_line(job: RunJob) -> str:
    """One call of sbatch."""
    said = (
        "submitted, but sbatch printed no job id"
        if job.job_id is None
        else f"submitted job {job.job_id}"
    )
    array = f", --array={job.array}" if job.array else ""
    return f"{said}: {counted(len(job.points), 'point')}{array} ({job.script})"


def submission_text(done: RunSubmission) -> str:
    """Which points were submitted and which were not, by their states."""
    lines = [] if done.jobs else ["nothing to submit"]
    submitted, others = _split(done.chosen)
    if submitted:
        counts = counts_in_words(submitted).replace(COMPLETED, f"that had {COMPLETED}")
        lines.append(f"{counted(len(submitted), 'point')} submitted: {counts}")
    if others:
        lines.append(f"{counted(len(others), 'point')} not submitted: {counts_in_words(others)}")
    if done.chosen.former:
        lines.append(former_note(done.chosen.former))
    return "\n".join(lines)


def _split(chosen: Chosen) -> tuple[list[PointState], list[PointState]]:
    names = set(chosen.names)
    submitted = [one for name, one in chosen.states.items() if name in names]
    return submitted, [one for name, one in chosen.states.items() if name not in names]


def submission_data(run: Run, done: RunSubmission, output: pathlib.Path) -> dict[str, Any]:
    """The submission as data. Names are stable across versions."""
    jobs = [
        {
            "job_id": job.job_id,
            "cluster": job.cluster,
            "script": str(output / job.script),
            "array": job.array,
            "points": job.tasks,
        }
        for job in done.jobs
    ]
    return {**chosen_data(run, done.chosen), "jobs": jobs}


def chosen_data(run: Run, chosen: Chosen) -> dict[str, Any]:
    """The points with their states before the submission."""
    names = set(chosen.names)
    points = [
        {
            "name": name,
            "state": one.state,
            "reason": one.reason,
            "job_id": one.job_id or None,
            "submitted": name in names,
        }
        for name, one in chosen.states.items()
    ]
    former = [{"name": name, "job_id": job_id} for name, job_id in chosen.former.items()]
    return {"sweep": run.name, "points": points, "former_points": former, "jobs": []}


def chosen_table(chosen: Chosen, options: SubmitOptions) -> str:
    """A row for each point: its state, and whether it would be submitted."""
    names = set(chosen.names)
    rows = [("point", "state", "would be submitted")]
    for name, one in chosen.states.items():
        rows.append(
            (name, printable(_in_words(one)), "yes" if name in names else _why_not(one, options))
        )
    last = f"{len(names):,} of {counted(len(chosen.states), 'point')} would be submitted"
    former = f"\n{former_note(chosen.former)}" if chosen.former else ""
    return f"{table(rows)}\n\n{last}{former}"


def _in_words(one: PointState) -> str:
    """The state and its reason, in the words of `status`."""
    reason = in_words(one.reason) if one.state == PENDING else one.reason
    return one.state if reason in ("", "None", one.state) else f"{one.state}, {reason}"


def _why_not(one: PointState, options: SubmitOptions) -> str:
    if one.in_queue:
        return f"no: it is in the queue, {one.job_id}"
    if one.state == COMPLETED and not options.completed:
        return "no: it has a result (--all runs it again)"
    return "no: it is not selected"


# ------------------------------------------------------------------ needs report
# The report of `submit` about the specs and jobs that a spec needs.


class NeedRow(NamedTuple):
    """One needed spec, or job, for people and scripts: its jobs, and why they were submitted, or
    why not."""

    spec: str
    job_ids: tuple[str, ...]
    submitted: bool
    why: str


def row_to_submit(one: NeedingSpec, known: KnownJobs, names: tuple[str, ...]) -> NeedRow:
    """The row of a spec whose named points will be submitted."""
    states = [known.states[name] for name in names]
    points = f"{len(names)} of {len(known.states)} points: {counts_in_words(states)}"
    return NeedRow(one.file, (), True, points if one.is_sweep else states[0].why_submitted)


def row_of_others(one: NeedingSpec, known: KnownJobs) -> NeedRow:
    """The row of a spec that needs no submission."""
    states = known.states.values()
    ids = tuple(dict.fromkeys(s.job_id.partition("_")[0] for s in states if s.job_id))
    state = counts_in_words(states) if one.is_sweep else next(iter(states)).state
    by_name = ", found by its name" if any(s.reason == BY_NAME for s in states) else ""
    return NeedRow(one.file, ids, False, f"there already: {state}{by_name}")


def needs_table(rows: Sequence[NeedRow]) -> str:
    """A row for each spec that is needed: its jobs, and why it was submitted, or why not."""
    titles = ("needs", "submitted", "job", "why")
    cells = [
        (printable(one.spec), _answer(one), ", ".join(one.job_ids), printable(one.why))
        for one in rows
    ]
    return table([titles, *cells])


def _answer(row: NeedRow) -> str:
    """A dry run has no ids."""
    if not row.submitted:
        return "no"
    return "yes" if row.job_ids else "would be"


def needs_data(rows: Sequence[NeedRow]) -> list[dict[str, Any]]:
    """The rows as data. Names are stable across versions."""
    return [
        {
            "spec": one.spec,
            "job_ids": list(one.job_ids),
            "submitted": one.submitted,
            "why": one.why,
        }
        for one in rows
    ]
