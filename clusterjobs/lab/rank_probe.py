"""What each rank runs in `templates test --lab`: it records its variables, and meets rank 0.

A program of its own, with the standard library alone: a job starts it on the lab's nodes.

    python3 rank_probe.py FOLDER EXIT_CODE_OF_THE_LAST_RANK
"""

import json
import os
import pathlib
import socket
import sys
import time

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SECONDS = 60


def main() -> int:
    folder, last_code = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    told = {name: os.environ.get(name) for name in NAMES}
    host, problem = socket.gethostname(), ""
    met: list[int] = []
    rank, world = -1, 0
    try:
        rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        if "TORCHELASTIC_RUN_ID" not in os.environ:  # torchrun itself listens at MASTER_PORT
            met = _meet(rank, world)
    except (KeyError, ValueError, OSError) as error:
        problem = f"{type(error).__name__}: {error}"
    name = f"{host}-{os.getpid()}.json"  # RANK may be wrong
    new = folder / f".{name}"
    new.write_text(json.dumps({**told, "host": host, "met": met, "problem": problem}))
    new.rename(folder / name)
    return last_code if rank + 1 == world else 0


def _meet(rank: int, world: int) -> "list[int]":
    """Rank 0 hears of every other rank at MASTER_ADDR and MASTER_PORT."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank == 0:
        return sorted(_hear(world - 1, port))
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with socket.create_connection((address, port), timeout=5) as there:
                there.sendall(f"{rank}\n".encode())
                return []
        except OSError:  # rank 0 may not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _hear(count: int, port: int) -> "list[int]":
    heard: list[int] = []
    with socket.create_server(("", port)) as server:
        server.settimeout(SECONDS)
        while len(heard) < count:
            connection, _ = server.accept()
            with connection, connection.makefile() as lines:
                heard.append(int(lines.readline()))
    return heard


if __name__ == "__main__":
    sys.exit(main())
