"""Breaks the nodes of a lab and mends them, to see what a job makes of it.

Knows init.sh's requests and how Slurm takes a node back; nothing here tells Slurm of a failure.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable

from clusterjobs.errors import one_problem
from clusterjobs.lab.folder import LabFolder
from clusterjobs.lab.lab import Lab
from clusterjobs.lab.polling import until
from clusterjobs.lab.start import last_lines

_REQUESTS = {  # how a node is broken: what init.sh is asked in order to break it and to mend it
    "power": ("power-off", "power-on"),
    "slurmd": ("kill-slurmd", "start-slurmd"),
    "network": ("unplug", "plug"),
    "storage": ("unmount", "mount"),  # the shared folders: Slurm finds nothing wrong
}
KILLS = tuple(_REQUESTS)


def kill_node(lab: Lab, node: str, how: str = "power") -> None:
    """Break a node, as one of `KILLS` says; Slurm has to find out by itself."""
    lab.check_node(node)
    broken = lab.folder / f"nodes/{node}/broken"
    if broken.exists():
        raise one_problem(
            f"node {node} is killed already ({broken.read_text()})",
            hint=f"clusterjobs lab start-node {node}",
        )
    _request(lab.folder, _REQUESTS[how][0], node)
    broken.write_text(how)


def start_node(lab: Lab, node: str, timeout: float = 120) -> None:
    """Mend what `kill_node` broke, and give the node back to Slurm once it answers."""
    lab.check_node(node)
    broken = lab.folder / f"nodes/{node}/broken"
    if not broken.exists():
        raise one_problem(f"node {node} was not killed")
    how, before = broken.read_text(), _shown(lab, node, "SlurmdStartTime")
    # Slurm gives the start of a slurmd to the second: the next start must be in a later second.
    _until(lab, node, timeout, lambda: _now(lab) > before)
    _request(lab.folder, _REQUESTS[how][1], node)
    broken.unlink()
    if how in ("power", "slurmd"):  # else it is the same slurmd as before
        _until(lab, node, timeout, lambda: _shown(lab, node, "SlurmdStartTime") not in ("", before))
    _until(lab, node, timeout, lambda: _is_back(lab, node))


def restart_controller(lab: Lab, timeout: float = 30) -> None:
    """End slurmctld as systemd would, start it again, and wait until it answers.

    One that is killed has forgotten what began in its last seconds: Slurm then starts a running job
    once more, finds it there, and drains the node (Slurm 22.05, "Duplicate jobid").
    """
    _request(lab.folder, "restart-slurmctld", "head-node")
    until(
        lambda: lab.run(["scontrol", "ping"]).returncode == 0,
        timeout,
        lambda: f"slurmctld does not come back: {last_lines(lab.folder / 'log/slurmctld.out')}",
    )


def _until(lab: Lab, node: str, timeout: float, true: Callable[[], bool]) -> None:
    log = lab.folder / f"log/{node}.log"
    try:
        until(true, timeout, lambda: f"node {node} does not come back: {last_lines(log)}")
    except TimeoutError as error:
        raise one_problem(str(error), hint=f"its log is {log}") from None


def _now(lab: Lab) -> str:
    return lab.run(["date", "+%FT%T"]).stdout.strip()  # as scontrol writes it, so they compare


def _shown(lab: Lab, node: str, time: str) -> str:
    """One of the times that Slurm knows of a node, "" where it knows none."""
    shown = lab.run(["scontrol", "--oneliner", "show", "node", node]).stdout
    value = shown.partition(f"{time}=")[2].partition(" ")[0]
    return "" if value == "None" else value


def _is_back(lab: Lab, node: str) -> bool:
    """Whether jobs can start on the node. Resumes it while it is DOWN, as ParallelCluster does.

    Slurm keeps a node DOWN that rebooted by itself, and rarely asks one that stopped answering.
    RESUME clears BootTime until the node registers again. Before that the node is idle as soon as
    it answers a ping, but its registration can still set it DOWN: Slurm compares times of whole
    seconds, so that a late registration looks like another reboot. So BootTime is read first.
    """
    registered, state = _shown(lab, node, "BootTime") != "", lab.node_states()[node]
    if state.startswith("down"):
        lab.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        return False
    return registered and not state.endswith("*")


def _request(folder: LabFolder, verb: str, node: str) -> None:
    """Ask init.sh, which alone has the rights, and wait for its answer."""
    request = uuid.uuid4().hex
    pipe = os.open(folder / "requests", os.O_WRONLY | os.O_NONBLOCK)
    with os.fdopen(pipe, "w") as requests:
        requests.write(f"{request} {verb} {node}\n")
    answer = until(lambda: _reply(folder, request), 30, lambda: f"no answer to {verb} {node}")
    if answer != "done":
        raise one_problem(f"{verb} {node}: {last_lines(folder / 'log/init.log')}")


def _reply(folder: LabFolder, request: str) -> str | None:
    replies = (folder / "replies").read_text().splitlines()
    return dict(line.split() for line in replies).get(request)
