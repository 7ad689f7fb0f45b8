"""A stand-in for squeue: prints the rows of a test in whatever format it is asked for."""

from __future__ import annotations

import json
import os
import pathlib
import sys

_PROGRAM = """\
#!{python} -IS
import json, pathlib, re, sys
folder = pathlib.Path(__file__).parent
with (folder / "squeue-calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
asked = next(one for one in sys.argv if one.startswith("--format="))[len("--format="):]
for row in json.loads((folder / "squeue.json").read_text()):
    print(re.sub("%[A-Za-z]", lambda one: row.get(one[0], "N/A"), asked))
"""


_LETTERS = {
    "reason": "%r",
    "time_left": "%L",
    "nodes": "%N",
    "user": "%U",
    "array": "%F",
    "index": "%K",
    "comment": "%k",
    "start": "%S",
    "submitted": "%V",
    "dependency": "%E",
    "time_limit": "%l",
    "partition": "%P",
    "workdir": "%Z",
}


def write_squeue(folder: pathlib.Path, *jobs: dict[str, str]) -> None:
    """Write `squeue` into a folder of PATH; it knows these jobs, made by `row`."""
    (folder / "squeue.json").write_text(json.dumps(jobs))
    program = folder / "squeue"
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)


def squeue_calls(folder: pathlib.Path) -> int:
    """How often it was called."""
    calls = folder / "squeue-calls"
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def row(job_id: str, state: str, name: str = "tiny", **more: str) -> dict[str, str]:
    """A job as squeue's columns. `more`: keys of _LETTERS; a task of an array has both of its.

    The comment of a task has the token `t<id of its array>`, unless `comment` is given.
    """
    array, index = more.get("array", job_id), more.get("index", "")
    shown = f"{array}_{index}" if index else job_id
    cells = {"%A": job_id, "%F": array, "%i": shown, "%T": state, "%j": name, "%r": "None"}
    cells["%k"] = f"clusterjobs:t{array}" if index else ""
    return {**cells, "%U": str(os.getuid()), **{_LETTERS[key]: more[key] for key in more}}
