"""The loader of plain pickles: it runs nothing, and ends soon whatever the pickle says."""

from __future__ import annotations

import os
import pathlib
import pickle
from typing import Any

import pytest

from clusterjobs.cli import main
from clusterjobs.report.logs.flight_recorder import hang, load, read_dump

PLAIN = {"a": [1, -2, 3.5, None, True, False, "é" * 300], "b": (), "c": ((1,), (1, 2)), "d": {}}


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_loaded(protocol: int) -> None:
    assert load(pickle.dumps(PLAIN, protocol)) == PLAIN


def nested_tuples(depth: int) -> Any:
    value: Any = ()
    for _ in range(depth):
        value = (value, value)
    return value


@pytest.mark.parametrize(
    "data",
    [
        *(pickle.dumps([Evil()], protocol) for protocol in range(6)),
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02}r\xff\xff\xff\xff" + b"\x82\x01.",  # EXT1
        b"\x80\x05\x96\x00\x00\x00\x00\x00\x10\x00\x00.",  # a bytearray of 16 TiB
        b"\x80\x02X\xff\xff\xff\xff.",  # a text of 4 GB that is not there
        b"\x80\x02}(" + pickle.dumps(nested_tuples(80), 2)[2:-1] + b"K\x01u.",  # its hash: years
        b"\x80\x02}K\x01K\x01s.",
        pickle.dumps({1, 2}),
        pickle.dumps(b"bytes"),
        b"",
        pickle.dumps(PLAIN)[:-5],
    ],
)
def test_all_else_is_refused(
    data: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"\w"):
        load(data)
    assert list(tmp_path.iterdir()) == []


def test_a_huge_index_takes_no_memory() -> None:
    assert load(b"\x80\x02}r\xff\xff\xff\xff.") == {}


def nested(depth: int) -> Any:
    value: Any = "a"
    for _ in range(depth):
        value = [value, value]
    return value


ENTRY = {"collective_seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "started"}
DEEP = b"\x80\x02}(X\x07\x00\x00\x00entries](}(X\x11\x00\x00\x00collective_seq_idK\x01" + (
    b"X\x0e\x00\x00\x00profiling_name" + b"]" * 50_000 + b"a" * 49_999 + b"ueu."
)


ODD = {
    "nested": nested(80),
    "large": 1 << 1_900,
    "negative": -1,
    "fraction": 1.5,
    "mapping": {"a": 1},
    "tuple": ("x", nested(80)),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    "field", ["collective_seq_id", "profiling_name", "process_group", "input_sizes", "frames"]
)
def test_odd_values_in_any_field_take_no_time_and_are_no_crash(field: str, odd: Any) -> None:
    frames = [{"filename": odd, "line": odd}, {"filename": "a.py", "line": odd}]
    entry = {**ENTRY, "input_dtypes": [odd], "frames": frames, "input_sizes": [[odd]], field: odd}
    config = {"a": {"desc": odd, "ranks": odd}, "b": {"ranks": "[" + "9" * 9000 + ", 1]"}}
    found = read_dump(pickle.dumps({"entries": [entry], "pg_config": config}), 0)
    assert all(len(one) < 2000 for one in hang([found], 2))


def test_deep_lists_and_control_characters_in_a_jobs_folder_are_no_crash(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.log").write_text("step 1 loss 2\n")
    (tmp_path / "nccl-trace-rank-0").write_bytes(DEEP)
    colored = {**ENTRY, "profiling_name": "nccl:all\x1b[31m_reduce"}
    (tmp_path / "nccl-trace-rank-1").write_bytes(pickle.dumps({"entries": [colored]}))
    assert main.run(["report", str(tmp_path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
