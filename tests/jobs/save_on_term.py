"""A rank that is slow to end: told by SIGTERM it writes, two seconds later, that it has saved."""

import os
import pathlib
import signal
import sys
import time

RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK")  # each launcher's own name for it


def main() -> None:
    place = pathlib.Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    rank = next(os.environ[name] for name in RANKS if name in os.environ)
    told = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    (place / f"{rank}.started").touch()
    while not told:
        time.sleep(0.05)
    time.sleep(2)
    (place / f"{rank}.saved").touch()
    sys.exit(9)


if __name__ == "__main__":
    main()
