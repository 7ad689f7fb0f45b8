"""When a script starts its job again: its own functions in bash, over records of attempts."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest
from test_job_script import script

BUDGETS = {"time_limit": 4, "failure": 3, "node_failure": 2}
CHECKPOINTS = "checkpoints"


def function(text: str, name: str) -> str:
    found = re.search(rf"(?m)^{name}\(\) \{{.*?^\}}", text, re.DOTALL)
    assert found, f"no function {name} in the script"
    return found[0]


def answer(folder: pathlib.Path, reason: str, lines: list[str], newest: str = "step-9") -> str:
    """What the script says to another attempt after these, whose newest checkpoint is `newest`."""
    checkpoints = {"path": str(folder / CHECKPOINTS), "marker": "latest"}
    text = script(checkpoints=checkpoints, restarts=BUDGETS, time_limit="1-00:00:00")
    (folder / CHECKPOINTS).mkdir()
    (folder / CHECKPOINTS / "latest").write_text(newest)
    (folder / "attempts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    budget = re.search(r"(?m)^declare -A budget=.*$", text)
    assert budget
    code = "\n".join(
        [
            f"set -euo pipefail; job_dir={folder}",
            *(function(text, name) for name in ("newest_checkpoint", "may_restart")),
            budget[0],
            f"if may_restart {reason}; then echo again; fi",
        ]
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def record(attempt: int, reason: str, checkpoint: str) -> str:
    return (
        f'{{"attempt": {attempt}, "reason": "{reason}", "checkpoint": "{checkpoint}", '
        '"exit_code": 1, "nodes": "n[1-2]", "seconds": 7, "ended": 5}'
    )


@pytest.mark.parametrize(("reason", "budget"), BUDGETS.items())
def test_each_reason_has_a_budget_of_its_own(
    tmp_path: pathlib.Path, reason: str, budget: int
) -> None:
    lines = [record(number, reason, f"step-{number}") for number in range(1, budget + 1)]
    assert answer(tmp_path, reason, lines) == "again"
    one_more = tmp_path / "one-more"
    one_more.mkdir()
    said = answer(one_more, reason, [*lines, record(budget + 1, reason, "step-8")])
    assert said == f"clusterjobs: no restart: restarts.{reason} allows {budget}"


def test_what_ended_well_or_was_cancelled_has_none(tmp_path: pathlib.Path) -> None:
    for reason in ("completed", "cancelled", "not_started", "bad_node"):
        folder = tmp_path / reason
        folder.mkdir()
        assert answer(folder, reason, [record(1, reason, "step-1")]) == ""


def test_two_restarts_without_a_newer_checkpoint_are_the_last(tmp_path: pathlib.Path) -> None:
    lines = [record(number, "failure", "step-9") for number in (1, 2, 3)]
    said = answer(tmp_path, "failure", lines)
    assert said == "clusterjobs: no restart: the last two brought no newer checkpoint than step-9"


def test_one_of_three_attempts_that_brought_a_checkpoint_is_enough(tmp_path: pathlib.Path) -> None:
    lines = [record(1, "failure", "step-8"), *(record(n, "failure", "step-9") for n in (2, 3))]
    assert answer(tmp_path, "failure", lines) == "again"


def test_an_attempt_of_which_two_lines_tell_is_one(tmp_path: pathlib.Path) -> None:
    """A lost node: the script was told to end, and the next attempt knew why."""
    lines = [
        record(1, "cancelled", "step-9"),
        record(1, "node_failure", "step-9"),
        record(2, "failure", "step-9"),
    ]
    assert answer(tmp_path, "failure", lines) == "again"


def test_attempts_are_counted_and_not_sorted_as_text(tmp_path: pathlib.Path) -> None:
    lines = [record(number, "time_limit", f"step-{number}") for number in range(5, 10)]
    lines = [*lines[1:], *(record(number, "failure", "step-9") for number in (10, 11))]
    said = answer(tmp_path, "failure", lines)
    assert said == "clusterjobs: no restart: the last two brought no newer checkpoint than step-9"


def test_what_cannot_be_recorded_is_not_tried_again(tmp_path: pathlib.Path) -> None:
    """Budgets are counted from the records: without them a job would come back for ever."""
    for number, lines in enumerate(([], [record(1, "time_limit", "step-1")], ['{"attempt": 2, '])):
        folder = tmp_path / str(number)
        folder.mkdir()
        said = answer(folder, "failure", lines)
        assert said == f"clusterjobs: no restart: {folder}/attempts.jsonl cannot be written"


def begun(folder: pathlib.Path, attempt: int, lines: list[str]) -> list[str]:
    """The reasons in the records once this attempt has begun over what lies in its folder."""
    text = script(checkpoints={"path": "/c"}, restarts=BUDGETS, time_limit="1-00:00:00")
    first = text[text.index("previous=0\n") : text.index("reason= #")]
    then = text[text.index("if (( previous > 0 )) && !") : text.index("(( attempt == 1 )) ||")]
    if lines:
        (folder / "attempts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    code = "\n".join(
        [
            f"set -euo pipefail; job_dir={folder}; attempt={attempt}",
            "newest_checkpoint() { :; }; may_restart() { :; }",
            first,
            re.search(r"(?m)^record\(\) .*?^\} >> .*?$", text, re.DOTALL)[0],
            then,
        ]
    )
    subprocess.run(["bash", "-c", code], check=True)
    file = folder / "attempts.jsonl"
    written = file.read_text().splitlines() if file.exists() else []
    return [re.search(r'"reason": "(\w+)"', line)[1] for line in written]


def test_a_requeue_before_the_script_began_is_no_lost_node(tmp_path: pathlib.Path) -> None:
    assert begun(tmp_path, 2, []) == []
    assert begun(tmp_path, 3, []) == ["node_failure"]  # attempt 2 began, and said nothing


def test_an_attempt_that_announced_its_restart_was_not_lost(tmp_path: pathlib.Path) -> None:
    assert begun(tmp_path, 1, []) == []
    told = [record(1, "time_limit", "")]
    assert begun(tmp_path, 3, told) == ["time_limit"]  # attempt 2 never began


def test_what_another_clusters_job_has_left_is_not_counted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "started").write_text("4\n")
    assert begun(tmp_path, 1, [record(4, "failure", "")]) == []


def test_a_full_disk_does_not_keep_the_ranks_from_being_told(tmp_path: pathlib.Path) -> None:
    keys = {"time_limit": 1, "signal": "USR1"}
    text = script(checkpoints={"path": "/c"}, restarts=keys, time_limit="1-00:00:00")
    code = "\n".join(
        [
            f"set -euo pipefail; job_dir={tmp_path}/nowhere; ranks=1; own_id=7; sidecars=()",
            "sleep() { exit; }; scancel() { echo scancel $*; }",
            function(text, "near_the_limit"),
            function(text, "tell_ranks"),
            "near_the_limit; echo and goes on",
        ]
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["scancel --signal=USR1 7", "and goes on"]


def test_a_staging_that_fails_at_once_has_failed(tmp_path: pathlib.Path) -> None:
    """Before bash asks whether it still runs, it may be over."""
    data = [{"source": "/fsx/from", "target": "/fsx/to"}]
    code = "\n".join(
        [
            f"set -euo pipefail; job_dir={tmp_path}",
            function(script(data=data), "stage"),
            "for ((n = 0; n < 1000; n++)); do ! stage false || echo well; done",
        ]
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def megatron(**restarts: int) -> str:
    return script(
        framework="megatron-deepspeed",
        script="pretrain_gpt.py",
        model={"layers": 2, "hidden": 64, "heads": 2, "sequence": 32},
        batch={"micro": 1},
        args={"save-interval": 10},
        checkpoints={"path": "/c"},
        restarts=restarts,
        time_limit="1-00:00:00",
    )


def minutes_until_the_end(text: str, seconds_left: int) -> int:
    """What a training is told that is launched so long before the limit."""
    limit = 1795000000
    code = "\n".join(
        [
            "set -euo pipefail; own_id=7; squeue() { echo 2026-11-21T12:00:00; }",
            f"date() {{ (($# > 1)) && echo {limit} || echo {limit - seconds_left}; }}",
            text[text.index("limit=$(squeue") : text.index("exit_second=")],
            "echo $exit_minutes",
        ]
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.parametrize("grace", [5, 180, 600])
@pytest.mark.parametrize("seconds_left", [86400, 86399, 86341, 86340, 3601])
def test_the_grace_is_left_of_a_training_that_goes_by_the_clock(
    grace: int, seconds_left: int
) -> None:
    text = megatron(grace_seconds=grace)
    signal = int(re.search(r"--signal=B:USR1@(\d+)", text)[1])
    told_to_end = signal + 60 - int(re.search(r"(?m)^    sleep (\d+)$", text)[1])  # at the earliest
    minutes = minutes_until_the_end(text, seconds_left)
    ends = seconds_left - 60 * minutes - 120  # before the limit, if it took two minutes to start
    assert ends - told_to_end >= grace
    assert ends + 120 < grace + 240 + 60, "longer before the limit than docs/restarts.md says"


def test_a_file_that_nobody_looks_for_is_not_made() -> None:
    own = script(checkpoints={"path": "/c"}, restarts=BUDGETS, time_limit="1-00:00:00")
    assert "CLUSTERJOBS_STOP_FILE" in own
    assert ': > "$job_dir/stop"' in own
    assert "$job_dir/stop" not in megatron(**BUDGETS)
    assert "to save and end" not in megatron(**BUDGETS)
