"""A rank that is slow to end: told by SIGTERM it writes, two seconds later, that it has saved."""

import os
import pathlib
import signal
import sys
import time


def main() -> None:
    place = pathlib.Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    told = []
    signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    (place / f"{os.environ['RANK']}.started").touch()
    while not told:
        time.sleep(0.05)
    time.sleep(2)
    (place / f"{os.environ['RANK']}.saved").touch()
    sys.exit(9)


if __name__ == "__main__":
    main()
