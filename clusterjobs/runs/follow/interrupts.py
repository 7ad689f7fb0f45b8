"""Delays Ctrl-C and SIGTERM during a block that must not be interrupted."""

import contextlib
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

import click

from clusterjobs.console import printable
from clusterjobs.runs.jobs.cancellation import cancel_recorded
from clusterjobs.slurm.queue import Queued

_POSTPONED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Note:
    """A handler that notes the first signal."""

    def __init__(self, say: Callable[[], None]) -> None:
        self.say = say
        self.number: int | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number
        self.say()


@contextlib.contextmanager
def postponed_interrupts(say: Callable[[], None]) -> Iterator[None]:
    """Delay signals until the end of the block; `say` informs the user of a delayed one.

    Inside another such block, a signal is delayed until the end of the outer one: only there it is
    known what was submitted. Ignored signals, such as SIGHUP under nohup, stay ignored.
    """
    note = _Note(say)
    heeded = [one for one in _POSTPONED if signal.getsignal(one) != signal.SIG_IGN]
    previous = {one: signal.signal(one, note) for one in heeded}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if note.number is not None:
        around = previous[signal.Signals(note.number)]
        if not isinstance(around, _Note):
            raise KeyboardInterrupt
        around.number = around.number or note.number


# ------------------------------------------------------------------ leave running
# Ctrl-C while jobs are followed: asks whether to cancel them, else leaves them running.


_STOPPED, _NO_READER = 130, 141  # 128 + SIGINT, 128 + SIGPIPE: as a shell reports them


class Submitted:
    """What this command has submitted. `what`: "job 4711"; "" before the submission.

    `live`: the tasks to cancel, by the ids that scancel takes. `record`: the folder with the record
    of the submission. `more`: how to follow and to cancel it later.
    """

    what = ""
    live: Callable[[], Mapping[str, Sequence[Queued]]]
    record: pathlib.Path
    more: Sequence[str]

    def set(
        self,
        what: str,
        live: Callable[[], Mapping[str, Sequence[Queued]]],
        record: pathlib.Path,
        *more: str,
    ) -> None:
        self.what, self.live, self.record, self.more = what, live, record, more


@contextlib.contextmanager
def asks_before_it_stops() -> Iterator[Submitted]:
    """On Ctrl-C in the block, ask whether to cancel the submitted jobs, and end the command.

    Without a terminal, or after a second Ctrl-C, the jobs go on.
    """
    submitted = Submitted()
    try:
        yield submitted
    except KeyboardInterrupt:
        if not submitted.what:
            raise
        if _wants_to_cancel(submitted.what):
            _cancel(submitted.live(), submitted.record)
        else:
            _say_how_to_go_on(submitted)
        raise click.exceptions.Exit(_STOPPED) from None
    except BrokenPipeError:  # `clusterjobs run exp.yaml | head`
        if not submitted.what:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _say_how_to_go_on(submitted)
        raise click.exceptions.Exit(_NO_READER) from None


def _wants_to_cancel(what: str) -> bool:
    if not is_interactive():
        return False
    click.echo(err=True)
    try:
        return click.confirm(f"cancel {what}? Otherwise it goes on", default=False, err=True)
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return False


def is_interactive() -> bool:
    """Whether there is a terminal to ask the user."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _cancel(jobs: Mapping[str, Sequence[Queued]], record: pathlib.Path) -> None:
    refused = cancel_recorded(jobs, [record])
    for job_id in jobs:
        said = f"is not cancelled: {refused[job_id]}" if job_id in refused else "is cancelled"
        click.echo(printable(f"job {job_id} {said}"), err=True)
    if not jobs:
        click.echo("it has ended", err=True)


def _say_how_to_go_on(submitted: Submitted) -> None:
    click.echo(f"{submitted.what} goes on", err=True)
    for line in submitted.more:
        click.echo(f"  {line}", err=True)
