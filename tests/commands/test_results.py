"""results: points, values and what their programs have written, as a table, CSV, JSON, Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue
from sweep_on_disk import SweepOnDisk

from clusterjobs.runs.results import Result, Row, column, means

HOSTILE = 'a,b\n"c"\r\x1b[31m=1+1 ü'
HARMLESS = "".join(c if c.isprintable() or c == "\n" else "?" for c in HOSTILE)


@pytest.fixture
def sweep(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> SweepOnDisk:
    """Three points: the first completed twice, the second failed, the third was never submitted."""
    (tmp_path / "bin").mkdir()
    write_squeue(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    made = SweepOnDisk(tmp_path, 3)
    made.submitted("40", range(2))
    write(made.job(0, "40", "completed"), {"loss": 9})
    write(made.job(0, "51", "completed"), {"loss": 2.5, "eval": {"acc": 1, "note": HOSTILE}})
    write(made.job(1, "42", "failure"), {"loss": 7})
    return made


def write(job: pathlib.Path, result: object) -> None:
    (job / "result.json").write_text(json.dumps(result))


def test_the_newest_completed_job_of_each_point_counts(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    done = clusterjobs("results", sweep.spec)
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["point", "lr", "state", "loss", "eval.acc", "eval.note", "job", "problem"],
        ["0", "0.5", "completed", "2.5", "1", 'a,b?"c"??[31m=1+1', "ü", "51"],
        ["1", "1.5", "failed"],
        ["2", "2.5", "missing"],
    ]


def test_the_best_point_stands_first_and_is_named(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    write(sweep.job(2, "60", "completed"), {"loss": 1.25})
    done = clusterjobs("results", sweep.spec, "--sort", "loss")
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[0] for line in lines[1:4]] == ["2", "0", "1"]
    assert done.out.endswith("best: point 2, loss 1.25 (1 of 3 without loss)\n")
    done = clusterjobs("results", sweep.spec, "--sort", "loss", "--largest", "--json")
    assert [one["index"] for one in json.loads(done.out)["points"]] == [0, 2, 1]


def test_the_best_point_is_the_best_so_far_while_others_run(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, tmp_path: pathlib.Path
) -> None:
    write_squeue(tmp_path / "bin", row("43", "RUNNING", array="40", index="1"))
    sweep.job(1, "43")
    done = clusterjobs("results", sweep.spec, "--sort", "loss")
    assert done.out.endswith("best so far: point 0, loss 2.5\n")


def test_the_mean_and_the_spread_over_the_points_that_differ_in_one_key(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    write(sweep.job(2, "60", "completed"), {"loss": 1.5})
    done = clusterjobs("results", sweep.spec, "--over", "args.lr")
    assert [line.split() for line in done.out.splitlines()] == [
        ["loss", "eval.acc", "points"],
        ["2", "+/-", "0.71", "1", "2"],
    ]
    data = json.loads(clusterjobs("results", sweep.spec, "--over", "args.lr", "--json").out)
    assert data["over"] == "args.lr"
    (group,) = data["means"]
    assert group["result"]["eval.acc"] == {"mean": 1.0, "spread": None, "points": 1}
    done = clusterjobs("results", sweep.spec, "--over", "seed")
    assert (done.code, "hint: swept keys: args.lr" in done.err) == (1, True)


def test_other_keys_divide_the_points_whose_mean_is_shown() -> None:
    rows = [
        Row(
            number,
            "",
            {"args.lr": lr, "args.seed": seed},
            "completed",
            Result({"loss": loss}),
            "",
            "",
        )
        for number, (lr, seed, loss) in enumerate(
            [(1, 1, 2.0), (1, 2, 4.0), (2, 1, 7.0), (2, 2, 9.0)]
        )
    ]
    found = [(values, round(result["loss"].mean, 3)) for values, result in means(rows, "args.seed")]
    assert found == [({"args.lr": 1}, 3.0), ({"args.lr": 2}, 8.0)]


def test_an_unknown_column_is_named_with_those_that_exist(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    done = clusterjobs("results", sweep.spec, "--sort", "los")
    assert done.code == 1
    assert "columns: lr, state, loss, eval.acc" in done.err.replace("args.", "")


def test_csv_has_neither_escape_sequences_nor_formulas(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    done = clusterjobs("results", sweep.spec, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out, newline="")))
    assert [row["eval.note"] for row in rows] == [HARMLESS, "", ""]
    assert [row["args.lr"] for row in rows] == ["0.5", "1.5", "2.5"]
    assert rows[0]["folder"].endswith(f"/{rows[0]['point']}/51")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1+1", "'?=1+1"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("-2.5e-3", "-2.5e-3"),
        ("+1_000", "+1_000"),
        (-2.5, "-2.5"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_cell_of_the_csv_is_harmless(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, value: object, cell: str
) -> None:
    (job,) = sweep.folder.glob("0000*/51")
    write(job, {"note": value, "=key": 1})
    done = clusterjobs("results", sweep.spec, "--csv")
    rows = list(csv.DictReader(io.StringIO(done.out, newline="")))
    assert (rows[0]["note"], rows[0]["'=key"]) == (cell, "1")


def test_json_has_the_same(clusterjobs: Callable[..., Any], sweep: SweepOnDisk) -> None:
    points = json.loads(clusterjobs("results", sweep.spec, "--json").out)["points"]
    assert points[0]["result"] == {"loss": 2.5, "eval.acc": 1, "eval.note": HOSTILE}
    assert points[0]["values"] == {"args.lr": 0.5}
    assert [one["state"] for one in points] == ["completed", "failed", "missing"]


def test_numbers_are_shown_as_the_spec_has_them(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    sweep.spec.write_text(sweep.spec.read_text().replace("0.5", "5e-1"))
    assert clusterjobs("results", sweep.spec).out.splitlines()[1].split()[:3] == [
        *("0", "5e-1", "completed"),
    ]
    rows = list(csv.DictReader(io.StringIO(clusterjobs("results", sweep.spec, "--csv").out)))
    assert rows[0]["args.lr"] == "5e-1"
    points = json.loads(clusterjobs("results", sweep.spec, "--json").out)["points"]
    assert points[0]["values"] == {"args.lr": 0.5}


def test_the_folder_of_a_sweep_is_enough(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    points = json.loads(clusterjobs("results", sweep.folder, "--json").out)["points"]
    assert [one["result"].get("loss") for one in points] == [2.5, None]
    other = clusterjobs("results", sweep.folder.parent)
    assert (other.code, "is no folder of a sweep" in other.err) == (1, True)


WRONG: dict[str, tuple[bytes, str]] = {
    "truncated": (b'{"loss": 2', "result.json is no JSON"),
    "a list": (b"[1]", "result.json is no object"),
    "empty": (b"", "result.json is no JSON"),
    "no text": (b"\xff\xfe\x00", "result.json is no JSON"),
    "deep": (b'{"a":' * 100_000, "result.json is no JSON"),
    "a huge number": (b'{"loss": ' + b"9" * 10_000 + b"}", "result.json is no JSON"),
    "huge": (b" " * (2 << 20), "result.json is larger than 1 MiB"),
    "nan": (b'{"loss": NaN, "best": {"loss": -Infinity}}', "loss is nan; best.loss is -inf"),
    "many": (json.dumps(dict.fromkeys(map(str, range(2000)))).encode(), "more than 1,000 values"),
    "a hostile key": (b'{"\\u001b]0;": "\\u0007", "b": NaN}', "b is nan"),
    "twice": (b'{"a.b": 1, "a": {"b": 2}}', "a.b is in result.json twice"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_result_is_a_problem_of_its_point(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, how: str
) -> None:
    content, said = WRONG[how]
    write(sweep.job(1, "60", "completed"), {"loss": 7})
    (sweep.job(2, "61", "completed") / "result.json").write_bytes(content)
    done = clusterjobs("results", sweep.spec, "--json")
    assert done.code == 0
    points = json.loads(done.out, parse_constant=pytest.fail)["points"]
    assert said in points[2]["problem"]
    assert [one["result"].get("loss") for one in points] == [2.5, 7, None]
    text = clusterjobs("results", sweep.spec).out
    assert said in text
    assert all(line.isprintable() for line in text.splitlines())


def test_a_pipe_in_place_of_a_result_blocks_nothing(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    os.mkfifo(sweep.job(2, "61", "completed") / "result.json")
    assert "result.json cannot be read" in clusterjobs("results", sweep.spec).out


def test_a_result_with_the_name_of_a_column_is_renamed(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk
) -> None:
    write(sweep.job(2, "61", "completed"), {"state": "fine", "args": {"lr": 3}, "list": [1, "b"]})
    rows = list(csv.DictReader(io.StringIO(clusterjobs("results", sweep.spec, "--csv").out)))
    row = rows[2]
    assert (row["state"], row["result.state"]) == ("completed", "fine")
    assert (row["args.lr"], row["result.args.lr"]) == ("2.5", "3")
    assert row["list"] == '[1, "b"]'


def test_each_job_of_a_spec_without_a_sweep_is_a_row(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, tmp_path: pathlib.Path
) -> None:
    spec = tmp_path / "sweep.yaml"
    text, _, _ = spec.read_text().partition("sweep:\n")
    spec.write_text(text)
    done = clusterjobs("results", spec)
    assert (done.code, "no job of sweep.yaml is in the queue" in done.err) == (1, True)
    for source, job_id in zip(sorted(sweep.folder.glob("*/*")), ("40", "51", "42"), strict=True):
        assert source.name == job_id
        source.rename(tmp_path / "logs" / job_id)
    done = clusterjobs("results", spec, "--sort", "loss")
    assert [line.split()[:3] for line in done.out.splitlines()] == [
        ["job", "state", "loss"],
        ["51", "completed", "2.5"],
        ["40", "completed", "9"],
        ["42", "failed"],
        ["best:", "job", "51,"],
    ]
    rows = json.loads(clusterjobs("results", spec, "--json").out)["points"]
    assert [(row["index"], row["job_id"]) for row in rows] == [
        (None, x) for x in ("40", "42", "51")
    ]
    assert rows[2]["result"]["loss"] == 2.5


def test_parquet_without_pyarrow_says_what_to_install(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = clusterjobs("results", sweep.spec, "--parquet", "out.parquet")
    assert done.code == 1
    assert done.err == (
        "Parquet needs the package pyarrow\n   hint: pip install pyarrow, or use --csv\n"
    )


def test_parquet_has_the_table(
    clusterjobs: Callable[..., Any], sweep: SweepOnDisk, tmp_path: pathlib.Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    done = clusterjobs("results", sweep.spec, "--parquet", tmp_path / "out.parquet")
    assert done.code == 0, done.err
    found = parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert found["loss"] == [2.5, None, None]
    assert found["args.lr"] == [0.5, 1.5, 2.5]
    assert found["eval.note"] == [HOSTILE, None, None]
    wrong = clusterjobs("results", sweep.spec, "--parquet", tmp_path / "no" / "out.parquet")
    assert (wrong.code, "cannot write" in wrong.err) == (1, True)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, None, 2.5], [1.0, None, 2.5]),
        ([1, None], [1, None]),
        ([True, None], [True, None]),
        ([1, "a", True], ["1", "a", "True"]),
        ([2**70, 1], [str(2**70), "1"]),
        (["\ud800"], ["?"]),
        ([None], [None]),
    ],
)
def test_a_column_of_parquet_has_one_type(cells: list[Any], expected: list[Any]) -> None:
    assert column(cells) == expected
    assert list(map(type, column(cells))) == list(map(type, expected))
