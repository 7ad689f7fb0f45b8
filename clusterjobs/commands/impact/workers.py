"""Renders and compares specs in several processes, in the order of their paths.

Knows processes; it must not know what is compared, and must not print.
"""

from __future__ import annotations

import collections
import concurrent.futures
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from clusterjobs.commands.impact.batch import OtherVersion
from clusterjobs.commands.impact.groups import Outcome, outcome_of
from clusterjobs.commands.impact.rendering import Rendered, render_for_comparison
from clusterjobs.commands.impact.sides import Side, Sides
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.errors import InputError, Problem, one_problem

_AT_ONCE = 20  # specs that a worker gets
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
        words = (spec, earlier or "", Path(spec).parent.as_posix(), Path(spec).stem)
        return outcome_of(spec, before, after, words, is_base)

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
        for worker in multiprocessing.active_children():
            worker.terminate()
        executor.shutdown(cancel_futures=True)


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
