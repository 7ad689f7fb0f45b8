"""Run a function for many tasks in threads: reads, writes and checksums release Python's lock.

In one process nothing is left behind when it is killed.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple

from stage_log import StageError

MAX_WORKERS = 32  # with more, the node's network is the limit
BATCH_BYTES = 32 << 20
_stopping = threading.Event()


def worker_count() -> int:
    """The number of threads: one for each core that this process may use."""
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS)


def run_parallel(
    work: Callable[[Any], Any],
    tasks: Iterable[Any],
    on_result: Callable[[Any, Any], Any] = lambda *_: None,
    on_tick: Callable[[], None] = lambda: None,
    more_tasks: Optional[Callable[[], Optional[Iterable[Any]]]] = None,
) -> None:
    """Call `work(task)` for all tasks in threads. The first error ends it.

    `on_result` gets each task and its result, and may return further tasks. `on_tick` is called
    about once a second. `more_tasks`, polled many times a second, returns new tasks, and None at
    their end.
    """
    assigned: Any = queue.SimpleQueue()
    results: Any = queue.SimpleQueue()

    def serve() -> None:
        for task in iter(assigned.get, None):
            try:
                results.put((task, work(task), None))
            except BaseException as error:
                results.put((task, None, error))

    most = worker_count()
    threads: List[threading.Thread] = []
    waiting, running = list(tasks)[::-1], 0
    _stopping.clear()
    try:
        while waiting or running or more_tasks:
            more = more_tasks() if more_tasks else None
            waiting.extend(more or ())
            more_tasks = None if more is None else more_tasks
            while waiting and running < most:
                assigned.put(waiting.pop())
                running += 1
                if running > len(threads):
                    threads.append(threading.Thread(target=serve))
                    threads[-1].start()
            try:
                task, result, error = results.get(timeout=0.02 if more_tasks else 0.5)
            except queue.Empty:
                pass
            else:
                if error:
                    raise error
                running -= 1
                waiting.extend(on_result(task, result) or ())
            on_tick()
    except BaseException:
        _stopping.set()
        raise
    finally:
        for _ in threads:
            assigned.put(None)
        for thread in threads:
            thread.join()


def check_running() -> None:
    """Call this before each write in a thread. Raises StageError if the others have ended."""
    if _stopping.is_set():
        raise StageError("stopped")


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
