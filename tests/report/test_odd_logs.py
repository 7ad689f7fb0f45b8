"""The cases in cases/logs: odd logs, and what `clusterjobs report` says of each, exactly.

tests/case_files.py says how to add one.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import random

import pytest
from case_files import Case, read_cases
from own_numbers import LOGS

from clusterjobs.report.logs.log import LogReader, all_formats, read_log
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.read import blocks_of

CASES = read_cases("logs/*.txt")
ODD_LOGS = {case.name: log.data for case in CASES for log in case.files.values()}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_odd_log_is_reported_exactly_as_expected(
    clusterjobs, as_expected, case: Case, folder: pathlib.Path
) -> None:
    case.write(folder)
    done = clusterjobs(*case.arguments)
    assert done.code == 0, done.err
    assert done.err == ""
    as_expected(case, done.out, done.code)


def test_there_are_enough_odd_logs() -> None:
    assert len(CASES) >= 25


def pieces(data: bytes, seed: int) -> list[bytes]:
    """The bytes in blocks of random sizes, as a log that grows is read."""
    chance = random.Random(seed)
    blocks, place = [], 0
    while place < len(data):
        size = chance.choice((1, 2, 3, 100, 4096))
        blocks.append(data[place : place + size])
        place += size
    return blocks


def comparable(log: Log) -> list[str]:
    """NaN is not equal to itself."""
    return [log.format, str(log.dropped), *map(repr, log.records)]


@pytest.mark.parametrize("name", [*ODD_LOGS, *sorted(file.stem for file in LOGS.glob("*.log"))])
def test_a_log_is_read_the_same_in_any_blocks(name: str) -> None:
    data = ODD_LOGS[name] if name in ODD_LOGS else (LOGS / f"{name}.log").read_bytes()
    assert comparable(read_log(pieces(data, 1))) == comparable(read_log([data]))


TABLE = "step,loss,sec/it\n" + "".join(f"{step},4.{9 - step},0.5\n" for step in range(1, 10))


def test_the_head_of_a_table_may_be_the_first_line(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "a.log").write_text(TABLE)
    (folder / "b.log.gz").write_bytes(gzip.compress(TABLE.encode()))
    for name in ("a.log", "b.log.gz"):
        said = clusterjobs("report", name).out
        assert "steps       9\n" in said
        assert "500 ms a step" in said


def test_a_table_of_validations_is_no_second_run() -> None:
    steps = range(10, 210, 10)
    training = "step loss sec/it\n" + "".join(f"{step} {300 / step} 0.25\n" for step in steps)
    log = read_log([f"{training}step val_loss time\n100 4.1 12.5\n200 3.1 12.5\n".encode()])
    windows = [one for one in log.records if isinstance(one, Window)]
    assert [one.step for one in windows] == [*steps]
    assert {one.values.get("seconds") for one in windows} == {0.25}
    others = [one for one in log.records if not isinstance(one, Window)]
    assert [(one.kind, one.step, one.value) for one in others] == [
        ("validation", 100, 4.1),
        ("validation", 200, 3.1),
    ]


def test_the_line_that_is_being_written_counts_once_it_is_whole() -> None:
    reader = LogReader(all_formats())
    reader.feed(b"step 1 loss 4.5\nstep 2 lo")
    assert [one.step for one in reader.log().records if isinstance(one, Window)] == [1]
    reader.feed(b"ss 4.25")
    assert len(reader.log().records) == 1
    reader.feed(b"\nstep 3 loss 4\n")
    found = [one for one in reader.log().records if isinstance(one, Window)]
    assert [(one.step, one.values["loss"]) for one in found] == [(1, 4.5), (2, 4.25), (3, 4)]


def test_a_line_of_megabytes_does_not_hide_the_others() -> None:
    data = b"step 1 loss 4\n" + b"x" * 5_000_000 + b"\nstep 2 loss 3\n"
    found = [one for one in read_log(pieces(data, 2)).records if isinstance(one, Window)]
    assert [one.step for one in found] == [1, 2]


@pytest.mark.parametrize("size", [0, 1, 5, 20, 100])
def test_a_packed_log_that_is_cut_off_anywhere_is_reported(
    clusterjobs, tmp_path: pathlib.Path, size: int
) -> None:
    lines = "".join(f"step {step} loss 4\n" for step in range(1, 10))
    whole = gzip.compress(lines.encode() + random.Random(1).randbytes(300), mtime=0)
    (tmp_path / "job.log.gz").write_bytes(whole[:size])
    done = clusterjobs("report", tmp_path / "job.log.gz")
    assert done.code == 0, done.err
    assert ("steps       9" in done.out) == (size == 100)


def test_a_log_that_was_emptied_while_it_grew_has_no_zeros_to_read(
    clusterjobs, tmp_path: pathlib.Path
) -> None:
    """The program goes on at its old place, and before it the file has a hole, here of 8 GiB."""
    log = tmp_path / "a.log"
    lines = [f"step {step} loss {4 - step / 100} time 0.5\n" for step in range(1, 41)]
    with log.open("w") as file:
        file.write("".join(lines[:20]))
        file.seek(8 << 30)
        file.write("\n" + "".join(lines[20:]))
    assert sum(map(len, blocks_of(log))) < 64 << 20
    (run,) = json.loads(clusterjobs("report", "--json", log).out)["runs"]
    assert run["steps"] == 40


def test_an_infinite_loss_is_no_number_in_json(clusterjobs, tmp_path: pathlib.Path) -> None:
    (tmp_path / "job.log").write_bytes(ODD_LOGS["loss_is_infinite"])
    done = clusterjobs("report", tmp_path / "job.log", "--json")
    assert done.code == 0
    assert "Infinity" not in done.out
    assert "NaN" not in done.out


def test_two_lines_in_one_are_two_steps() -> None:
    log = read_log([ODD_LOGS["two_lines_in_one"]])
    found = [(one.step, one.values["loss"]) for one in log.records if isinstance(one, Window)]
    assert found == [(step, pytest.approx(6 - step / 100)) for step in range(10, 121, 10)]
