"""A program: asks real parsers about many requests, each in a process forked from one that has
imported the framework.

Reads JSON from stdin: {"programs": folder, "preload": [modules], "asked": [{"workdir": folder,
"request": {...}}]}; writes the list of answers.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from typing import Any


def answer(workdir: str, request: dict[str, Any]) -> dict[str, Any]:
    """What the check says, from a process of its own."""
    import argument_check

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.setsid()  # workers that it starts end with it
        os.environ[argument_check.ANSWER] = str(writing)
        os.chdir(workdir)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        argument_check.parse(request)
    os.close(writing)
    os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with os.fdopen(reading) as opened:
        text = opened.read()
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    sys.path.insert(0, asked["programs"])
    out = os.dup(1)
    os.dup2(2, 1)  # frameworks print
    for module in asked["preload"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    answers = [answer(one["workdir"], one["request"]) for one in asked["asked"]]
    os.write(out, json.dumps(answers).encode())
