"""A script of the user's own: the flags of its `--help`, if the spec allows to run it so."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from argument_request import NotCheckedError, Request, is_flag


def check(request: Request) -> None:
    """Report flags that the script's help does not name."""
    if not request.runs_help:
        return
    if not request.script.endswith(".py"):
        raise NotCheckedError(f"{request.script} is no script of Python")
    done = subprocess.run(
        [sys.executable, request.script, "--help"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        env={**os.environ, "COLUMNS": "500"},
        check=False,
    )
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w.-]*", done.stdout))
    if done.returncode != 0 or "--help" not in known:
        said = (done.stderr.strip().splitlines() or ["it printed no help"])[-1]
        raise NotCheckedError(f"{request.script} --help: {said}")
    known |= {name.replace("--", "--no-", 1) for name in known}
    for word in request.arguments:
        flag = word.partition("=")[0]
        if is_flag(flag) and flag.startswith("--") and not takes(flag, known):
            request.problem(f"--help names no argument {flag}", "", flag)
    request.version = request.version or os.path.basename(request.script)


def takes(flag: str, known: set[str]) -> bool:
    """Whether argparse takes it: by its name, or by the start of only one."""
    starting = [one for one in known if one.startswith(flag)]
    return flag in known or len(starting) == 1
