"""Which jobs a need asks for, and which ids it waits for."""

from __future__ import annotations

import pytest

from clusterjobs.runs.jobs.folders import NeededJob, Submission
from clusterjobs.runs.jobs.states import STATES, UNKNOWN, PointState
from clusterjobs.runs.submit.needed_jobs import (
    WaitsFor,
    ids_to_wait_for,
    never_met,
    newest_tasks,
    to_run_first,
)

ALL = {"missing", "changed", "failed", "cancelled", "lost"}


@pytest.mark.parametrize(
    ("on", "to_run", "waits"),
    [
        ("success", ALL, {"pending", "running"}),
        ("each", ALL, {"pending", "running"}),
        ("end", {"missing", "changed"}, {"pending", "running"}),
        ("failure", {"missing", "changed"}, {"pending", "running"}),
        ("start", {"missing", "changed"}, {"pending"}),
    ],
)
def test_a_need_asks_for_what_does_not_meet_it(on, to_run, waits) -> None:
    states = {
        state: PointState(state, job_id="7", in_queue=state in ("pending", "running"))
        for state in STATES
        if state != UNKNOWN
    }
    assert {name for name in states if to_run_first(on, {name: states[name]})} == to_run
    assert {name for name in states if ids_to_wait_for(on, {name: states[name]}, ())} == waits
    assert [name for name in states if never_met(on, {name: states[name]})] == (
        ["completed"] if on == "failure" else []
    )


def array(job_id: int, *tasks: int) -> Submission:
    points = {str(task): f"{task:04}-a={task}-{task:08}" for task in tasks}
    return Submission("aa", job_id, "ann", 0, "train.yaml", array=True, points=points)


def states(**named: str) -> dict[str, PointState]:
    """`_3="pending 7_3"`: the state of point 3, and its job."""
    found = {}
    for key, text in named.items():
        state, job_id = text.split()
        name = f"{int(key[1:]):04}-a={key[1:]}-{int(key[1:]):08}"
        found[name] = PointState(state, job_id=job_id, in_queue=state in ("pending", "running"))
    return found


def test_an_array_is_waited_for_as_a_whole_unless_a_task_has_failed() -> None:
    whole = states(_0="completed 5", _1="running 6", _2="pending 7_2")
    assert ids_to_wait_for("success", whole, [array(7, 0, 1, 2)]) == ("7",)
    broken = states(_0="failed 5", _1="running 6", _2="pending 7_2")
    assert ids_to_wait_for("success", broken, [array(7, 0, 1, 2)]) == ("7_1", "7_2")
    again = states(_0="pending 9_0", _1="running 6", _2="pending 7_2")
    arrays = [array(7, 0, 1, 2), array(9, 0)]
    assert ids_to_wait_for("success", again, arrays) == ("9", "7_1", "7_2")
    fewer = states(_1="running 6", _2="pending 7_2")  # point 0 is no longer in the spec
    assert ids_to_wait_for("success", fewer, [array(7, 0, 1, 2)]) == ("7_1", "7_2")
    assert ids_to_wait_for("failure", broken, [array(7, 0, 1, 2)]) == ()


def test_the_last_submission_of_a_point_counts() -> None:
    packed = Submission("aa", 12, "ann", 0, "x", array=True, points={"3.1": "0004-a-cccccccc"})
    tasks = newest_tasks([array(7, 0, 1), array(9, 0), array(11, 5), packed])
    shown = {digest: task.shown for digest, task in tasks.items()}
    assert shown == {f"{0:08}": "9_0", f"{1:08}": "7_1", f"{5:08}": "11_5", "cccccccc": "12_3"}


def test_needs_are_joined_by_and() -> None:
    needs = [
        NeededJob("a.yaml", "1", "success"),
        NeededJob("b.yaml", "2", "end"),
        NeededJob("c.yaml", "3", "each"),
        NeededJob("d.yaml", "4", "success"),
        NeededJob("", "1", "success"),
    ]
    waits = WaitsFor(tuple(needs))
    told = "--dependency=afterok:1:4,afterany:2,aftercorr:3"
    assert waits.options() == (told, "--kill-on-invalid-dep=yes")
    assert waits.options(index=5)[0] == "--dependency=afterok:1:3_5:4,afterany:2"
    assert WaitsFor().options() == ()
