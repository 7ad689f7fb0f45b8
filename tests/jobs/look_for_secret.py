"""A rank that says whether it has the secrets, and which command lines on the node show them."""

import hashlib
import json
import os
import pathlib
import sys


def command_lines() -> dict[str, str]:
    found = {}
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[file.parent.name] = (
                file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:  # it has ended meanwhile
            continue
    return found


def main() -> None:
    folder, *names = sys.argv[1:]
    values = {name: os.environ[name] for name in names}
    shown = [line for line in command_lines().values() if any(v in line for v in values.values())]
    digests = {name: hashlib.sha256(value.encode()).hexdigest() for name, value in values.items()}
    place = pathlib.Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    record = {"digests": digests, "shown": len(shown)}
    (place / f"{os.environ['RANK']}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main()
