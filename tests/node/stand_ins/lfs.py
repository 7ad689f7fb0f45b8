"""Stands in for lfs: `hsm_state`, `hsm_action` and `hsm_restore` of the files named in $HSM.

$HSM is a JSON file: path -> how often hsm_action is to be asked until the file is there; -1 stays
away for ever, null is a file that no longer has to come. The answers are those of Lustre's
lustre/utils/lfs.c (lfs_hsm_state prints `PATH: (0x0000000d) released exists archived,
archive_id:1`, lfs_hsm_action `PATH: NOOP` or `PATH: RESTORE running`).
"""

from __future__ import annotations

import json
import os
import pathlib
import sys

HSM = pathlib.Path(os.environ["HSM"])


def main() -> None:
    verb, *paths = sys.argv[1:]
    data = json.loads(HSM.read_text())
    data["calls"].append([verb, len(paths)])
    away, asked = data["away"], data["asked"]
    for path in paths:
        if not os.path.lexists(path):
            sys.stderr.write(f"lfs: can't get hsm state for {path}: No such file or directory\n")
            sys.exit(2)
        if verb == "hsm_restore":
            if data.get("refuse"):
                sys.stderr.write("Cannot send HSM request (use of x): Function not implemented\n")
                sys.exit(38)
            asked[path] = away.get(path)
        elif verb == "hsm_state":
            flags = (
                "(0x0000000d) released exists"
                if away.get(path) is not None
                else "(0x00000009) exists"
            )
            print(f"{path}: {flags} archived, archive_id:1")
        elif (asked.get(path) or 0) > 0:
            asked[path] -= 1
            print(f"{path}: RESTORE running")
        else:
            if path in asked and away.get(path) != -1:
                away[path] = None
            print(f"{path}: NOOP")
    HSM.write_text(json.dumps(data))


main()
