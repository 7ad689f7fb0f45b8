"""Work shared out over forked processes: what they work on, they have from the fork.

Only what names the work and what comes of it passes the pipes, as Python's `marshal` writes it.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import struct
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from stage_log import StageError

MOST_WORKERS = 32  # beyond it, one node's network is the limit
BATCH_BYTES = 32 << 20
_AHEAD = 2  # pieces that a process has at a time, so that it never waits for one
_SIZE = struct.Struct("<I")

Work = Callable[[Any], Any]


def workers() -> int:
    """How many processes: as many as this task may use cores."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def run_all(
    work: Work,
    pieces: Iterable[Any],
    done: Callable[[Any, Any], Iterable[Any]],
    tick: Callable[[], None] = lambda: None,
    further: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """`work(piece)` for all pieces, in forked processes. Raises StageError: the first error of any.

    `done` hears of each piece and its result, and gives what more there is to do; `tick` is called
    about once a second; `further`, asked many times a second, gives pieces as they come, at their
    end None. A piece is a few kB at most, for two of them must fit a pipe. The processes hold what
    this one has open, so that a lock is held until the last of them is gone.
    """
    waiting = list(pieces)[::-1]
    crew: Dict[int, _Worker] = {}
    poll = select.poll()
    try:
        _hand_out(waiting, crew, work, poll)
        while further or any(one.pieces for one in crew.values()):
            if further:
                more = further()
                if more is None:
                    further = None
                else:
                    waiting.extend(more)
                _hand_out(waiting, crew, work, poll)
            for descriptor, _ in poll.poll(20 if further else 1000):
                more = done(*crew[descriptor].result())
                waiting.extend(more)
                _hand_out(waiting, crew, work, poll)
            tick()
    finally:
        for one in crew.values():
            one.kill()
        for one in crew.values():
            one.bury()


def _hand_out(waiting: List[Any], crew: Dict[int, "_Worker"], work: Work, poll: Any) -> None:
    while waiting:
        one = min(crew.values(), key=lambda one: len(one.pieces), default=None)
        if (one is None or one.pieces) and len(crew) < workers():
            one = _Worker(work, crew)
            crew[one.answers] = one
            poll.register(one.answers, select.POLLIN)
        if one is None or len(one.pieces) == _AHEAD:
            return
        one.take(waiting.pop())


class _Worker:
    """One process, from this side of the pipes."""

    def __init__(self, work: Work, others: Dict[int, "_Worker"]) -> None:
        self.pieces: List[Any] = []
        theirs, self._tasks = os.pipe()
        self.answers, their_answers = os.pipe()
        if not others:
            gc.freeze()  # a collection in a process would copy all the memory that it shares
        self._pid = os.fork()
        if self._pid == 0:
            for other in others.values():
                os.close(other._tasks)  # which end when their holder does
            os.close(self._tasks)
            os.close(self.answers)
            _work_until_told(work, theirs, their_answers)
        os.close(theirs)
        os.close(their_answers)

    def take(self, piece: Any) -> None:
        self.pieces.append(piece)
        try:
            _send(self._tasks, piece)
        except OSError:  # its end is found when its answer is read
            return

    def result(self) -> Tuple[Any, Any]:
        """The piece that is done, and what came of it."""
        try:
            is_good, answer = _receive(self.answers)
        except (EOFError, OSError):
            raise StageError("a copying process was killed: is the memory full?") from None
        if not is_good:
            raise StageError(answer)
        return self.pieces.pop(0), answer

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def bury(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._tasks)
        os.close(self.answers)


def _work_until_told(work: Work, tasks: int, answers: int) -> None:
    """The life of one process; it ends when its parent does, for then the pipe ends."""
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0)  # a copy has its original's permissions
        while True:
            piece = _receive(tasks)
            try:
                answer = (True, work(piece))
            except StageError as error:
                answer = (False, str(error))
            _send(answers, answer)
    except (EOFError, BrokenPipeError):
        code = 0
    except BaseException as error:
        _send(answers, (False, repr(error)))
    finally:
        os._exit(code)


def _send(pipe: int, what: Any) -> None:
    data = marshal.dumps(what)
    left = memoryview(_SIZE.pack(len(data)) + data)
    while left:
        left = left[os.write(pipe, left) :]


def _receive(pipe: int) -> Any:
    return marshal.loads(_read(pipe, *_SIZE.unpack(_read(pipe, _SIZE.size))))


def _read(pipe: int, count: int) -> bytes:
    parts, left = [], count
    while left:
        part = os.read(pipe, left)
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def batches_of(sizes: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """Neighbours together, (first, end), up to one block's bytes or some hundred files."""
    most = max(1, min(256, len(sizes) // (workers() * 8)))
    first = 0
    while first < len(sizes):
        end = min(first + most, len(sizes))
        total = sum(sizes[first:end])
        while total > BATCH_BYTES and end > first + 1:
            end -= 1
            total -= sizes[end]
        yield first, end
        first = end


def apart(batches: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Neighbours not one after the other: two processes in one folder wait for each other."""
    those = list(batches)
    step = -(-len(those) // workers()) or 1
    return [one for first in range(step) for one in those[first::step]]
