"""The series of runs as CSV and as TensorBoard's event files, read by other programs."""

from __future__ import annotations

import csv
import pathlib
import sys

import pytest

from clusterjobs.cli import main
from clusterjobs.errors import InputError
from clusterjobs.report.exports import csv_text, write_tensorboard
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run


def run_named(name: str, job_id: str = "") -> Run:
    windows = (
        Window(10, {"loss": 2.5, "time": 1e9}, 10),
        Window(20, {"loss": 2.25, "grad_norm": 0.5}, 10),
    )
    return make_run(Log("own", windows), Job(name=name, job_id=job_id))


def test_csv_has_a_row_for_each_window_and_empty_cells_for_what_is_unknown() -> None:
    text = csv_text([run_named("a"), run_named("b", "7")])
    rows = list(csv.DictReader(text.splitlines()))
    assert [
        (one["run"], one["job_id"], one["step"], one["loss"], one["grad_norm"]) for one in rows
    ] == [
        ("a", "", "10", "2.5", ""),
        ("a", "", "20", "2.25", "0.5"),
        ("b", "7", "10", "2.5", ""),
        ("b", "7", "20", "2.25", "0.5"),
    ]


def test_a_name_cannot_become_a_formula_of_a_spreadsheet() -> None:
    rows = list(csv.DictReader(csv_text([run_named('=HYPERLINK("x")')]).splitlines()))
    assert rows[0]["run"] == '\'=HYPERLINK("x")'


def test_tensorboard_reads_the_event_files(tmp_path: pathlib.Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write_tensorboard(tmp_path, [run_named("a/../b <c>", "7"), run_named("..")])
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["a-..-b-c-7", "run-2"]
    found = accumulator.EventAccumulator(str(tmp_path / folders[0]))
    found.Reload()
    losses = [(one.step, one.value, one.wall_time) for one in found.Scalars("loss")]
    assert losses == [(10, 2.5, 1e9), (20, 2.25, 0.0)]
    assert [(one.step, one.value) for one in found.Scalars("grad_norm")] == [(20, 0.5)]


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    with pytest.raises(InputError, match="needs the package tensorboard"):
        write_tensorboard(tmp_path, [run_named("a")])


def test_the_command_writes_both(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tensorboard.summary.writer.record_writer")
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {n} loss {5 / n}\n" for n in range(1, 9)))
    table, folder = tmp_path / "steps.csv", tmp_path / "events"
    words = ["report", str(log), "--csv", str(table), "--tensorboard", str(folder)]
    assert main.run(words) == 0
    assert f"wrote {table}" in capsys.readouterr().err
    assert len(table.read_text().splitlines()) == 9
    assert [path.name for path in folder.iterdir()] == ["train.log"]
