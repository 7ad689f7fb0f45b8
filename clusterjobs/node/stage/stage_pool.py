"""Run a function for many tasks in forked processes, which inherit the data they work on.

Only tasks and results go through pipes, encoded by `marshal`.
"""

from __future__ import annotations

import gc
import marshal
import os
import select
import signal
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from stage_log import SourceError, StageError

MAX_WORKERS = 32  # with more, the node's network is the limit
BATCH_BYTES = 32 << 20


def worker_count() -> int:
    """The number of processes: one for each core that this process may use."""
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS)


def run_parallel(
    work: Callable[[Any], Any],
    tasks: Iterable[Any],
    on_result: Callable[[Any, Any], Iterable[Any]],
    on_tick: Callable[[], None] = lambda: None,
    more_tasks: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """Call `work(task)` for all tasks in forked processes. Raises StageError: the first error.

    `on_result` gets each task and its result, and returns further tasks. `on_tick` is called about
    once a second. `more_tasks`, polled many times a second, returns new tasks, and None at their
    end. The processes inherit the open files, so a lock is held until the last of them has ended.
    """
    waiting = list(tasks)[::-1]
    workers: Dict[int, Worker] = {}  # by the descriptor of their results
    idle: List[Worker] = []
    poll = select.poll()
    try:
        while True:
            more = more_tasks() if more_tasks else None
            waiting.extend(more or ())
            more_tasks = None if more is None else more_tasks
            while waiting and (idle or len(workers) < worker_count()):
                if not idle:
                    idle.append(Worker(work, is_first=not workers))
                    workers[idle[0].results.fileno()] = idle[0]
                    poll.register(idle[0].results, select.POLLIN)
                idle.pop().send(waiting.pop())
            if len(idle) == len(workers) and not more_tasks:
                return
            for descriptor, _ in poll.poll(20 if more_tasks else 1000):
                one = workers[descriptor]
                waiting.extend(on_result(*one.result()))
                idle.append(one)
            on_tick()
    finally:
        for one in workers.values():
            os.kill(one.pid, signal.SIGKILL)
        for one in workers.values():
            os.waitpid(one.pid, 0)
            one.tasks.close()
            one.results.close()


class Worker:
    """The parent's side of one process, which ends when the parent does: then its pipe ends."""

    def __init__(self, work: Callable[[Any], Any], is_first: bool) -> None:
        child_tasks, tasks = os.pipe()
        results, child_results = os.pipe()
        if is_first:
            gc.freeze()  # a collection in a child would copy all shared memory
        self.pid = os.fork()
        if self.pid == 0:
            os.close(tasks)
            _work_loop(work, os.fdopen(child_tasks, "rb"), os.fdopen(child_results, "wb"))
        os.close(child_tasks)
        os.close(child_results)
        self.tasks, self.results = os.fdopen(tasks, "wb", 0), os.fdopen(results, "rb")

    def send(self, task: Any) -> None:
        self.task = task
        try:
            _send(self.tasks, task)
        except OSError:  # it has ended: `result` finds that out
            return

    def result(self) -> Tuple[Any, Any]:
        """The task, and its result."""
        try:
            error, result = _receive(self.results)
        except (EOFError, OSError):
            raise StageError("a copying process was killed: is the memory full?") from None
        if error:
            raise (SourceError if error == SourceError.__name__ else StageError)(result)
        return self.task, result


def _work_loop(work: Callable[[Any], Any], tasks: Any, results: Any) -> None:
    """The main loop of a child."""
    try:
        gc.disable()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            task = _receive(tasks)
            try:
                result = ("", work(task))
            except Exception as error:
                is_ours = isinstance(error, StageError)
                result = (type(error).__name__, str(error) if is_ours else repr(error))
            _send(results, result)
    except (EOFError, BrokenPipeError):
        os._exit(0)
    finally:
        os._exit(1)


def _send(pipe: Any, value: Any) -> None:
    data = marshal.dumps(value)
    pipe.write(len(data).to_bytes(8, "little") + data)
    pipe.flush()


def _receive(pipe: Any) -> Any:
    """At once: `marshal.load` calls `read` for each number."""
    size = int.from_bytes(pipe.read(8), "little")
    return marshal.loads(pipe.read(size))  # EOFError if the pipe has ended


def batches(sizes: Sequence[int]) -> Iterator[Tuple[int, int]]:
    """Ranges (first, end) of neighbouring files, of at most BATCH_BYTES and 256 files."""
    most = max(1, min(256, len(sizes) // (worker_count() * 8)))
    first = total = 0
    for number, size in enumerate(sizes):
        if number > first and (number - first == most or total + size > BATCH_BYTES):
            yield first, number
            first, total = number, 0
        total += size
    if sizes:
        yield first, len(sizes)


def interleaved(ranges: Iterable[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Reorder, so that processes work in different folders: in one they block each other."""
    ordered = list(ranges)
    step = -(-len(ordered) // worker_count()) or 1
    return [one for first in range(step) for one in ordered[first::step]]
