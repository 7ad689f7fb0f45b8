"""Dumps of PyTorch's flight recorder: who waits, who has not come, and hostile pickles."""

from __future__ import annotations

import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import pytest

from clusterjobs.cli import main
from clusterjobs.report.logs.flight_recorder import Dump, hang, named, read_dump

# Rank 1 stays away from the sixth collective. PyTorch writes dumps of gloo as it does of NCCL.
PROGRAM = """
import os, pathlib, pickle, sys, time, torch
import torch.distributed as dist
rank, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
store = dist.FileStore(str(folder / "store"), 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
if rank == 0:
    dist.all_reduce(torch.ones(2000), async_op=True)
while True:  # until PyTorch has seen that the first five have ended
    dump = torch._C._distributed_c10d._dump_fr_trace()
    if all(one["retired"] for one in pickle.loads(dump)["entries"][:5]):
        break
    time.sleep(0.01)
(folder / f"nccl-trace-rank-{rank}").write_bytes(dump)
(folder / f"done-{rank}").touch()
while not (folder / f"done-{1 - rank}").exists():
    time.sleep(0.01)
os._exit(0)
"""


def entry(number: int, name: str = "all_reduce", **further: Any) -> dict[str, Any]:
    return {
        "collective_seq_id": number,
        "profiling_name": f"nccl:{name}",
        "process_group": ("0", "default_pg"),
        "input_sizes": [[64]],
        "input_dtypes": ["Float"],
        "frames": [
            {"filename": "/env/torch/distributed/distributed_c10d.py", "line": 9},
            {"filename": "/home/me/train.py", "line": 12},
        ],
        "state": "completed",
        "retired": True,
        "is_p2p": False,
        **further,
    }


def dump(rank: int, *entries: dict[str, Any], ranks: int = 4) -> Dump:
    config = {"": {"name": "", "desc": "", "ranks": str([*range(ranks)])}}
    content = {"version": "2.10", "pg_config": config, "entries": list(entries)}
    return read_dump(pickle.dumps(content), rank)


def waiting(number: int, **further: Any) -> dict[str, Any]:
    return entry(number, state="started", retired=False, **further)


def test_dumps_of_a_real_hang_name_the_rank_that_did_not_come(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "train.py", str(rank), "."], cwd=tmp_path, env=environment
        )
        for rank in (0, 1)
    ]
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    (tmp_path / "job.log").write_text("".join(f"step {n} loss 1\n" for n in range(1, 9)))
    derived = '{"world_size": 3, "ranks_per_node": 3}'
    (tmp_path / "plan.json").write_text(f'{{"name": "hung", "derived": {derived}}}')
    assert main.run(["report", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "rank 0 waits in collective 6, all_reduce of 2000 Float at train.py:" in shown
    assert "rank 1 of 2 has not come, last seen in collective 5" in shown
    assert "No dump of rank 2: killed, or gone before the timeout." in shown


def test_ranks_that_wait_and_ranks_that_have_not_come() -> None:
    dumps = [dump(rank, entry(1), waiting(2)) for rank in (0, 2, 3)] + [dump(1, entry(1))]
    assert hang(dumps) == (
        "Process group default_pg: ranks 0, 2 and 3 wait in collective 2, all_reduce of 64 Float "
        "at train.py:12; rank 1 of 4 has not come, last seen in collective 1, all_reduce of 64 "
        "Float at train.py:12.",
    )


def test_if_all_ranks_have_come_no_rank_is_blamed() -> None:
    (sentence,) = hang([dump(rank, entry(1), waiting(2)) for rank in range(4)])
    assert "has not come" not in sentence
    assert sentence.endswith("the network or a GPU is at fault.")


def test_different_calls_are_the_cause_and_are_named_first() -> None:
    dumps = [
        dump(0, entry(1), waiting(2)),
        dump(1, entry(1), waiting(2, profiling_name="nccl:broadcast")),
    ]
    (sentence,) = hang(dumps)
    assert "collective 2 differs: rank 0 calls all_reduce" in sentence
    assert "rank 1 calls broadcast" in sentence


def test_sizes_of_gathers_may_differ_and_those_of_a_reduction_may_not() -> None:
    def pair(name: str) -> tuple[str, ...]:
        profiled = f"nccl:{name}"
        return hang(
            [dump(0, entry(1, name)), dump(1, entry(1, input_sizes=[[8]], profiling_name=profiled))]
        )

    assert pair("all_gather") == ()
    assert "differs" in pair("all_reduce")[0]


def test_a_run_that_did_not_hang_says_nothing() -> None:
    assert hang([dump(rank, entry(1), entry(2)) for rank in range(4)], 4) == ()
    assert hang([]) == ()


def test_messages_between_two_ranks_are_no_collectives() -> None:
    assert dump(0, waiting(3, is_p2p=True)).entries == ()


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pickle.dumps(Evil()), "system"),
        (pickle.dumps({"entries": [Evil()]}), "system"),
        (pickle.dumps([1, 2]), "it has no entries"),
        (pickle.dumps({"entries": 1}), "it has no entries"),
        (pickle.dumps({"entries": []})[:-3], "no dump"),
        (b"", "no dump"),
        (b"\x80\x05" + b"(" * 1000, "no dump"),
        (b"not a pickle", "no dump"),
    ],
)
def test_hostile_and_damaged_dumps_are_errors_and_run_nothing(
    data: bytes, why: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=why):
        read_dump(data, 0)
    assert list(tmp_path.iterdir()) == []


def test_odd_fields_are_left_out() -> None:
    odd = [{}, {"collective_seq_id": "x"}, entry(1, frames=None, process_group=7, input_sizes="s")]
    content = {"entries": [*odd, 3, None], "pg_config": {"a": 1, "b": {"ranks": [5, "y"]}}}
    found = read_dump(pickle.dumps(content), 0)
    assert [(one.number, one.group, one.sizes, one.where) for one in found.entries] == [
        (1, "", "Float", "")
    ]
    assert found.groups == {"a": (), "b": (5,)}


def test_a_damaged_dump_in_a_jobs_folder_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text("step 1 loss 2\n")
    (tmp_path / "nccl-trace-rank-3").write_bytes(pickle.dumps(Evil()))
    assert main.run(["report", str(tmp_path)]) == 0
    assert "The dump of rank 3 cannot be read" in capsys.readouterr().out


def test_many_ranks_are_counted() -> None:
    assert named([4]) == "rank 4"
    assert named([2, 0, 1]) == "ranks 0, 1 and 2"
    assert named(range(1000)).endswith("and 984 more")
