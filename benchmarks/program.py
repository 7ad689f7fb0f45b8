"""The command line of a version of clusterjobs, started as its installed program starts it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_COUNT = """\
import atexit, sys
ours = lambda: [name for name in sys.modules if name.partition(".")[0] == "clusterjobs"]
atexit.register(lambda: print(len(ours())))
"""


def installed_program() -> str:
    """The entry point of `clusterjobs` in this environment, as `module:function`."""
    (found,) = importlib.metadata.entry_points(group="console_scripts", name="clusterjobs")
    return found.value


def started(entry_point: str) -> list[str]:
    """The command that runs an entry point; arguments can be appended."""
    return [sys.executable, "-c", _code(entry_point)]


def modules_loaded(
    entry_point: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> int:
    """The number of modules of clusterjobs that a command line has loaded when it ends."""
    command = [sys.executable, "-c", _COUNT + _code(entry_point), *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    return int(done.stdout.splitlines()[-1])


def _code(entry_point: str) -> str:
    module, _, function = entry_point.partition(":")
    return f"import sys; from {module} import {function} as main; sys.exit(main())"
