"""Runs the commands of Slurm that describe a cluster, each with a timeout.

It knows which they are, and that some of them may be missing, refused, or hang. It must not know
what their output means.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

COMMANDS = {
    "nodes": ("scontrol", "--oneliner", "show", "node"),
    "partitions": ("scontrol", "--oneliner", "show", "partition"),
    "config": ("scontrol", "show", "config"),
    "version": ("scontrol", "--version"),
    "associations": (
        *("sacctmgr", "--parsable2", "show", "associations", "user=USER"),
        "format=Account,Partition,QOS,DefaultQOS",
    ),
    "srun help": ("srun", "--help"),
}
# They change what is printed.
_LEFT_OUT = ("SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_JSON", "SLURM_YAML", "SLURM_DEBUG")
_LEAST_SECONDS = 5.0  # for a command that only waited for its output to be read


class Answer(NamedTuple):
    """What a command printed, or why it printed nothing that can be used."""

    name: str
    command: str
    text: str
    failure: str = ""


def ask_slurm(seconds: float, say: Callable[[str], None]) -> Iterator[Answer]:
    """The answer of each command, in order; none is waited for longer than that.

    All are started at once. They are killed if the caller stops.
    """
    running = {name: _start(command) for name, command in COMMANDS.items()}
    until = time.monotonic() + seconds
    try:
        for name, process in running.items():
            command = " ".join(_with_user(COMMANDS[name]))
            say(command)
            if isinstance(process, str):
                yield Answer(name, command, "", process)
            else:
                left = max(until - time.monotonic(), min(_LEAST_SECONDS, seconds))
                yield _answer(name, command, process, left, seconds)
    finally:
        for process in running.values():
            if not isinstance(process, str):
                _kill(process)


def _start(command: tuple[str, ...]) -> subprocess.Popen[bytes] | str:
    """The process, in a group of its own; or why it cannot be started."""
    environment = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    environment |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "standard"}
    try:
        return subprocess.Popen(
            _with_user(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError:
        return f"there is no {command[0]} on the PATH"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror}"


def _with_user(command: tuple[str, ...]) -> list[str]:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user that no directory knows
        name = str(os.getuid())
    return [word.replace("=USER", f"={name}") for word in command]


def _answer(
    name: str, command: str, process: subprocess.Popen[bytes], left: float, seconds: float
) -> Answer:
    try:
        out, error = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        _kill(process)
        return Answer(name, command, "", f"it has not answered in {seconds:g} s")
    text = out.decode(errors="replace")
    if process.returncode:
        said = (error.decode(errors="replace").strip() or text.strip()).splitlines()
        reason = said[-1].strip()[:200] if said else f"exit code {process.returncode}"
        return Answer(name, command, "", reason)
    return Answer(name, command, text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill it with its children, if it still runs. One in a dead file system cannot be killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_LEAST_SECONDS)


def slurm_folder() -> str:
    """The folder of srun on this node, if it is not one that is on every user's PATH."""
    found = shutil.which("srun")
    folder = str(Path(found).parent) if found else ""
    return "" if folder in ("", "/usr/bin", "/bin", "/usr/local/bin") else folder


def container_programs() -> tuple[str, ...]:
    """The programs for containers that this node has."""
    return tuple(name for name in ("apptainer", "singularity", "shifter") if shutil.which(name))
