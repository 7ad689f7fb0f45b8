"""Jobs that stall, are killed, or find a strange clock or marker: whole scripts in bash."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from script_runs import JOB_ID, Run, run_script, script

from clusterjobs.runs.jobs.records import unrecorded_attempts

RESTARTS = {"failure": 2, "time_limit": 2}


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., Run]:
    return lambda text: run_script(tmp_path, text)


def text_of(ranks: str = "true", **keys: Any) -> str:
    return script(nodes=1, command=["bash", "-c", ranks], **keys)


def with_restarts(tmp_path: pathlib.Path, **keys: Any) -> str:
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    keys = {"restarts": RESTARTS, "time_limit": "1-00:00:00", **keys}
    return text_of(checkpoints=checkpoints, **keys)


@pytest.mark.parametrize(("budget", "requeues"), [(1, 1), (0, 0)])
def test_stalled_ranks_are_stopped_and_restart_within_a_budget_of_their_own(
    run, tmp_path: pathlib.Path, budget: int, requeues: int
) -> None:
    restarts = {"stall_seconds": 2, "stalled": budget}
    text = with_restarts(tmp_path, ranks="exec sleep 1000", restarts=restarts)
    end = run(text.replace('/watchdog.py" ', '/watchdog.py" --kill-seconds=0.1 '))
    assert (end.code, end.reasons, end.requeues) == (137, ["stalled"], requeues), end.log
    assert "no progress for 2 s (restarts.stall_seconds): the ranks are stopped" in end.log
    assert f"scancel --signal=TERM {JOB_ID}" in end.requests
    assert requeues or "no restart: restarts.stalled allows 0" in end.log


def test_a_heartbeat_keeps_a_silent_training_alive(run, tmp_path: pathlib.Path) -> None:
    beat = 'for _ in {1..40}; do touch "$CLUSTERJOBS_HEARTBEAT"; sleep 0.2; done'
    end = run(with_restarts(tmp_path, ranks=beat, restarts={"stall_seconds": 6}))
    assert (end.code, end.reasons) == (0, ["completed"]), end.log


def test_only_the_script_itself_records_the_end(run) -> None:
    """bash runs the EXIT trap also in a child that a signal ends just after its fork."""
    end = run(text_of(setup=["(finish) || true"]))
    assert (end.code, end.reasons) == (0, ["completed"]), end.log


def test_the_watchdog_prints_no_traceback_if_it_gets_sigint(run, tmp_path: pathlib.Path) -> None:
    """A SIGINT for the whole job (`scancel --full --signal=INT`) reaches it, too."""
    wait = 'until pkill -INT -f "$FOLDER/watchdog.py"; do sleep 0.05; done; sleep 0.5'
    folder = f"{tmp_path}/logs/{JOB_ID}"
    end = run(with_restarts(tmp_path, ranks=wait, env={"FOLDER": folder}))
    assert end.reasons == ["completed"], end.log
    assert "Traceback" not in end.log


@pytest.mark.parametrize("restarts", [True, False])
def test_a_script_that_was_killed_leaves_an_attempt_without_a_record(
    run, tmp_path: pathlib.Path, restarts: bool
) -> None:
    keys = {"ranks": "kill -KILL $SCRIPT", "setup": ["export SCRIPT=$$"]}
    end = run(with_restarts(tmp_path, **keys) if restarts else text_of(**keys))
    assert (end.code, end.records) == (-9, [])
    (found,) = unrecorded_attempts(end.folder / "logs" / JOB_ID, ())
    assert (found.number, found.reason) == (1, "no_record")


@pytest.mark.parametrize("restarts", [True, False])
def test_a_clock_that_was_set_back_gives_no_negative_seconds(
    run, tmp_path: pathlib.Path, restarts: bool
) -> None:
    setup = ["SECONDS=-86400"]  # bash takes the seconds from the clock
    end = run(with_restarts(tmp_path, setup=setup) if restarts else text_of(setup=setup))
    assert end.records[-1]["seconds"] in range(60), end.log


@pytest.mark.parametrize(
    ("what", "restarts"),
    [("a line of 100 MB", False), ("a line of 100 MB", True), ("a pipe", True)],
)
def test_any_marker_is_read_in_a_bounded_way(
    run, tmp_path: pathlib.Path, what: str, restarts: bool
) -> None:
    marker = tmp_path / "checkpoints" / "latest"
    marker.parent.mkdir()
    if what == "a pipe":
        os.mkfifo(marker)
    else:
        with marker.open("wb") as file:
            file.write(b"step-" + b"7" * 1024)
            file.truncate(100_000_000)
    keys = {"checkpoints": {"path": str(marker.parent), "marker": "latest"}}
    more = {"restarts": RESTARTS, "time_limit": "1-00:00:00"} if restarts else {}
    end = run(text_of(**keys, **more))
    assert end.reasons == ["completed"], end.log
    assert end.records[0]["checkpoint"] == ("" if what == "a pipe" else "7" * 200)
