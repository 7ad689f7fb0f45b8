"""The last step and the last number of a log, in the forms of the frameworks."""

from __future__ import annotations

import os
import pathlib
import re

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.runs.status.log_end import (
    END,
    last_logged_step,
    last_match,
    last_message,
    last_step,
    read_log_end,
)

STEPS = {
    "Megatron-LM": (
        " [2025-03-06 12:00:00.000000] iteration      100/  500000 | consumed samples: 25600 |",
        "100/500000",
    ),
    "DeepSpeed": (
        "[2025-01-01 12:00:00,000] [INFO] [logging.py:1:log_dist] [Rank 0] step=10, skipped=0",
        "10",
    ),
    "DeepSpeed's pipeline": ("steps: 20 loss: 4.1234 iter time (s): 0.912 samples/sec: 70", "20"),
    "fairseq's json": (
        'x | INFO | train_inner | {"epoch": 1, "update": 0.294, "loss": "7.7", "num_updates": "5"}',
        "5",
    ),
    "torchtitan": ("[titan] - INFO - step: 30  loss:  7.12345  memory: 42.10GiB(53.20%)", "30"),
    "colours": ("\x1b[31mstep: 30  \x1b[32mloss:  7.12345\x1b[39m", "30"),
    "Trainer, after its bar": (
        " 12%|█▏        | 12/100 [00:05<00:40]\r 13%|█▏ | 13/100 [00:06<00:40]"
        "{'loss': '2.1234', 'epoch': '0.12'}",
        "13/100",
    ),
    "NeMo": ("Training epoch 1, iteration 10/999 | lr: 0.0001 | global_step: 29 |", "10/999"),
    "litgpt": ("Epoch 1 | iter 128 step 16 | loss train: 2.310, val: n/a", "16"),
    "after a bar": ("iteration 3/60 done\rstep 9: x", "9"),
    "labelled": ("3: step 7 of 9: loss 2.5", "7"),
    "a slash": ("step 5/60 loss 3", "5/60"),
}
NONE = [
    "",
    "saved global_step194",
    "12 steps of nothing",
    "step 5.3 s",
    "0.5 steps/s 100",
    "stepping 9",
]


@pytest.mark.parametrize("name", STEPS)
def test_the_step_of_a_line_is_found(name: str) -> None:
    line, step = STEPS[name]
    assert str(last_step(f"step 1\nstep 2\n{line}\nsomething else 99\n")) == step


@pytest.mark.parametrize("line", NONE)
def test_other_lines_have_no_step(line: str) -> None:
    assert last_step(line) is None


@pytest.mark.parametrize("name", [name for name, one in FRAMEWORKS.items() if one.log_lines])
def test_the_lines_that_frameworks_declare_are_found(name: str) -> None:
    (line,) = FRAMEWORKS[name].log_lines
    expected = re.search(line.pattern, line.sample)
    assert expected
    for patterns in ([line.pattern], []):  # also without knowing the framework
        found = last_step(f"{line.sample}\n", patterns)
        assert found
        assert found.step == int(expected["step"])


def test_the_frameworks_own_line_comes_first() -> None:
    text = "at update 8\nstep 3\n"
    assert str(last_step(text, [r"at update (?P<step>\d+)"])) == "8"


def test_a_number_without_end_is_no_step() -> None:
    assert last_step("at " + "9" * 10_000, [r"at (?P<step>\d+)"]) is None
    assert str(last_step("at 5 of x", [r"at (?P<step>\d+) of (?P<steps>\w+)"])) == "5"


def test_a_number_is_the_last_one_of_the_log() -> None:
    text = "loss=3.5 loss=3.25\nloss=2.5\nloss=nan\n"
    assert last_match(text, re.compile("loss=([0-9.]+)")) == "2.5"
    assert last_match("loss=3.5 loss=3.25", re.compile("loss=([0-9.]+)")) == "3.25"
    assert last_match(text, re.compile("accuracy=(.*)")) == ""
    assert last_match("ab", re.compile("a(x)?")) == ""


def test_only_the_end_of_a_log_is_read(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(b"step 5\n" + b"\xff\n" * END + b"end\n")
    text = read_log_end(log)
    assert len(text) <= END
    assert text.endswith("end\n")
    assert last_logged_step(log) is None
    log.write_bytes(b"step 6\n" + b"\xff\n" * (END // 4) + b"end\n")
    assert str(last_logged_step(log)) == "6"
    log.write_text(f"{'y' * 99}\n" * END)
    assert set(read_log_end(log).splitlines()) == {"y" * 99}
    log.write_bytes(b"x" * (2 * END))  # one line without an end
    assert read_log_end(log) == "x" * END


def test_what_is_no_log_is_empty(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("pipe", "link", "missing"):
        assert read_log_end(tmp_path / name) == ""


# ------------------------------------------------------------------ messages of the script

ENDED = "clusterjobs: job 7 ended with exit code 1 after 0 s: not_started\n"


@pytest.mark.parametrize(
    ("said", "reason", "message"),
    [
        (
            "/var/s/slurm_script: line 28: cd: /x: No such file",
            "not_started",
            "cd: /x: No such file",
        ),
        ("/a/job.sh: line 3: A: not set: not_started", "not_started", "A: not set: not_started"),
        (
            "clusterjobs: no script t.py in /x\n0: clusterjobs: a",
            "not_started",
            "no script t.py in /x",
        ),
        (
            "clusterjobs: step a ended with exit code 3",
            "after_failure",
            "step a ended with exit code 3",
        ),
        ("clusterjobs: step a ended with exit code 3", "failure", "step a ended with exit code 3"),
        ("clusterjobs: unset, from the calling shell: PYTHONPATH\n0: oops", "failure", ""),
        ("clusterjobs: got SIGTERM during main (cancelled)", "cancelled", ""),
        ("0: done", "completed", ""),
        ("", "", ""),
    ],
)
def test_the_message_of_the_last_attempt_is_found(
    tmp_path: pathlib.Path, said: str, reason: str, message: str
) -> None:
    log = tmp_path / "job.log"
    for before in ("", "clusterjobs: of an earlier attempt\n" + ENDED):
        for after in (ENDED, ""):
            log.write_text(f"{before}{said}\n{after}")
            if before and not after and not message:
                continue  # an attempt that has not ended
            assert last_message(log, reason) == message
    assert last_message(tmp_path / "missing", "not_started") == ""
