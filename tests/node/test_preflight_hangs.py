"""What hangs on a node is named, and hides nothing else that the node would say."""

from __future__ import annotations

import os
import pathlib
import re
import signal

import pytest
from preflight_nodes import FAILED, NVIDIA_SMI, changed, clock

from clusterjobs.lab.lab import until

pytestmark = pytest.mark.slow  # each waits for a timeout


def test_a_check_that_hangs_is_ended_and_named(preflight) -> None:
    """As nvidia-smi does with a GPU that has fallen off the bus."""
    hang = "[[ -z $HANGS ]] || exec sleep 300"
    preflight.program("nvidia-smi", NVIDIA_SMI.replace("case $1", f"{hang}\ncase $1"))
    preflight.fault("node-2", "export HANGS=yes")
    code, said = preflight.run("gpus=8", "shm=0", "seconds=6")
    assert code == FAILED
    assert "failed on node node-2: gpus: no answer in 6 s" in said
    assert re.search(r"ok +gpus .* node-1$", said, re.MULTILINE)
    assert re.search(r"ok +shm .* all 2$", said, re.MULTILINE)


def slow_df(tmp_path: pathlib.Path, command: str) -> str:
    """A fault: a df that runs this first; the paths it is asked for are in `$*`."""
    slow = tmp_path / "df"
    slow.write_text(f'#!/bin/bash\n{command}\nexec df "$@"\n')
    slow.chmod(0o755)
    return changed("exec df ", f"exec {slow} ")


def test_mounts_that_hang_on_a_node_are_named_alone(preflight, tmp_path) -> None:
    """As df does where a server is gone; here it sleeps when it is asked for one of them."""
    hang = '[[ " $* " != *" /sys "* && " $* " != *" /dev "* ]] || sleep 300'
    preflight.fault("node-2", slow_df(tmp_path, hang))
    checks = ("mount=/proc", "mount=/sys", "space=0:/dev", "space=0:/tmp", "network")
    code, said = preflight.run(*checks, "seconds=9")
    assert code == FAILED, said
    failed = [line for line in said.splitlines() if "preflight failed" in line]
    assert failed == [
        f"clusterjobs: preflight failed on node node-2: {what}: "
        "no answer in 3 s: it hangs; wanted: an answer"
        for what in ("mount /sys", "space /dev")
    ]
    for good in ("mount /proc", "space /tmp", "network"):
        assert re.search(rf"ok +{good} .* all 2$", said, re.MULTILINE), said


def test_a_slow_disk_does_not_hide_a_wrong_clock(preflight, tmp_path) -> None:
    preflight.fault("node-2", f"{slow_df(tmp_path, 'sleep 3')}\n{clock('+ 7')}")
    code, said = preflight.run("mount=/proc", "clock=5", "seconds=30")
    assert code == FAILED, said
    assert "failed on node node-2: clock: 7 s ahead" in said


def test_a_name_that_hangs_is_named_alone(preflight, tmp_path) -> None:
    preflight.environment["MASTER_ADDR"] = "192.0.2.1"  # an address is its own name
    preflight.fault("node-2", changed("getent ahostsv4", "sleep 60; :"))
    folder = tmp_path / "shared"
    folder.mkdir()
    checks = ("network", "names", "space=0:/tmp", f"folder={folder}")
    code, said = preflight.run(*checks, "seconds=4")
    assert code == FAILED, said
    assert [line for line in said.splitlines() if "preflight failed" in line] == [
        "clusterjobs: preflight failed on node node-2: names: no answer in 4 s; wanted: an answer"
    ]
    for good in ("network", "space /tmp", "folder "):
        assert re.search(rf"ok +{good}.* all 2$", said, re.MULTILINE), said


def test_a_folder_that_hangs_on_the_batch_host_is_named(preflight, tmp_path) -> None:
    """As access to a dead mount hangs; here that process sleeps."""
    for name in ("dead", "good"):
        (tmp_path / name).mkdir()
    program = preflight.folder / "preflight.py"
    old = 'cd -- "$1"'
    hang = f"[[ $1 != */dead ]] || {{ echo $$ > {tmp_path}/pid; exec sleep 600; }}\n"
    assert program.read_text().count(old) == 1
    program.write_text(program.read_text().replace(old, hang + old))
    folders = [f"folder={tmp_path / name}" for name in ("dead", "good")]
    code, said = preflight.run(*folders, "shm=0", "seconds=15")
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert code == FAILED, said
    why = f"folder {tmp_path}/dead: no answer in 5 s: it hangs; wanted: an answer"
    failed = [line for line in said.splitlines() if "preflight failed" in line]
    assert failed == [f"clusterjobs: preflight failed on node node-1: {why}"]
    assert re.search(rf"ok +folder {tmp_path}/good .* all 2$", said, re.MULTILINE)
    assert re.search(r"ok +shm .* all 2$", said, re.MULTILINE)
    assert list((tmp_path / "good").iterdir()) == []


def test_a_node_that_never_answers_is_named_and_its_srun_is_ended(preflight, tmp_path) -> None:
    preflight.fault("node-2", f"echo $BASHPID > {tmp_path}/pid; exec sleep 300 2> /dev/null")
    code, said = preflight.run("shm=0", "seconds=3", nodes=3)
    assert code == FAILED
    assert "failed on node node-2: answers: no answer in 3 s; wanted: an answer" in said
    process = pathlib.Path("/proc", (tmp_path / "pid").read_text().strip())
    until(lambda: not process.exists(), 120, lambda: f"{process} is still there")


def test_a_folder_that_hangs_on_a_node_is_named_alone(preflight, tmp_path) -> None:
    """Its token cannot be read there; here it is a pipe that nobody reads."""
    folder = tmp_path / "shared"
    folder.mkdir()
    own = "own=$1/$token.$node output"
    preflight.fault("node-2", changed(own, f'{own}; rm -f "$own"; mkfifo "$own"'))
    code, said = preflight.run(f"folder={folder}", "space=0:/tmp", "seconds=6")
    assert code == FAILED, said
    failed = [line for line in said.splitlines() if "preflight failed" in line]
    assert len(failed) == 1
    assert f"node node-2: folder {folder}: no answer in 6 s; wanted" in failed[0]


def test_a_port_that_does_not_answer_is_named_and_the_name_is_not(preflight, tmp_path) -> None:
    """A security group drops packets; here the connection is a process that sleeps."""
    preflight.environment["MASTER_ADDR"] = "192.0.2.1"
    preflight.fault("node-2", changed(': <> "/dev/tcp/$MASTER_ADDR/$MASTER_PORT"', "sleep 60"))
    code, said = preflight.run("port", "names", "seconds=6")
    assert code == FAILED, said
    assert "failed on node node-2: port: no answer in 3 s; wanted" in said
    assert re.search(r"ok +names .* all 2", said)
