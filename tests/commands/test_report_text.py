"""What the terminal shows of a run."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Efficiency, Job, RecordedAttempt, Run
from clusterjobs.report.text import run_text, unread_text


def run() -> Run:
    windows = tuple(
        Window(n, {"seconds": 9.0 if n % 6 == 0 else 1.0, "batch": 8.0, "loss": 9.0 / n}, 1)
        for n in range(1, 25)
    )
    made = make_run(Log("megatron-lm", windows), Job(name="a", gpus=8, nodes=1))
    both = Efficiency(54.0, 70.0, 0.173, 0.224, 312.0, "A100-40", "")
    return dataclasses.replace(made, efficiency=both)


def test_the_answer_comes_before_the_reasons_and_these_before_the_details() -> None:
    lines = run_text(run(), as_unicode=True).splitlines()
    starts = ["speed", "efficiency", "steps", "loss", "goodput", "useful", "slow", "loss", "note:"]
    places = [0]
    for start in starts:
        places.append(
            next(
                place
                for place, line in enumerate(lines)
                if place > places[-1] and line.strip().startswith(start)
            )
        )
    assert places == sorted(set(places))


def test_every_figure_of_the_efficiency_has_its_unit() -> None:
    text = run_text(run(), as_unicode=True)
    assert "MFU 17.3 % (54 TFLOP/s per GPU), HFU 22.4 % (70 TFLOP/s per GPU)" in text
    assert "peak 312 TFLOP/s (A100-40)" in text


def test_a_terminal_without_unicode_gets_ascii_alone() -> None:
    assert run_text(run(), as_unicode=False).isascii()
    assert not run_text(run(), as_unicode=True).isascii()


def test_of_a_log_without_steps_it_is_said_what_to_write() -> None:
    empty = make_run(Log("", (), lines=3, unknown=("hello",)), Job(name="train.log"))
    text = unread_text([(empty, Log("", (), lines=3, unknown=("hello",)))])
    assert text.startswith("train.log: no step was found in 3 lines.\n")
    assert "report: {step: 'step (\\d+)'" in text
    assert "--spec" in text
    assert text.endswith("the most frequent lines:\n  hello")


def test_of_a_job_that_failed_before_its_first_step_the_traceback_is_shown_first(
    tmp_path: pathlib.Path, clusterjobs: Any
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "loading\nTraceback (most recent call last):\n"
        '  File "train.py", line 3, in <module>\n    main()\nValueError: no data in /fsx/a\n'
    )
    lines = clusterjobs("report", str(log)).out.splitlines()
    assert lines[0].endswith(": it failed before its first step:")
    assert "  ValueError: no data in /fsx/a" in lines
    assert not any("Formats that were tried" in line for line in lines)


def test_of_an_empty_log_no_format_was_tried() -> None:
    empty = make_run(Log("", ()), Job(name="train.log"))
    assert unread_text([(empty, Log("", ()))]) == "train.log: the log is empty."


def test_logs_without_steps_are_named_together() -> None:
    empty = make_run(Log("", ()), Job(name="a"))
    text = unread_text([(empty, Log("", (), lines=3, unknown=("hello",)))] * 2)
    assert text.count("a: no step was found in 3 lines.") == 2
    assert text.count("Formats that were tried") == 1
    assert "hello" not in text


def test_waiting_for_nodes_has_no_share_of_the_paid_time() -> None:
    windows = tuple(Window(step, {"seconds": 1.0}, 1) for step in range(1, 21))
    known = RecordedAttempt(1, "completed", 40, began=1000, submitted=400)
    text = run_text(make_run(Log("own script", windows), Job(attempts=(known,))), as_unicode=False)
    assert re.search(r"in the queue +10 min +not paid", text)
    assert re.search(r"starting +20 s +50\.0 %", text)
