"""clusterjobs status: shows the states of a spec's jobs, and how their attempts ended."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import click

from clusterjobs.commands.job_folders import spec_jobs
from clusterjobs.commands.options import spec_argument
from clusterjobs.commands.show import print_json, printable, table
from clusterjobs.commands.unstarted import Unstarted
from clusterjobs.jobs.records import NO_RECORD, read_folder, unrecorded_attempts
from clusterjobs.node.job.attempt_files import MAX_RECORDS
from clusterjobs.slurm.queue import Queued, queued_jobs

_EXAMPLES = """\b
Examples:
  clusterjobs status exp.yaml
  clusterjobs status exp.yaml 1234
  clusterjobs status exp.yaml --json | jq '.jobs[-1].attempts[-1].reason'
"""

_HEAD = ("job", "state", "attempts", "last checkpoint", "why")


@click.command(epilog=_EXAMPLES)
@spec_argument
@click.argument("job_id", required=False)
@click.option("--json", "as_json", is_flag=True, help="All jobs and attempts as JSON.")
def status(spec: pathlib.Path, job_id: str | None, as_json: bool) -> None:
    """Show the jobs of SPEC; with JOB_ID, each attempt of that job, its data and its exports.

    It reads the files of the jobs below `logs`, and asks Slurm about pending and running jobs.
    """
    queued = queued_jobs()
    found = spec_jobs(spec, queued)
    jobs = [
        _job(name, folder, queued, found.unstarted.get(name))
        for name, folder in found.folders.items()
        if job_id in (None, name)
    ]
    if job_id or not as_json:
        found.chosen(job_id)  # raises if there is none
    if as_json:
        print_json({"slurm": queued is not None, "jobs": jobs})
    else:
        if queued is None:
            click.echo("there is no Slurm here: only what the jobs have written is known", err=True)
        _show(jobs, in_detail=job_id is not None)
        shown = [job["job_id"] for job in jobs]
        unstarted = [one.note(name) for name, one in found.unstarted.items() if name in shown]
        for note in (*_notes(jobs, str(spec)), *unstarted):
            click.echo(printable(note), err=True)


def _show(jobs: list[dict[str, Any]], in_detail: bool) -> None:
    click.echo(table([_HEAD, *map(_row, jobs)]))
    if in_detail:
        click.echo()
        click.echo(table([_ATTEMPT_HEAD, *map(_attempt_row, jobs[0]["attempts"])]))
        if jobs[0]["data"]:
            click.echo()
            click.echo(table([_DATA_HEAD, *map(_data_row, jobs[0]["data"])]))
        if jobs[0]["exports"]:
            click.echo()
            click.echo(table([_EXPORT_HEAD, *map(_export_row, jobs[0]["exports"])]))


def _notes(jobs: list[dict[str, Any]], spec: str) -> Iterator[str]:
    for job in jobs:
        for file in job["cut"]:
            yield f"{file} is very large: only its last {MAX_RECORDS >> 20} MiB was read"
        if job["attempts"] and job["attempts"][-1]["reason"] == NO_RECORD:
            yield no_record_note(job["job_id"], job["attempts"][-1]["number"], spec)


def no_record_note(job_id: str, attempt: int, spec: str) -> str:
    """What may have happened to an attempt without a record, and how to go on."""
    return (
        f"job {job_id}: attempt {attempt} began and has no record, and Slurm has ended the job: "
        "its script was killed (kill -9, or out of memory), its node was lost, or its folder could "
        "not be written. It does not restart by itself. To start it again, from its newest "
        f"checkpoint if there is one: clusterjobs submit {spec}"
    )


def _job(
    job_id: str,
    folder: pathlib.Path,
    all_queued: Mapping[str, Queued] | None,
    unstarted: Unstarted | None,
) -> dict[str, Any]:
    queued, records = (all_queued or {}).get(job_id), read_folder(folder)
    attempts = records.attempts
    if all_queued is not None and queued is None:
        attempts += unrecorded_attempts(folder, attempts)
    state, reason, log = "", "", folder / "job.log"
    if queued:
        state, reason = queued.state, queued.reason
    elif unstarted:
        state, reason, log = unstarted.state, unstarted.why, unstarted.output or log
    return {
        "job_id": job_id,
        "state": state,
        "state_reason": reason,
        "time_left": queued.time_left if queued else "",
        "nodes": queued.nodes if queued else "",
        "log": str(log),
        "has_folder": unstarted is None,
        "attempts": [asdict(one) for one in attempts],
        "data": [asdict(one) for one in records.data],
        "exports": [asdict(one) | {"incomplete": one.is_incomplete} for one in records.exports],
        "cut": records.cut,
    }


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    ended = job["attempts"]
    last: dict[str, Any] = (
        ended[-1] if ended else {"reason": "", "checkpoint": "", "exit_code": None}
    )
    state = job["state"] or "ended"
    code = "" if last["exit_code"] is None else f", exit code {last['exit_code']}"
    why = f"{last['reason']}{code}" if last["reason"] else ""
    if not job["has_folder"]:
        why = "not_started"
    if job["state"] == "PENDING":
        why = f"{why}; waits: {job['state_reason']}" if why else f"waits: {job['state_reason']}"
    if any(one["incomplete"] for one in job["exports"]):
        why = f"{why}; export incomplete" if why else "export incomplete"
    count = len(ended) + (job["state"] == "RUNNING")
    return (job["job_id"], state, str(count), printable(last["checkpoint"]), printable(why))


_ATTEMPT_HEAD = ("attempt", "why it ended", "exit code", "last checkpoint", "seconds", "nodes")


def _attempt_row(attempt: dict[str, Any]) -> tuple[str, ...]:
    names = ("number", "reason", "exit_code", "checkpoint", "seconds", "nodes")
    return tuple("" if attempt[name] is None else printable(str(attempt[name])) for name in names)


_DATA_HEAD = ("data", "node", "how it stands")


def _data_row(state: dict[str, Any]) -> tuple[str, ...]:
    return tuple(printable(state[name]) for name in ("what", "node", "said"))


_EXPORT_HEAD = ("export", "how it stands")


def _export_row(state: dict[str, Any]) -> tuple[str, ...]:
    return tuple(printable(state[name]) for name in ("what", "said"))
