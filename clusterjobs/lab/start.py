"""Starts a lab's init process and waits until every node is idle.

This module knows how a start can fail; it must not know how the lab is used.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from clusterjobs.counted import counted
from clusterjobs.errors import one_problem
from clusterjobs.lab.apt import Say
from clusterjobs.lab.folder import LabFolder, without_slurm
from clusterjobs.lab.namespaces import InitProcess, unshare_command
from clusterjobs.lab.polling import until

Sinfo = Callable[[], "subprocess.CompletedProcess[str]"]


def start(folder: LabFolder, nodes: Sequence[str], idle_nodes: Sinfo, say: Say) -> None:
    """Return when all of `nodes` are idle. After any failure, and Ctrl-C, no process is left.

    `idle_nodes` runs the lab's sinfo, which prints the names of idle nodes.
    """
    process = _start_init(folder)
    try:
        until(lambda: _is_running(folder, process), 60, lambda: "the lab's init does not start")
        say(f"controller is started, {counted(len(nodes), 'node')} to follow")
        _await_idle(folder, nodes, idle_nodes, say)
        # It runs as long as the lab, and InitProcess.kill waits for it, so Popen must not.
        process.returncode = 0
    except TimeoutError as error:
        _end(folder, process)
        raise one_problem(str(error), hint=f"the logs are in {folder / 'log'}") from None
    except BaseException:
        _end(folder, process)
        raise


def _end(folder: LabFolder, process: subprocess.Popen[bytes]) -> None:
    process.kill()  # --kill-child then ends init, even before it has written its pid
    process.wait()
    if init := InitProcess.read(folder / "init"):
        init.kill()
    (folder / "init").unlink(missing_ok=True)


def _start_init(folder: LabFolder) -> subprocess.Popen[bytes]:
    with (folder / "log/init.log").open("w") as log:
        return subprocess.Popen(
            [*unshare_command(), "bash", str(folder / "init.sh"), str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C in the user's shell must not reach the lab
            env=without_slurm(os.environ),
            cwd="/",
        )


def _is_running(folder: LabFolder, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise one_problem(
            f"the lab's init ended: {last_lines(folder / 'log/init.log')}",
            hint=f"the logs are in {folder / 'log'}",
        )
    return InitProcess.read(folder / "init") is not None


def _await_idle(folder: LabFolder, nodes: Sequence[str], idle_nodes: Sinfo, say: Say) -> None:
    missing = set(nodes)

    def all_idle() -> bool:
        nonlocal missing
        if (folder / "state/exited").exists():
            raise one_problem(
                f"slurmctld ended: {last_lines(folder / 'log/slurmctld.out')}",
                hint=f"the logs are in {folder / 'log'}",
            )
        sinfo = idle_nodes()
        still_missing = set(nodes) - set(sinfo.stdout.split())
        if len(still_missing) < len(missing):
            say(f"idle nodes: {len(nodes) - len(still_missing)} of {len(nodes)}")
        missing = still_missing
        return sinfo.returncode == 0 and not missing

    until(all_idle, 60 + len(nodes), lambda: _why_missing(folder, missing))


def _why_missing(folder: LabFolder, missing: set[str]) -> str:
    if not missing:
        return "slurmctld does not respond"
    first = min(missing)
    log = last_lines(folder / f"log/{first}.log")
    return f"{counted(len(missing), 'node')} did not start; {first}: {log}"


def last_lines(file: Path, count: int = 3) -> str:
    """The end of a log on one line, for an error message."""
    try:
        return " | ".join(file.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
