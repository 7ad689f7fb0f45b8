"""clusterjobs render-batch: renders many specs for the `impact` of another version.

It is not in --help. One JSON object per line on standard input and output: the first line that it
writes says which version it is; then each question has one answer. Keys may be added, none may
change its meaning: an old version answers a newer one.
"""

import collections
import concurrent.futures
import json
import multiprocessing
import multiprocessing.connection
import multiprocessing.process
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import click

from clusterjobs.admin.impact.differences import (
    Outcome,
    Rendered,
    outcome_of,
    render_for_comparison,
)
from clusterjobs.admin.impact.sides import Side, Sides
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.sites.folders import SiteFolders
from clusterjobs.version import __version__

COMMAND = "render-batch"


@click.command(COMMAND, hidden=True)
def render_batch() -> None:
    """Answer each question with the texts of the spec's files, or with a message.

    A question is {"spec": PATH, "site": [FOLDER, ...], "owned_as": PATH}.
    """
    _write({"clusterjobs": __version__})
    for question in _questions():
        site = SiteFolders(tuple(map(Path, question["site"])))
        owned_as = question.get("owned_as", "")
        _write(render_for_comparison(question["spec"], site, owned_as)._asdict())


def _questions() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def _write(answer: object) -> None:
    click.echo(json.dumps(answer))


class OtherVersion:
    """Another installed version of clusterjobs, in a process that answers until it is closed."""

    def __init__(self, executable: str) -> None:
        """Raises InputError if it cannot be started, or does not know the command."""
        self._executable = executable
        try:
            # In a session of its own: Ctrl-C at the terminal is for this process.
            self._process = subprocess.Popen(
                [executable, COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise one_problem(f"cannot start {executable}: {error.strerror}") from None
        self.version = str(self._answer().get("clusterjobs", ""))

    def render(self, spec: str, site: SiteFolders, owned_as: str = "") -> Rendered:
        """Do what `render_for_comparison` does, with the other version."""
        folders = list(map(str, site.folders))
        question = {"spec": spec, "site": folders, "owned_as": owned_as}
        try:
            self._stdin.write(json.dumps(question).encode() + b"\n")
            self._stdin.flush()
        except OSError:
            raise self._ended() from None
        answer = self._answer()
        return Rendered(**{key: answer[key] for key in Rendered._fields if key in answer})

    def close(self) -> None:
        """End the process, and forget it."""
        self.kill()
        self._process.communicate()

    def kill(self) -> None:
        """End the process, also from a signal handler."""
        self._process.kill()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            answer = json.loads(self._process.stdout.readline())
        except ValueError:
            raise self._ended() from None
        if not isinstance(answer, dict):
            raise self._ended()
        return answer

    def _ended(self) -> InputError:
        self.close()
        return one_problem(
            f"{self._executable} cannot render many specs at once",
            hint=f"it must be a clusterjobs that has `{COMMAND}`: 0.1.0 of 2026-11 or later; try "
            f"`{self._executable} {COMMAND} </dev/null`",
        )


def _environment() -> dict[str, str]:
    """The environment without this Python's variables, which may not suit the other one."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "CLUSTERJOBS_SITE")
    }


# ------------------------------------------------------------------ workers


_AT_ONCE = 20  # specs that a worker gets
_SECONDS_TO_END = 5
_AHEAD = 4  # such parts per worker: results are taken as they come, not gathered


_Part = list[Outcome] | tuple[Problem, ...]


class Comparison:
    """Renders a spec on both sides and compares. One for each process."""

    def __init__(self, before: Side, after: Side, bases: frozenset[str]) -> None:
        self._before, self._after, self._bases = before, after, bases
        self._other: OtherVersion | None = None

    def outcome(self, spec: str) -> Outcome:
        is_base = bool(self._bases) and os.path.realpath(spec) in self._bases
        earlier = self._before.spec(spec)
        before = self._render_before(earlier, spec) if earlier else None
        after = _shown(render_for_comparison(spec, self._after.site), self._after)
        names = (spec, earlier or "", Path(spec).parent.as_posix(), Path(spec).stem)
        return outcome_of(spec, before, after, names, is_base)

    def kill(self) -> None:
        """End what this has started."""
        if self._other:
            self._other.kill()

    def _render_before(self, spec: str, owned_as: str) -> Rendered:
        render = self._by_other if self._before.executable else render_for_comparison
        return _shown(render(spec, self._before.site, owned_as), self._before)

    def _by_other(self, spec: str, site: SiteFolders, owned_as: str) -> Rendered:
        """Raises InputError if the other version cannot be started (again)."""
        self._other = self._other or OtherVersion(str(self._before.executable))
        try:
            return self._other.render(spec, site, owned_as)
        except InputError:  # this spec has ended it
            self._other = None
            what = f"{self._before.executable} ended without an answer"
            return Rendered("", {}, f"{spec}: {what}", what)


def _shown(rendered: Rendered, side: Side) -> Rendered:
    if not rendered.failed:
        return rendered
    message, reason = side.readable(rendered.message), side.readable(rendered.reason)
    return rendered._replace(message=message, reason=reason, rule=side.readable(rendered.rule))


def outcomes(
    specs: Sequence[str], sides: Sides, bases: frozenset[str], jobs: int
) -> Generator[Outcome, None, None]:
    """The outcome of each spec, in order. Raises InputError if a worker was killed, or another
    version cannot be started.

    If the caller stops early, the workers end.
    """
    executor = concurrent.futures.ProcessPoolExecutor(
        jobs, initializer=_start, initargs=(sides, bases)
    )
    try:
        yield from _in_order(executor, specs, jobs * _AHEAD)
        executor.shutdown()
    except concurrent.futures.process.BrokenProcessPool:
        hint = "was it killed for its memory? --jobs 1 takes less"
        raise one_problem("a worker process ended", hint=hint) from None
    finally:
        _end_all(multiprocessing.active_children())
        executor.shutdown(cancel_futures=True)


def _end_all(workers: Sequence[multiprocessing.process.BaseProcess]) -> None:
    """SIGTERM, then SIGKILL: Python handles no signal that comes right before a blocking read."""
    for worker in workers:
        worker.terminate()
    end = time.monotonic() + _SECONDS_TO_END
    for worker in workers:
        worker.join(max(0, end - time.monotonic()))
        worker.kill()


def _in_order(
    executor: concurrent.futures.Executor, specs: Sequence[str], ahead: int
) -> Iterator[Outcome]:
    waiting: collections.deque[concurrent.futures.Future[_Part]] = collections.deque()
    for first in range(0, len(specs), _AT_ONCE):
        waiting.append(executor.submit(_compare, specs[first : first + _AT_ONCE]))
        if len(waiting) >= ahead:
            yield from _outcomes(waiting.popleft().result())
    while waiting:
        yield from _outcomes(waiting.popleft().result())


def _outcomes(part: _Part) -> list[Outcome]:
    if isinstance(part, tuple):
        raise InputError(part)
    return part


# ------------------------------------------------------------------ in a worker

_comparison: Comparison | None = None


def _start(sides: Sides, bases: frozenset[str]) -> None:
    global _comparison
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.chdir(sides.folder)
    _comparison = Comparison(sides.before, sides.after, bases)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    _end()


def _end(*_: object) -> NoReturn:
    if _comparison:
        _comparison.kill()
    os._exit(1)


def _compare(specs: Sequence[str]) -> _Part:
    assert _comparison is not None
    try:
        return [_comparison.outcome(spec) for spec in specs]
    except InputError as error:  # an exception with arguments of its own cannot be sent
        return error.problems
