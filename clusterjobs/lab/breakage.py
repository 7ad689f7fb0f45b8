"""Breaks and repairs nodes of a lab, to test how jobs react.

Failures are not reported to Slurm, which has to detect them.
"""

import os
import uuid
from collections.abc import Callable

from clusterjobs.errors import one_problem
from clusterjobs.lab.folder import LabFolder
from clusterjobs.lab.lab import Lab, last_lines, until

_REQUESTS = {  # kind of failure: init.sh's requests that break and repair the node
    "power": ("power-off", "power-on"),
    "slurmd": ("kill-slurmd", "start-slurmd"),
    "network": ("unplug", "plug"),
    "storage": ("unmount", "mount"),  # the shared folders; Slurm does not notice
}
KILLS = tuple(_REQUESTS)


def kill_node(lab: Lab, node: str, how: str = "power") -> None:
    """Break a node in one of the ways in `KILLS`; Slurm has to detect it."""
    lab.check_node(node)
    broken = lab.folder / f"nodes/{node}/broken"
    if broken.exists():
        raise one_problem(
            f"node {node} is already broken ({broken.read_text()})",
            hint=f"clusterjobs lab start-node {node}{lab.folder.name_option}",
        )
    _request(lab.folder, _REQUESTS[how][0], node)
    broken.write_text(how)


def start_node(lab: Lab, node: str, timeout: float = 120) -> None:
    """Repair what `kill_node` broke, and return the node to Slurm when it responds."""
    lab.check_node(node)
    broken = lab.folder / f"nodes/{node}/broken"
    if not broken.exists():
        raise one_problem(f"node {node} is not broken: nothing to repair")
    how, before = broken.read_text(), _shown(lab, node, "SlurmdStartTime")
    # Slurm gives the start of a slurmd to the second: the next start must be in a later second.
    # `date` prints it in the format of scontrol.
    _until(lab, node, timeout, lambda: lab.run(["date", "+%FT%T"]).stdout.strip() > before)
    _request(lab.folder, _REQUESTS[how][1], node)
    broken.unlink()
    if how in ("power", "slurmd"):  # otherwise it is the same slurmd as before
        _until(lab, node, timeout, lambda: _shown(lab, node, "SlurmdStartTime") not in ("", before))
    _until(lab, node, timeout, lambda: _is_back(lab, node))


def restart_controller(lab: Lab, timeout: float = 60) -> None:
    """Stop slurmctld as systemd would, start it again, and wait until it responds.

    Killing it would lose its state of the last seconds: Slurm would then start a running job a
    second time, and drain the node (Slurm 22.05, "Duplicate jobid").
    """
    _request(lab.folder, "restart-slurmctld", "head-node")
    until(
        lambda: lab.run(["scontrol", "ping"]).returncode == 0,
        timeout,
        lambda: f"slurmctld does not respond: {last_lines(lab.folder / 'log/slurmctld.out')}",
    )


def _until(lab: Lab, node: str, timeout: float, condition: Callable[[], bool]) -> None:
    log = lab.folder / f"log/{node}.log"
    try:
        until(condition, timeout, lambda: f"node {node} does not respond: {last_lines(log)}")
    except TimeoutError as error:
        raise one_problem(str(error), hint=f"its log is {log}") from None


def _shown(lab: Lab, node: str, time: str) -> str:
    """One of a node's times in Slurm; "" if it is unknown."""
    shown = lab.run(["scontrol", "--oneliner", "show", "node", node]).stdout
    value = shown.partition(f"{time}=")[2].partition(" ")[0]
    return "" if value == "None" else value


def _is_back(lab: Lab, node: str) -> bool:
    """Whether jobs can start on the node. Resumes it while it is DOWN, as ParallelCluster does.

    A node that is COMPLETING, but has nothing left to complete, is set DOWN before.

    Slurm keeps a node DOWN that rebooted unexpectedly, and rarely polls one that stopped
    responding. RESUME clears BootTime until the node registers again. Before that, the node is idle
    as soon as it responds to a ping, but its registration can still set it DOWN: Slurm compares
    times in whole seconds, so a late registration looks like another reboot. Therefore BootTime is
    read before the state.
    """
    registered, state = _shown(lab, node, "BootTime") != "", lab.node_states()[node]
    if state.startswith("down"):
        lab.run(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        return False
    if state == "completing" and not _has_steps(lab, node):
        lab.run(["scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost its jobs"])
        return False
    return registered and not state.endswith("*")


def _has_steps(lab: Lab, node: str) -> bool:
    """Whether processes of jobs are on the node, each below a slurmstepd.

    A slurmd that is killed before it reports the end of a job leaves the node COMPLETING without
    any, for minutes: the next slurmd knows nothing of the job.
    """
    search = "grep -qs 'slurmstepd[:] [[]' /proc/[0-9]*/cmdline"
    return lab.node_run(node, ["bash", "-c", search]).returncode == 0


def _request(folder: LabFolder, verb: str, node: str) -> None:
    """Send a request to init.sh, which has the necessary privileges, and wait for its reply."""
    request = uuid.uuid4().hex
    pipe = os.open(folder / "requests", os.O_WRONLY | os.O_NONBLOCK)
    with os.fdopen(pipe, "w") as requests:
        requests.write(f"{request} {verb} {node}\n")
    reply = until(lambda: _reply(folder, request), 60, lambda: f"no reply to {verb} {node}")
    if reply != "done":
        raise one_problem(f"{verb} {node}: {last_lines(folder / 'log/init.log')}")


def _reply(folder: LabFolder, request: str) -> str | None:
    replies = (folder / "replies").read_text().splitlines()
    return dict(line.split() for line in replies).get(request)
