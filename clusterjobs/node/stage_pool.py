"""Work shared out over processes, by numbers: what they work on, they have from the fork."""

from __future__ import annotations

import os
import signal
import struct
from multiprocessing.connection import Connection, Pipe, wait
from typing import Callable, Dict, List, Sequence, Tuple

from stage_log import StageError

MOST_WORKERS = 32  # beyond it, one node's network is the limit
BATCH_BYTES = 32 << 20


def workers() -> int:
    """How many processes: as many as this task may use cores."""
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


def run_all(
    work: Callable[[int], int],
    batches: Sequence[Tuple[int, int]],
    done: Callable[[int, int, Sequence[int]], None],
    tick: Callable[[], None],
) -> None:
    """`work(i)` for all numbers of all batches (first, end), in forked processes.

    `done` hears of each batch with its results, `tick` about once a second. The first error ends
    all. What `work` needs, the processes have from the fork; only numbers pass the pipes. They
    hold what this process has open, so that a lock is held until the last of them is gone.
    """
    waiting = list(reversed(batches))
    busy: Dict[Connection, List[Tuple[int, int]]] = {}
    pids: List[int] = []
    try:
        for _ in range(min(workers(), len(batches))):
            ours, theirs = Pipe()
            pid = os.fork()
            if pid == 0:
                for other in (ours, *busy):
                    other.close()
                _work_until_told(work, theirs)
            theirs.close()
            pids.append(pid)
            busy[ours] = []
        for connection in busy:
            _hand_out(connection, waiting, busy)
        while any(busy.values()):
            for ready in wait([one for one in busy if busy[one]], timeout=1):
                assert isinstance(ready, Connection)
                first, end = busy[ready].pop(0)
                done(first, end, _results(ready))
                _hand_out(ready, waiting, busy)
            tick()
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def _hand_out(
    connection: Connection,
    waiting: List[Tuple[int, int]],
    busy: Dict[Connection, List[Tuple[int, int]]],
) -> None:
    while waiting and len(busy[connection]) < 2:  # a second one, so that nobody waits for work
        batch = waiting.pop()
        busy[connection].append(batch)
        try:
            connection.send_bytes(struct.pack("qq", *batch))
        except OSError:  # its end is found when its answer is read
            return


def _results(connection: Connection) -> Sequence[int]:
    try:
        answer = connection.recv_bytes()
    except (EOFError, OSError):
        raise StageError("a copying process was killed: is the memory full?") from None
    if answer[:1] == b"!":
        raise StageError(answer[1:].decode("utf-8", "surrogateescape"))
    return struct.unpack("%dq" % (len(answer) // 8), answer[1:])


def _work_until_told(work: Callable[[int], int], connection: Connection) -> None:
    """The life of one process; it ends when its parent does, for then the pipe ends."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.umask(0)  # a copy has its original's permissions
        while True:
            first, end = struct.unpack("qq", connection.recv_bytes())
            try:
                found = [work(number) for number in range(first, end)]
                connection.send_bytes(b"=" + struct.pack("%dq" % len(found), *found))
            except StageError as error:
                connection.send_bytes(b"!" + str(error).encode("utf-8", "surrogateescape"))
    except (EOFError, BrokenPipeError):
        code = 0
    except BaseException as error:
        connection.send_bytes(b"!" + repr(error).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(code)


def batches_of(sizes: Sequence[int]) -> List[Tuple[int, int]]:
    """Neighbours together, up to one block's bytes or some hundred files."""
    most = max(1, min(256, len(sizes) // (workers() * 8)))
    found, first, total = [], 0, 0
    for number, size in enumerate(sizes):
        if number > first and (total + size > BATCH_BYTES or number - first >= most):
            found.append((first, number))
            first, total = number, 0
        total += size
    if sizes:
        found.append((first, len(sizes)))
    return found
