"""A submit that is killed or frozen before and after each of its system calls, and then repeated:
no point is started twice, and none is lost."""

from __future__ import annotations

import collections
import json
import pathlib
import random
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest
import test_two_submits
import yaml
from test_two_submits import POINTS, SPEC, Submits

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.folders import SUBMISSIONS

SEED = 20261129
# Sends itself a signal at the so-and-so-many-th call that changes files or starts a program. Before
# it opens the lock, it has recorded nothing.
DRIVER = """\
import os, sys, threading
number, place, file = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
del sys.argv[1:4]
CALLS = {"open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "remove", "link",
         "flock", "lockf", "fork_exec", "close", "truncate", "ftruncate", "flush", "chmod"}
count, is_locking = 0, False
def at_open(event, words):
    global is_locking
    is_locking = is_locking or (event == "open" and "submit.lock" in str(words[0]))
def at_call(frame, event, function):
    global count
    if is_locking and event in ("c_call", "c_return") and function.__name__ in CALLS:
        count += 1
        if count == place:
            os.kill(os.getpid(), number)
from clusterjobs.cli.main import main
sys.addaudithook(at_open)
threading.setprofile(at_call)
sys.setprofile(at_call)
try:
    main()
finally:
    sys.setprofile(None)
    with open(file, "w") as out:
        out.write(str(count))
"""

# Nothing comes late here: neither a job that squeue does not show yet, nor the text of a lock.
AGAIN = "from clusterjobs.runs.submit import lock, sbatch; lock._EMPTY = sbatch._PAUSE = 0; "


class Places:
    """`submit` in a fresh folder for each place."""

    def __init__(self, folder: pathlib.Path, site_home: pathlib.Path, *, is_sweep: bool) -> None:
        self.folder, self.home, self.is_sweep = folder, site_home, is_sweep
        assert self.start(self.fresh("whole"), 0, 0).wait(120) == 0
        self.count = int((folder / "count").read_text())

    def fresh(self, name: str) -> Submits:
        place = self.folder / name
        place.mkdir()
        submits = Submits(place, self.home)
        submits.environment["STAND_IN_DELAY"] = "0"
        if not self.is_sweep:
            spec = {key: value for key, value in SPEC.items() if key != "sweep"}
            (place / "exp.yaml").write_text(yaml.safe_dump(spec))
        return submits

    def start(self, submits: Submits, number: int, place: int) -> subprocess.Popen[bytes]:
        words = [str(number), str(place), str(self.folder / "count"), "submit", "exp.yaml"]
        with (submits.folder / "first").open("wb") as file:
            return subprocess.Popen(
                [sys.executable, "-c", DRIVER, *words],
                cwd=submits.folder,
                env=submits.environment,
                stdout=file,
                stderr=file,
            )

    def killed(self, place: int) -> str:
        """What is wrong after a kill at that place and a second submit, or ""."""
        submits = self.fresh(f"killed-{place}")
        process = self.start(submits, signal.SIGKILL, place)
        if process.wait(120) != -signal.SIGKILL:
            return ""  # it had ended
        said = (submits.folder / "first").read_text()
        has_answer = recorded(submits) > 0
        submits.run()
        jobs = len(submits.slurm.calls())
        if self.is_sweep:
            return wrong_starts(submits)
        # A submit whose job has been recorded is answered: the next one is another request.
        return "" if jobs == 1 + has_answer else f"{jobs} jobs; recorded: {has_answer}; {said}"

    def frozen(self, place: int) -> str:
        """The same of a submit that goes on after another one has come."""
        submits = self.fresh(f"frozen-{place}")
        first = self.start(submits, signal.SIGSTOP, place)
        until(lambda: has_stopped(first), 120, lambda: f"place {place}")
        other = submits.start()
        messages = submits.folder / "messages"
        until(
            lambda: other.poll() is not None or "waiting: " in messages.read_text(),
            120,
            messages.read_text,
        )
        first.send_signal(signal.SIGCONT)
        first.wait(120)
        other.communicate(timeout=120)
        submits.run()
        return wrong_starts(submits)


def recorded(submits: Submits) -> int:
    """How many jobs have their ids in the record."""
    found = [*submits.folder.glob(f"logs/**/{SUBMISSIONS}")]
    lines = [line for file in found for line in file.read_text().splitlines()]
    return sum(json.loads(line).get("job_id") is not None for line in lines if line[-1:] == "}")


def wrong_starts(submits: Submits) -> str:
    starts = submits.starts()
    is_right = len(starts) == POINTS and set(starts.values()) == {1}
    return "" if is_right else f"{dict(starts)}"


def has_stopped(process: subprocess.Popen[bytes]) -> bool:
    """Also if it has ended."""
    if process.poll() is not None:
        return True
    stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.fixture(autouse=True)
def again(monkeypatch: pytest.MonkeyPatch) -> None:
    python, option, main, submit = test_two_submits.COMMAND
    monkeypatch.setattr(test_two_submits, "COMMAND", [python, option, AGAIN + main, submit])


def check(
    places: Places, way: str, chosen: Sequence[int], counts: collections.Counter[str]
) -> None:
    wrong = {}
    for place in chosen:
        counts["tried"] += 1
        if found := getattr(places, way)(place):
            wrong[place] = found
    assert not wrong


WAYS = [("killed", True), ("frozen", True), ("killed", False)]


@pytest.mark.parametrize("most", [5, pytest.param(None, marks=pytest.mark.faults)])
@pytest.mark.parametrize(("way", "is_sweep"), WAYS)
def test_a_submit_that_stops_anywhere_starts_nothing_twice(
    tmp_path: pathlib.Path,
    site_home: pathlib.Path,
    way: str,
    is_sweep: bool,
    most: int | None,
    fault_counts: collections.Counter[str],
) -> None:
    """At some places, chosen by chance, or at each of them."""
    places = Places(tmp_path, site_home, is_sweep=is_sweep)
    assert places.count > 20
    every = range(1, places.count + 1)
    chosen = every if most is None else random.Random(SEED).sample(every, most)
    check(places, way, chosen, fault_counts)
