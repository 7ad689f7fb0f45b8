"""Files that libraries write their metrics into, read in place of a log."""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import sys

import pytest
from own_numbers import LOGS, recorded_steps

from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.metric_files import read_metric_file
from clusterjobs.report.logs.records import Event, Window
from clusterjobs.report.page.curves import _KINDS, points_of

EVERY, WINDOW = 5, 10  # steps between two rows; steps of ThroughputMonitor's average


def windows(path: pathlib.Path) -> list[Window]:
    log = read_metric_file(path)
    assert log
    return [one for one in log.records if isinstance(one, Window)]


def test_lightnings_metrics_are_those_of_the_program() -> None:
    own = {row["step"]: row for row in recorded_steps("lightning_tqdm")}
    found = windows(LOGS / "lightning_tqdm.csv")
    assert [one.step for one in found] == list(range(EVERY, len(own) + 1, EVERY))
    for window in found:
        assert window.values["loss"] == pytest.approx(own[window.step]["loss"], rel=1e-5)
    for window in found[1:-1]:
        # Nine steps lie between the first and the last of ten times, each taken behind its step.
        last, first = window.step, window.step - WINDOW + 1
        samples = sum(own[step]["samples"] for step in range(first + 1, last + 1))
        seconds = samples / window.values["samples_per_second"]
        assert own[last]["end"] - own[first + 1]["start"] <= seconds
        assert seconds <= own[last + 1]["start"] - own[first]["end"]


def test_a_metrics_file_is_a_target(clusterjobs) -> None:
    done = clusterjobs("report", LOGS / "lightning_tqdm.csv", "--json")
    assert done.code == 0, done.err
    (run,) = json.loads(done.out)["runs"]
    assert (run["framework"], run["steps"]) == ("lightning", 80)
    assert run["samples_per_second"] > 0


STATE = {
    "global_step": 1000,
    "log_history": [
        {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": 2.5, "step": 500},
        {"epoch": 0.5, "eval_loss": 2.4, "eval_runtime": 3.0, "step": 500},
        {"epoch": 1.0, "grad_norm": 1.25, "learning_rate": 0.0, "loss": 2.25, "step": 1000},
        {"epoch": 1.0, "train_runtime": 99.0, "train_samples_per_second": 80.0, "step": 1000},
    ],
}


def test_the_trainers_state_has_its_steps(clusterjobs, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "trainer_state.json"
    file.write_text(json.dumps(STATE))
    (run,) = json.loads(clusterjobs("report", file, "--json").out)["runs"]
    assert (run["framework"], run["steps"]) == ("huggingface", 1000)
    assert run["series"]["loss"] == [[500, 2.5], [1000, 2.25]]
    assert run["series"]["validation_loss"] == [[500, 2.4]]


def test_a_validation_alone_is_no_step(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text("epoch,step,val_loss,train_loss\n0,9,,2.0\n0,19,1.5,\n")
    log = read_metric_file(file)
    assert log
    assert [type(one) for one in log.records] == [Window, Event]
    assert log.records[1].step == 20


ODD = [
    "epoch,step,loss\n",
    "epoch,step,loss\n0,x,1\n0,1.5,2\n",
    "epoch,step,loss\n0,1,nan,5,6\n0\n",
    "epoch,step,loss\n0,99999999999999999999999999,inf\n",
    '{"log_history": [1, {"step": true}, {"step": "x", "loss": 1}, {"step": 3, "loss": [2]}]}',
    '{"log_history": {}}',
    "{" * 100_000,
    "[" * 100_000,
    "",
    '"epoch","step"\n"1',
    "a,b\n1,2\n",
    "epoch,step,loss\n0,nan,1\n0,-1,1\n0,1e299,1\n0,2.5,1\n0,4,1\n",
    "epoch,step,loss\n0,1,1\n0,2," + "9" * 140_000 + "\n",
    '{"log_history": [{"step": "2.5", "loss": 1}, {"step": NaN, "loss": 1}, {"step": 1e99}]}',
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_damaged_files_are_no_failure(clusterjobs, tmp_path: pathlib.Path, text: str) -> None:
    for name in ("metrics.csv", "trainer_state.json"):
        (tmp_path / name).write_text(text)
        done = clusterjobs("report", tmp_path / name)
        assert done.code == 0, done.err
        log = read_metric_file(tmp_path / name)
        steps = [one.step or 0 for one in (log.records if log else ())]
        assert all(before <= after for before, after in itertools.pairwise(steps))
        assert all(math.isfinite(step) for step in steps)


def write_events(folder: pathlib.Path, name: str, steps: range, start: float = 1e9) -> None:
    """A step takes 0.25 s."""
    pytest.importorskip("tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event as Written
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"events.out.tfevents.{name}").open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Written(wall_time=start, file_version="brain.Event:2").SerializeToString())
        for step in steps:
            event = Written(step=step, wall_time=start + 0.25 * step)
            for tag, value in (
                *(("train/loss", 9 - step / 100), ("train/lr", 0.001), ("val_loss", 8.5)),
                *(("samples_per_sec", 128.0), ("epoch_loss", 99.0), ("weights/mean", 7.0)),
            ):
                event.summary.value.add(tag=tag, simple_value=value)
            writer.write(event.SerializeToString())


def test_event_files_that_cannot_be_read_hide_no_other_file(
    clusterjobs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tensorboard.backend.event_processing.event_file_loader", "tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    job = tmp_path / "1234"
    (job / "tb").mkdir(parents=True)
    for name, text in {
        "plan.json": "{}",
        "job.log": "hello\n",
        "tb/events.out.tfevents.1": "x",
    }.items():
        (job / name).write_text(text)
    done = clusterjobs("report", job)
    assert (done.code, done.err) == (0, "")
    assert "note: tb: event files need the package tensorboard." in done.out
    (job / "metrics.csv").write_text("step,loss\n1,3\n2,2.5\n")
    done = clusterjobs("report", job)
    assert "steps       2\n" in done.out
    assert "tensorboard" not in done.out


def test_event_files_of_a_folder_are_one_run(clusterjobs, tmp_path: pathlib.Path) -> None:
    """The second file is of a restart from step 100: its steps count."""
    write_events(tmp_path / "runs" / "a", "1.host.1", range(10, 151, 10))
    write_events(tmp_path / "runs" / "a", "2.host.2", range(110, 301, 10), start=1e9 + 500)
    done = clusterjobs("report", tmp_path, "--json")
    assert done.code == 0, done.err
    (run,) = json.loads(done.out)["runs"]
    assert (run["framework"], run["steps"]) == ("tensorboard", 300)
    assert run["step_seconds"] == pytest.approx(0.25)
    assert run["samples_per_second"] == 128
    assert run["series"]["loss"][-1] == [300, pytest.approx(6)]
    assert run["series"]["validation_loss"][-1] == [300, 8.5]


def test_a_damaged_event_file_is_read_up_to_the_damage(clusterjobs, tmp_path: pathlib.Path) -> None:
    write_events(tmp_path, "1", range(10, 151, 10))
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(file.read_bytes()[:-40])
    done = clusterjobs("report", file, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["runs"][0]["steps"] == 140
    file.write_bytes(b"\xff" * 4000)
    assert clusterjobs("report", file).code == 0


def test_a_job_whose_log_has_no_steps_is_read_from_its_metrics(
    clusterjobs, tmp_path: pathlib.Path
) -> None:
    job = tmp_path / "logs" / "7"
    (job / "lightning_logs" / "version_0").mkdir(parents=True)
    (job / "job.log").write_text("the program prints nothing\n")
    (job / "lightning_logs" / "version_0" / "metrics.csv").write_text(
        "epoch,step,train_loss\n" + "".join(f"0,{step},{9 - step}\n" for step in range(6))
    )
    (run,) = json.loads(clusterjobs("report", job, "--json").out)["runs"]
    assert (run["framework"], run["steps"]) == ("lightning", 6)


def test_columns_are_known_by_their_names(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text(
        "step,train/loss,step_time_ms,tokens_per_sec,val/loss,other\n5,2.5,500,64,3,1\n"
    )
    (only,) = windows(file)
    assert only.step == 5
    assert only.values == {
        "loss": 2.5,
        "seconds": 0.5,
        "tokens_per_second": 64,
        "validation_loss": 3,
    }


def test_the_use_of_a_gpu_is_drawn_where_a_run_has_it_in_percent(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "metrics.csv"
    name = "gpu_id: 0/utilization.gpu (%)"
    file.write_text(f"epoch,step,loss,{name}\n0,9,2.0,97\n0,19,1.5,0\n0,29,1.4,130\n")
    found = windows(file)
    assert [one.values.get("gpu_percent") for one in found] == [97, 0, None]
    (drawn,) = [kind for kind in _KINDS if kind.quantity == "gpu_percent"]
    assert points_of(found, drawn.quantity) == [(10, 97), (20, 0)]
    for written, shown in (("gpu_util: 97%", 97), ("gpu_util: 0.97", None), ("gpu_use 5 %", 5)):
        log = read_log([f"step 5 loss 2.0 {written}\n".encode()])
        (window,) = [one for one in log.records if isinstance(one, Window)]
        assert window.values.get("gpu_percent") == shown
