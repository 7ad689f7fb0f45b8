"""What the ranks of a lab have written down, compared with what a job script promises them."""

from __future__ import annotations

import pytest

from clusterjobs.lab.launch_contract import Record, broken_promises


def records(**changes: dict[int, object]) -> list[Record]:
    """Two nodes of two ranks; `changes` has a field or a variable, and its values by rank."""
    found = []
    for rank in range(4):
        told = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % 2),
            "WORLD_SIZE": "4",
            "MASTER_ADDR": "node-1",
            "MASTER_PORT": "12345",
        }
        met = [1, 2, 3] if rank == 0 else []
        one = Record(told, "node-1" if rank < 2 else "node-2", met, "")
        for name, values in changes.items():
            if rank in values:
                is_field = name in Record._fields
                change = (
                    {name: values[rank]} if is_field else {"told": {**told, name: values[rank]}}
                )
                one = one._replace(**change)
        found.append(one)
    return found


def told(found: list[Record], meets: bool = True) -> list[str]:
    return list(broken_promises(found, nodes=2, ranks_per_node=2, meets=meets))


def test_ranks_that_know_who_they_are_break_no_promise() -> None:
    assert told(records()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"WORLD_SIZE": {0: None, 1: None, 2: None, 3: None}},
            "WORLD_SIZE is unset for rank 0, and must be 4; it is wrong for 3 more",
        ),
        ({"LOCAL_RANK": {3: "3"}}, "LOCAL_RANK is 3 for rank 3, and must be 1"),
        ({"MASTER_ADDR": {2: "node-2"}}, "MASTER_ADDR is node-2 for rank 2, and must be node-1"),
        ({"MASTER_PORT": {1: "1"}}, "MASTER_PORT is 1 for rank 1, and must be 12345"),
        (
            {"MASTER_PORT": {0: None, 1: None, 2: None, 3: None}},
            "MASTER_PORT is unset for rank 0, and must be the same for all ranks; "
            "it is wrong for 3 more",
        ),
        (
            {"RANK": {1: "0"}},
            "RANK must be 0 to 3, each once; 4 ranks have run, with 0, 0, 2, 3",
        ),
        ({"host": {1: "node-2"}}, "rank 1 runs on another node than rank 0"),
        (
            {"problem": {3: "TimeoutError: timed out"}},
            "rank 3 could not reach rank 0: TimeoutError: timed out",
        ),
        ({"met": {0: [1, 2]}}, "rank 0 has met 2 of 3 other ranks"),
    ],
)
def test_each_broken_promise_is_a_sentence(changes, message: str) -> None:
    assert told(records(**changes)) == [message]


def test_ranks_that_never_ran_are_missed() -> None:
    assert told([]) == ["RANK must be 0 to 3, each once; 0 ranks have run, with none"]


def test_ranks_of_torchrun_meet_through_torch_alone() -> None:
    assert told(records(met={0: []}), meets=False) == []
