"""clusterjobs status: shows the states of a spec's jobs, and how their attempts ended."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict
from typing import Any

import click

from clusterjobs.commands.job_folders import spec_jobs
from clusterjobs.commands.options import spec_argument
from clusterjobs.commands.show import printable, table
from clusterjobs.jobs.records import read_attempts, read_data
from clusterjobs.regular_file import open_regular
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
    """Show the jobs of SPEC, or each attempt of one: why it ended, its last checkpoint, its data.

    It reads the files of the jobs below `logs`, and asks Slurm about pending and running jobs.
    """
    queued = queued_jobs()
    found = spec_jobs(spec, queued)
    jobs = [
        _job(name, folder, (queued or {}).get(name))
        for name, folder in found.folders.items()
        if job_id in (None, name)
    ]
    if as_json:
        click.echo(json.dumps({"slurm": queued is not None, "jobs": jobs}, indent=2))
    if job_id or not as_json:
        found.chosen(job_id)  # raises if there is none
    if not as_json:
        if queued is None:
            click.echo("there is no Slurm here: only what the jobs have written is known", err=True)
        _show(jobs, in_detail=job_id is not None)


def _show(jobs: list[dict[str, Any]], in_detail: bool) -> None:
    click.echo(table([_HEAD, *map(_row, jobs)]))
    if in_detail:
        click.echo()
        click.echo(table([_ATTEMPT_HEAD, *map(_attempt_row, jobs[0]["attempts"])]))
        if jobs[0]["data"]:
            click.echo()
            click.echo(table([_DATA_HEAD, *map(_data_row, jobs[0]["data"])]))


def _job(job_id: str, folder: pathlib.Path, queued: Queued | None) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "state": queued.state if queued else "",
        "state_reason": queued.reason if queued else "",
        "time_left": queued.time_left if queued else "",
        "nodes": queued.nodes if queued else "",
        "log": str(folder / "job.log"),
        "attempts": [asdict(one) for one in read_attempts(_text(folder / "attempts.jsonl"))],
        "data": [asdict(one) for one in read_data(_text(folder / "data.jsonl"))],
    }


def _text(file: pathlib.Path) -> str:
    """Its text; "" if there is none that this user may read."""
    try:
        with open_regular(file) as opened:
            return opened.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _row(job: dict[str, Any]) -> tuple[str, ...]:
    ended = job["attempts"]
    last: dict[str, Any] = (
        ended[-1] if ended else {"reason": "", "checkpoint": "", "exit_code": None}
    )
    state = job["state"] or "ended"
    code = "" if last["exit_code"] is None else f", exit code {last['exit_code']}"
    why = f"{last['reason']}{code}" if last["reason"] else ""
    if job["state"] == "PENDING":
        why = f"{why}; waits: {job['state_reason']}" if why else f"waits: {job['state_reason']}"
    count = len(ended) + (job["state"] == "RUNNING")
    return (job["job_id"], state, str(count), printable(last["checkpoint"]), printable(why))


_ATTEMPT_HEAD = ("attempt", "why it ended", "exit code", "last checkpoint", "seconds", "nodes")


def _attempt_row(attempt: dict[str, Any]) -> tuple[str, ...]:
    names = ("number", "reason", "exit_code", "checkpoint", "seconds", "nodes")
    return tuple("" if attempt[name] is None else printable(str(attempt[name])) for name in names)


_DATA_HEAD = ("data", "node", "how it stands")


def _data_row(state: dict[str, Any]) -> tuple[str, ...]:
    return tuple(printable(state[name]) for name in ("what", "node", "said"))
