"""Run a function for many tasks in forked processes, which inherit the data they work on.

Only tasks and results go through pipes, encoded by `marshal`.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
import struct
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from stage_log import SourceError, StageError

MAX_WORKERS = 32  # with more, the node's network is the limit
BATCH_BYTES = 32 << 20
_TASKS_AHEAD = 2  # per process, so that it never waits for the next task
_SIZE = struct.Struct("<I")

Work = Callable[[Any], Any]


def worker_count() -> int:
    """The number of processes: one for each core that this process may use."""
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS)


def run_parallel(
    work: Work,
    tasks: Iterable[Any],
    on_result: Callable[[Any, Any], Iterable[Any]],
    on_tick: Callable[[], None] = lambda: None,
    more_tasks: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """Call `work(task)` for all tasks in forked processes. Raises StageError: the first error.

    `on_result` gets each task and its result, and returns further tasks. `on_tick` is called about
    once a second. `more_tasks`, polled many times a second, returns new tasks, and None at their
    end. A task has a few kB at most, because two must fit a pipe. The processes inherit the open
    files, so a lock is held until the last of them has ended.
    """
    waiting = list(tasks)[::-1]
    workers: Dict[int, Worker] = {}  # by the descriptor of their results
    poll = select.poll()
    try:
        _distribute(waiting, workers, work, poll)
        while more_tasks or any(one.tasks for one in workers.values()):
            if more_tasks:
                more = more_tasks()
                if more is None:
                    more_tasks = None
                else:
                    waiting.extend(more)
                _distribute(waiting, workers, work, poll)
            for descriptor, _ in poll.poll(20 if more_tasks else 1000):
                waiting.extend(on_result(*workers[descriptor].result()))
                _distribute(waiting, workers, work, poll)
            on_tick()
    finally:
        for one in workers.values():
            one.kill()
        for one in workers.values():
            one.close()


def _distribute(waiting: List[Any], workers: Dict[int, Worker], work: Work, poll: Any) -> None:
    """Give tasks to the workers with the fewest, and start further workers as needed."""
    while waiting:
        idlest = min(workers.values(), key=lambda one: len(one.tasks), default=None)
        if (idlest is None or idlest.tasks) and len(workers) < worker_count():
            idlest = Worker(work, workers)
            workers[idlest.result_pipe] = idlest
            poll.register(idlest.result_pipe, select.POLLIN)
        if idlest is None or len(idlest.tasks) == _TASKS_AHEAD:
            return
        idlest.send(waiting.pop())


class Worker:
    """The parent's side of one process."""

    def __init__(self, work: Work, others: Dict[int, Worker]) -> None:
        self.tasks: List[Any] = []
        child_tasks, self._task_pipe = os.pipe()
        self.result_pipe, child_results = os.pipe()
        if not others:
            gc.freeze()  # a collection in a child would copy all shared memory
        self._pid = os.fork()
        if self._pid == 0:
            for other in others.values():
                os.close(other._task_pipe)  # so that the pipe ends when the parent does
            os.close(self._task_pipe)
            os.close(self.result_pipe)
            _work_loop(work, child_tasks, child_results)
        os.close(child_tasks)
        os.close(child_results)

    def send(self, task: Any) -> None:
        self.tasks.append(task)
        try:
            _send(self._task_pipe, task)
        except OSError:  # it has ended: `result` finds that out
            return

    def result(self) -> Tuple[Any, Any]:
        """The oldest task, and its result."""
        try:
            error, result = _receive(self.result_pipe)
        except (EOFError, OSError):
            raise StageError("a copying process was killed: is the memory full?") from None
        if error:
            raise (SourceError if error == SourceError.__name__ else StageError)(result)
        return self.tasks.pop(0), result

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        os.waitpid(self._pid, 0)
        os.close(self._task_pipe)
        os.close(self.result_pipe)


def _work_loop(work: Work, tasks: int, results: int) -> None:
    """The main loop of a child. It ends with its parent, because then the pipe ends."""
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Copies get the permissions of their originals, but no other user may write to them.
        os.umask(0o002)
        while True:
            task = _receive(tasks)
            try:
                result = ("", work(task))
            except StageError as error:
                result = (type(error).__name__, str(error))
            _send(results, result)
    except (EOFError, BrokenPipeError):
        code = 0
    except BaseException as error:
        _send(results, (type(error).__name__, repr(error)))
    finally:
        os._exit(code)


def _send(pipe: int, value: Any) -> None:
    data = marshal.dumps(value)
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


def batches(sizes: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """Ranges (first, end) of neighbouring files, of at most BATCH_BYTES and 256 files."""
    most = max(1, min(256, len(sizes) // (worker_count() * 8)))
    first = 0
    while first < len(sizes):
        end = min(first + most, len(sizes))
        total = sum(sizes[first:end])
        while total > BATCH_BYTES and end > first + 1:
            end -= 1
            total -= sizes[end]
        yield first, end
        first = end


def interleaved(ranges: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Reorder, so that processes work in different folders: in one they block each other."""
    ordered = list(ranges)
    step = -(-len(ordered) // worker_count()) or 1
    return [one for first in range(step) for one in ordered[first::step]]
