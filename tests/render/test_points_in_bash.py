"""The values of a sweep's points reach the ranks of the right task, byte for byte."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planned_sweeps import scripts_of
from script_runs import JOB_ID, STAND_INS, Run, run_script
from test_shell_text import TEXTS

from clusterjobs.errors import InputError

PRINT = ["bash", "-c", "printf '<%s>' \"$@\"", "print"]


# Of an array with two waiting tasks, and one that was requeued.
SQUEUE = f"case $* in *%K*) printf '%s\\n' 2-3%1 5 ;; *) {STAND_INS['squeue']} ;; esac"


def run(folder: pathlib.Path, text: str, task: int, **environment: str) -> Run:
    given = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_ARRAY_JOB_ID": "4700", **environment}
    return run_script(folder, text, environment=given, stand_ins={"squeue": SQUEUE})


def job_folder(folder: pathlib.Path, sweep: str = "a") -> pathlib.Path:
    (found,) = (folder / "logs" / sweep).glob(f"*/{JOB_ID}")
    return found


# ------------------------------------------------------------------ all texts


def words_of_each_task(script: str, tasks: int) -> list[list[str]]:
    """What the rendered lines give for the command and a variable of each task."""
    read_point = re.search(r"(?ms)^read_point\(\) \{.*?^\}$", script)
    command = re.search(r"(?ms)^  command=\(.*?^  \)$", script)
    export = re.search(r"(?m)^  export VALUE=.*$", script)
    assert read_point
    assert command
    assert export
    show = 'printf \'%s\\0\' "${command[@]}" "$VALUE" END'
    lines = [read_point[0]]
    for task in range(tasks):
        lines += [f"read_point {task}", export[0], command[0], show]
    done = subprocess.run(
        ["bash", "--norc", "-c", "set -euo pipefail\n" + "\n".join(lines)],
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == b""
    return [one.decode().split("\0")[:-1] for one in re.split(b"(?<=\0)END\0", done.stdout) if one]


def plain(text: str) -> str:
    """Without what a spec would expand."""
    return text.replace("{{", "{ {").replace("$", "S").replace("~", "-")


POINTS = st.lists(
    st.tuples(TEXTS.map(plain), TEXTS.map(plain)), min_size=2, max_size=12, unique=True
)


@settings(max_examples=150)
@given(POINTS, TEXTS.map(plain), TEXTS.map(plain))
def test_every_text_arrives_in_its_own_task(
    points: list[tuple[str, str]], before: str, after: str
) -> None:
    values, words = zip(*points, strict=True)
    reference = before.rstrip("{") + "{{ env.VALUE }}" + after.lstrip("}")
    try:
        (script,) = scripts_of(
            command=["./run", reference, "--fixed", before],
            env={"VALUE": ""},
            sweep={"zip": {"env.VALUE": list(values), "command.3": list(words)}},
        )
    except InputError:
        assume(False)  # for example what looks like a secret
        raise
    expected = [
        ["./run", reference.replace("{{ env.VALUE }}", value), "--fixed", word, value]
        for value, word in points
    ]
    assert words_of_each_task(script, len(points)) == expected


# ------------------------------------------------------------------ whole scripts

HOSTILE = [
    "$(touch owned) 'a' \"b\" `touch owned`\n*",
    "",
    "END\ntouch owned\n",
    "ü–日本 \u2028\u202e",
    "\\",
    " a  b ",
    "x" * 100_000,
    "--fixed",
    ";; esac; touch owned",
]


@pytest.mark.parametrize("task", range(len(HOSTILE)))
def test_a_hostile_value_arrives_in_the_ranks_of_its_task(
    tmp_path: pathlib.Path, task: int
) -> None:
    (script,) = scripts_of(
        command=[*PRINT, "{{ env.VALUE }}", "a-{{ env.VALUE }}-b"],
        env={"VALUE": ""},
        sweep={"grid": {"env.VALUE": [one.replace("$", "$$") for one in HOSTILE]}},
    )
    end = run(tmp_path, script, task)
    value = HOSTILE[task]
    assert end.code == 0, end.log
    assert f"<{value}><a-{value}-b>" in end.log
    assert not (tmp_path / "owned").exists()
    record = json.loads((job_folder(tmp_path) / "plan.json").read_text())
    assert record["point"]["values"] == {"env.VALUE": value.replace("$", "$$")}
    assert record["point"]["index"] == task


def test_the_values_are_not_in_the_environment_of_the_ranks(tmp_path: pathlib.Path) -> None:
    (script,) = scripts_of(
        command=["bash", "-c", 'echo "<$1 ${env_value-} ${point_name-}>"', "x", "{{ env.VALUE }}"],
        env={"VALUE": ""},
        setup=["value=1"],  # so the column has another name
        sweep={"grid": {"env.VALUE": ["a", "b"]}},
    )
    assert "env_value=$2" in script
    end = run(tmp_path, script, 0, env_value="of the caller", point_name="x")
    assert "<a  >" in end.log


DEEPSPEED: dict[str, Any] = {
    "framework": "deepspeed",
    "command": None,
    "script": "/bin/true",
    "launcher": "srun",
    "nodes": 1,
    "batch": {"micro": 1, "global": 8},
    "software": {},
    "ds_config": {"tag": "", "same": "$HOME `date` $(date) \\ '"},
}


@pytest.mark.parametrize("task", range(len(HOSTILE)))
def test_a_hostile_value_arrives_in_a_config_file_of_its_task(
    tmp_path: pathlib.Path, task: int
) -> None:
    (script,) = scripts_of(
        **DEEPSPEED,
        sweep={"zip": {"ds_config.tag": HOSTILE, "batch.micro": [1, 2, 4, 8] * 2 + [1]}},
    )
    run(tmp_path, script, task, PATH="")
    config = json.loads((job_folder(tmp_path) / "ds_config.json").read_text())
    assert config["tag"] == HOSTILE[task]
    assert config["same"] == DEEPSPEED["ds_config"]["same"]
    assert config["train_micro_batch_size_per_gpu"] == [1, 2, 4, 8, 1, 2, 4, 8, 1][task]


def test_the_ranks_know_their_sweep_and_point_and_where_the_result_belongs(
    tmp_path: pathlib.Path,
) -> None:
    (script,) = scripts_of(
        command=[
            "bash",
            "-c",
            'echo "<$CLUSTERJOBS_SWEEP> <$CLUSTERJOBS_POINT>"; echo "{}" > "$CLUSTERJOBS_RESULT"',
            "{{ point.name }}",
        ],
        args={"lr": 1},
        sweep={"name": "lrs", "grid": {"env.LR": ["1e-3", "3e-4"]}},
        env={"LR": "0"},
    )
    end = run(tmp_path, script, 1)
    folder = job_folder(tmp_path, "lrs")
    assert end.code == 0, end.log
    assert f"<lrs> <{folder.parent.name}>" in end.log
    assert folder.parent.name.startswith("0001-LR=3e-4")
    assert (folder / "result.json").read_text() == "{}\n"


def test_a_task_without_a_point_and_a_job_that_is_no_array_end_with_the_reason(
    tmp_path: pathlib.Path,
) -> None:
    (script,) = scripts_of(env={"A": "0"}, sweep={"grid": {"env.A": ["1", "2"]}})
    for environment, task in (({"SLURM_ARRAY_TASK_ID": "7"}, "7"), ({}, "")):
        end = run_script(tmp_path, script, environment=environment)
        assert end.code == 1
        assert f"no point for task '{task}': submit it as an array" in end.log


def test_a_point_alone_has_the_same_variables(tmp_path: pathlib.Path) -> None:
    (script,) = scripts_of(
        command=[*PRINT, "{{ point.name }}", "{{ point.index }}", "{{ point.label }}"],
        env={"A": "0"},
        sweep={"grid": {"env.A": ["x y"]}},
    )
    end = run_script(tmp_path, script)
    name = job_folder(tmp_path).parent.name
    assert f"<{name}><0><{name[5:]}>" in end.log
    assert end.code == 0


# ------------------------------------------------------------------ max_failed


def failing(**sweep: object) -> str:
    values = ["fails", "ends well", " fails", "fails "]
    (script,) = scripts_of(
        command=["bash", "-c", "[[ $1 != *fails* ]] || exit 3", "run", "{{ env.HOW }}"],
        env={"HOW": ""},
        sweep={"grid": {"env.HOW": values}, **sweep},
    )
    return script


def test_the_pending_tasks_are_held_once_max_failed_points_have_failed(
    tmp_path: pathlib.Path,
) -> None:
    script = failing(max_failed=2)
    first = run(tmp_path, script, 0)
    assert (first.code, first.requests) == (3, [])
    again = run(tmp_path, script, 0)  # the same point, submitted again
    assert (again.code, again.requests) == (3, [])
    well = run(tmp_path, script, 1)
    assert (well.code, well.requests) == (0, [])
    last = run(tmp_path, script, 2)
    assert (last.code, last.requests) == (3, ["uhold 4700_[2-3,5]"])
    assert "2 points have failed (max_failed), so the pending ones are held: `scontrol" in last.log


def test_cancelled_points_have_not_failed(tmp_path: pathlib.Path) -> None:
    script = failing(max_failed=1)
    end = run(tmp_path, script, 0, STATE="CANCELLED")
    assert (end.code, end.requests) == (143, [])


def test_points_that_start_again_have_not_failed(tmp_path: pathlib.Path) -> None:
    keys = {"checkpoints": {"path": "ckpt"}, "restarts": {"failure": 1}, "time_limit": "1:00:00"}
    (script,) = scripts_of(
        command=["bash", "-c", "exit 3", "run", "{{ env.HOW }}"],
        env={"HOW": ""},
        sweep={"grid": {"env.HOW": ["a", "b"]}, "max_failed": 1},
        **keys,
    )
    assert run(tmp_path, script, 0).requests == ["requeue 4700_0"]
    last = run(tmp_path, script, 0, SLURM_RESTART_COUNT="1")
    assert last.requests == ["requeue 4700_0", "uhold 4700_[2-3,5]"]


def test_a_sweep_without_max_failed_has_no_code_for_it() -> None:
    assert "count_failures" not in failing()


# ------------------------------------------------------------------ other places of a value


def test_a_value_in_every_place_that_may_differ_arrives(tmp_path: pathlib.Path) -> None:
    """Parameters, steps, variables: one array, and each value in its own task."""
    value = "a  $(touch owned) 'b'"
    written = value.replace("$", "$$")  # as a spec has a dollar that is one
    (script,) = scripts_of(
        command=[*PRINT, "{{ parameters.P }}"],
        env={"V": "/x", "W": "x"},
        parameters={"P": {"default": "{{ env.W }}", "type": "text"}},
        before=[{"command": [*PRINT, "before {{ env.V }}"]}, ["fail", "now"]],
        sweep={
            "zip": {
                "env.V": [f"{tmp_path}/a", f"{tmp_path}/{written}", f"{tmp_path}/c"],
                "env.W": ["p 1", written, "p\n3"],
                "before.1.0": ["true", "echo", "fail"],
            }
        },
    )
    first = run(tmp_path, script, 0)
    assert "<p 1>" in first.log
    assert f"<before {tmp_path}/a>" in first.log
    second = run(tmp_path, script, 1)
    assert f"<{value}>" in second.log
    assert f"<before {tmp_path}/{value}>" in second.log
    third = run(tmp_path, script, 2)
    assert "fail: command not found" in third.log  # and not the script's own function
    assert not (tmp_path / "owned").exists()
