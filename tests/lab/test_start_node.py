"""`start_node` returns when Slurm is done with a node, whatever Slurm says of it in between."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusterjobs.lab import breakage
from clusterjobs.lab import lab as polling
from clusterjobs.lab.breakage import start_node
from clusterjobs.lab.lab import Lab

NODE = "train-st-p4d-1"
BOOTED = "2026-05-04T10:00:00"
Look = tuple[str, str]  # a node's state and its BootTime


class ScriptedLab(Lab):
    """A lab whose Slurm answers from lists: each look takes the next, an update begins a new list.

    The last answer of a list stays.
    """

    def __init__(self, folder: Path, broken: str, *lists: list[Look]) -> None:
        super().__init__(folder)
        (folder / f"nodes/{NODE}").mkdir(parents=True)
        (folder / f"nodes/{NODE}/broken").write_text(broken)
        self.lists = [list(one) for one in lists]
        self.started = "2026-05-04T09:00:00"
        self.updates: list[str] = []
        self.has_steps = False

    def check_node(self, node: str) -> None:
        assert node == NODE

    def look(self) -> Look:
        looks = self.lists[0]
        return looks.pop(0) if len(looks) > 1 else looks[0]

    def run(self, argv: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        out = ""
        if argv[0] == "date":
            out = BOOTED
        elif argv[1] == "update":
            assert argv[2] == f"NodeName={NODE}"
            self.updates.append(argv[3])
            self.lists.pop(0)
        else:
            started, self.started = self.started, BOOTED
            out = f"NodeName={NODE} BootTime={self.look()[1]} SlurmdStartTime={started} Owner=N/A"
        return subprocess.CompletedProcess(list(argv), 0, out, "")

    def node_run(self, node: str, *_: object, **__: object) -> subprocess.CompletedProcess[str]:
        """The search for a slurmstepd."""
        assert node == NODE
        return subprocess.CompletedProcess([], 0 if self.has_steps else 1, "", "")

    def node_states(self) -> dict[str, str]:
        return {NODE: self.look()[0]}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breakage, "_request", lambda *_: None)
    monkeypatch.setattr(polling, "POLL_SECONDS", 0)


def resumed(answered: int, then: Look) -> list[Look]:
    """After RESUME: silent, idle once it answers a ping, and at last registered."""
    return [("idle*", "None"), *[("idle", "None")] * answered, then]


@pytest.mark.parametrize("looks", range(6))
def test_a_registration_that_comes_late_and_looks_like_a_reboot_is_waited_for(
    tmp_path: Path, looks: int
) -> None:
    lab = ScriptedLab(
        tmp_path,
        "power",
        [("down", BOOTED)],
        resumed(looks, ("down", BOOTED)),
        resumed(looks, ("idle", BOOTED)),
    )
    start_node(lab, NODE)
    assert lab.lists == [[("idle", BOOTED)]]


def test_a_node_that_slurm_no_longer_asks_is_resumed(tmp_path: Path) -> None:
    lab = ScriptedLab(tmp_path, "network", [("down*", BOOTED)], resumed(1, ("idle", BOOTED)))
    start_node(lab, NODE)
    assert lab.lists == [[("idle", BOOTED)]]


def test_a_node_that_slurm_never_missed_is_left_alone(tmp_path: Path) -> None:
    lab = ScriptedLab(tmp_path, "storage", [("allocated", BOOTED)])
    start_node(lab, NODE)
    assert lab.lists == [[("allocated", BOOTED)]]


@pytest.mark.parametrize("broken", ["power", "slurmd"])
def test_a_node_that_completes_a_job_without_processes_is_set_down_and_resumed(
    tmp_path: Path, broken: str
) -> None:
    """The slurmd that would have reported the job's end was killed before it could."""
    lab = ScriptedLab(
        tmp_path,
        broken,
        [("completing", BOOTED)],
        [("down", BOOTED)],
        resumed(1, ("idle", BOOTED)),
    )
    start_node(lab, NODE)
    assert lab.updates == ["State=DOWN", "State=RESUME"]
    assert lab.lists == [[("idle", BOOTED)]]


def test_a_node_that_completes_a_job_with_processes_is_left_alone(tmp_path: Path) -> None:
    lab = ScriptedLab(tmp_path, "network", [("completing", BOOTED)])
    lab.has_steps = True
    start_node(lab, NODE)
    assert lab.updates == []
