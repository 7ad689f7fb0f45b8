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

from clusterjobs.commands.impact.batch import OtherVersion
from clusterjobs.commands.impact.groups import Outcome, outcome_of
from clusterjobs.commands.impact.rendering import Rendered, render_for_comparison
from clusterjobs.commands.impact.sides import Side
from clusterjobs.errors import one_problem

_AT_ONCE = 20  # specs that a worker gets
_AHEAD = 4  # such parts per worker: results are taken as they come, not gathered


class Comparison:
    """Renders a spec on both sides and compares. One for each process."""

    def __init__(self, before: Side, after: Side, bases: frozenset[str]) -> None:
        self._before, self._after, self._bases = before, after, bases
        self._other = OtherVersion(before.executable) if before.executable else None

    def outcome(self, spec: str) -> Outcome:
        is_base = bool(self._bases) and os.path.realpath(spec) in self._bases
        earlier = self._before.spec(spec)
        before = self._render_before(earlier) if earlier else None
        after = _shown(render_for_comparison(spec, self._after.site), self._after)
        words = (spec, earlier or "", Path(spec).parent.as_posix(), Path(spec).stem)
        return outcome_of(spec, before, after, words, is_base)

    def _render_before(self, spec: str) -> Rendered:
        render = self._other.render if self._other else render_for_comparison
        return _shown(render(spec, self._before.site), self._before)


def _shown(rendered: Rendered, side: Side) -> Rendered:
    if not rendered.failed:
        return rendered
    message, reason = side.readable(rendered.message), side.readable(rendered.reason)
    return rendered._replace(message=message, reason=reason)


def outcomes(
    specs: Sequence[str], before: Side, after: Side, bases: frozenset[str], jobs: int
) -> Generator[Outcome, None, None]:
    """The outcome of each spec, in order. Raises InputError if a worker was killed.

    If the caller stops early, the workers end.
    """
    executor = concurrent.futures.ProcessPoolExecutor(
        jobs, initializer=_start, initargs=(before, after, bases)
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
    waiting: collections.deque[concurrent.futures.Future[list[Outcome]]] = collections.deque()
    for first in range(0, len(specs), _AT_ONCE):
        waiting.append(executor.submit(_compare, specs[first : first + _AT_ONCE]))
        if len(waiting) >= ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


# ------------------------------------------------------------------ in a worker

_comparison: Comparison


def _start(before: Side, after: Side, bases: frozenset[str]) -> None:
    global _comparison
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.chdir("/")  # a site.yaml in the working folder is not that of the specs' users
    _comparison = Comparison(before, after, bases)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _compare(specs: Sequence[str]) -> list[Outcome]:
    return [_comparison.outcome(spec) for spec in specs]
