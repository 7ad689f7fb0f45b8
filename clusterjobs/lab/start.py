"""Starts a lab's init process and waits until every node is idle.

Knows what can go wrong on the way; must not know what the lab is used for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from clusterjobs.errors import one_problem
from clusterjobs.lab.folder import LabFolder, without_slurm
from clusterjobs.lab.namespaces import InitProcess, unshare_command
from clusterjobs.lab.packages import Say
from clusterjobs.lab.polling import until

Sinfo = Callable[[], "subprocess.CompletedProcess[str]"]


def start(folder: LabFolder, nodes: Sequence[str], idle_nodes: Sinfo, say: Say) -> None:
    """Return when all of `nodes` are idle. Whatever stops it, Ctrl-C too, leaves nothing behind.

    `idle_nodes` asks the lab's sinfo for the names of idle nodes.
    """
    process = _start_init(folder)
    try:
        until(lambda: _is_running(folder, process), 60, lambda: "the lab's init does not start")
        say(f"controller is started, {len(nodes)} nodes follow")
        _await_idle(folder, nodes, idle_nodes, say)
        # It lives on with the lab, and InitProcess.kill waits for it: not Popen's business more.
        process.returncode = 0
    except TimeoutError as error:
        _end(folder, process)
        raise one_problem(str(error), hint=f"the logs are in {folder / 'log'}") from None
    except BaseException:
        _end(folder, process)
        raise


def _end(folder: LabFolder, process: subprocess.Popen[bytes]) -> None:
    process.kill()  # and --kill-child ends init, whether it has written its pid or not
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
            start_new_session=True,  # Ctrl-C is for the person's shell, not for the lab
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
        answer = idle_nodes()
        still = set(nodes) - set(answer.stdout.split())
        if len(still) < len(missing):
            say(f"{len(nodes) - len(still)} of {len(nodes)} nodes are idle")
        missing = still
        return answer.returncode == 0 and not missing

    until(all_idle, 60 + len(nodes), lambda: _why_missing(folder, missing))


def _why_missing(folder: LabFolder, missing: set[str]) -> str:
    if not missing:
        return "slurmctld does not answer"
    first = min(missing)
    said = last_lines(folder / f"log/{first}.log")
    return f"{len(missing)} nodes did not come up; {first}: {said}"


def last_lines(file: Path, count: int = 3) -> str:
    """The end of a log on one line, for an error message."""
    try:
        return " | ".join(file.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""
