"""What every rank of the tests runs: writes down who it is told to be, and meets the others.

Plain Python: the launcher's contract is tested, not torch. A rank connects to MASTER_ADDR and
MASTER_PORT, where rank 0 listens until everybody has come.
"""

import json
import os
import pathlib
import socket
import sys
import time

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def meet(rank: int, world: int, address: str, port: int) -> list[int]:
    """Rank 0 learns every rank from the others; each of them must reach it."""
    if rank == 0:
        return [0, *sorted(_hear(world - 1, port))]
    deadline = time.monotonic() + 60
    while True:
        try:
            with socket.create_connection((address, port), timeout=5) as there:
                there.sendall(f"{rank}\n".encode())
                return []
        except OSError:  # rank 0 may not listen yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _hear(count: int, port: int) -> list[int]:
    heard = []
    with socket.create_server(("", port)) as server:
        server.settimeout(60)
        while len(heard) < count:
            connection, _ = server.accept()
            with connection, connection.makefile() as lines:
                heard.append(int(lines.readline()))
    return heard


def main() -> None:
    folder, *arguments = sys.argv[1:]
    environment = dict(os.environ)
    record = {name: environment.get(name) for name in NAMES}
    record |= {"host": socket.gethostname(), "arguments": arguments, "environment": environment}
    # torchrun's agent holds the port itself, and its ranks meet there through torch alone.
    if "TORCHELASTIC_RUN_ID" not in environment:
        rank, world = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        port = int(environment["MASTER_PORT"])
        record["met"] = meet(rank, world, environment["MASTER_ADDR"], port)
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{record['RANK']}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main()
