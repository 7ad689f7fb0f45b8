"""Packed points in bash, beside stand-ins for Slurm: each ends alone, and the job with the last."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import pytest
from script_runs import SMALL, STAND_INS, Run, as_yaml, last_records, lines_of, run_script

from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.context import PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.points.arrays import point_arrays
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_points

ALL_WAIT = """
echo $MASTER_PORT > port.$NUMBER; echo $NUMBER >> ran
until [[ -e port.0 && -e port.1 ]]; do sleep 0.05; done
touch started
until [[ -e signalled ]]; do sleep 0.05; done
"""
CONTENT = "0123456789abcdef"


def packed_script(command: str, numbers: int = 2, **keys: Any) -> str:
    """job.sh of a sweep over the variable NUMBER, 0 and so on, with two points on a node."""
    data = {
        "name": "a",
        "cluster": "small",
        "framework": "command",
        "command": ["bash", "-c", command],
        "env": {"NUMBER": "0"},
        "sweep": {"grid": {"env.NUMBER": [str(one) for one in range(numbers)]}, "per_node": 2},
        **keys,
    }
    text = as_yaml(data)
    facts = cluster_facts(read_cluster(SMALL, "small.yaml", {})[0])
    specs = load_points(text, "spec.yaml", option_models())
    points = [PointPlan(one.point, resolve(one, facts), CONTENT) for one in specs if one.point]
    (array,) = point_arrays(points)
    inputs = Inputs(("spec.yaml", text), ("small.yaml", SMALL))
    return render_script(array.plan, inputs, array.table).text


def run_task(folder: pathlib.Path, text: str, task: int = 0, **options: Any) -> Run:
    environment = {"SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": str(task)}
    environment |= options.pop("environment", {})
    return run_script(folder, text, environment=environment, **options)


def reasons(folder: pathlib.Path) -> dict[int, list[str]]:
    """How the attempts of each point ended, by its index."""
    logs = sorted(folder.glob("logs/a/*/4711/attempts.jsonl"))
    return {int(log.parts[-3][:4]): [one["reason"] for one in last_records(log)] for log in logs}


def test_a_point_that_fails_ends_alone(tmp_path: pathlib.Path) -> None:
    first_ends = "until grep -qs failure logs/a/0000-*/4711/attempts.jsonl; do sleep 0.05; done"
    run = run_task(tmp_path, packed_script(f"[[ $NUMBER != 0 ]] || exit 7; {first_ends}"))
    assert reasons(tmp_path) == {0: ["failure"], 1: ["completed"]}
    assert run.code == 7
    assert "0000-NUMBER=0" in run.log
    assert run.log.count("ended with exit code 7") == 1
    assert run.log.count("ended with exit code 0") == 1


def test_the_last_task_may_have_fewer_points(tmp_path: pathlib.Path) -> None:
    run = run_task(tmp_path, packed_script("true", numbers=3), task=1)
    assert (run.code, reasons(tmp_path)) == (0, {2: ["completed"]})


def test_a_task_without_points_says_so(tmp_path: pathlib.Path) -> None:
    run = run_task(tmp_path, packed_script("true"), task=9)
    assert (run.code, run.log) == (1, "clusterjobs: no points for task 9\n")


def test_an_argument_that_is_no_point_ends_the_job_before_the_program(
    tmp_path: pathlib.Path,
) -> None:
    run = run_task(tmp_path, packed_script("touch ran"), arguments=["--seed"])
    assert (run.code, (tmp_path / "ran").exists()) == (1, False)
    assert run.log == "clusterjobs: no point '--seed': submit the script without arguments\n"


def test_a_script_that_was_not_submitted_as_an_array_says_so(tmp_path: pathlib.Path) -> None:
    run = run_script(tmp_path, packed_script("true"))
    assert run.code != 0
    assert "submit it as an array" in run.log


def test_what_a_point_prints_is_in_its_own_log_alone(tmp_path: pathlib.Path) -> None:
    run = run_task(tmp_path, packed_script("echo number $NUMBER"))
    (first,) = tmp_path.glob("logs/a/0000-*/4711/job.log")
    assert "number 0" in first.read_text()
    assert "number 1" not in first.read_text()
    assert "number" not in run.log


def test_an_error_before_the_log_is_in_slurms(tmp_path: pathlib.Path) -> None:
    (tmp_path / "logs").write_text("not a folder")
    run = run_task(tmp_path, packed_script("true"))
    assert run.code == 1
    assert run.log.count("cannot make") >= 2


def test_points_have_ports_of_their_own_and_all_of_them_are_cancelled(
    tmp_path: pathlib.Path,
) -> None:
    run = run_task(tmp_path, packed_script(ALL_WAIT), signal=signal.SIGTERM)
    assert reasons(tmp_path) == {0: ["cancelled"], 1: ["cancelled"]}
    assert run.code == 143
    ports = {(tmp_path / f"port.{number}").read_text() for number in (0, 1)}
    assert len(ports) == 2


def steps_of(folder: pathlib.Path) -> dict[str, str]:
    """A squeue that knows the steps by the names of the points, and no other."""
    names = "for f in logs/a/*; do f=${f##*/}; echo 4711_0.${f:3:1} $f; done"
    body = f"case $* in *--steps*) echo 4711_0.batch batch; {names} ;; esac"
    return {"squeue": f"{body}\n{STAND_INS['squeue']}"}


def restarting(command: str) -> str:
    return packed_script(
        command,
        time_limit="1:00:00",
        checkpoints={"path": "checkpoints/{{ point.label }}"},
        restarts={"time_limit": 1, "failure": 0, "signal": "USR1"},
    )


@pytest.fixture
def at_the_limit(tmp_path: pathlib.Path) -> Run:
    """Point 0 has ended before the signal; point 1 ends after it, as one that has saved."""
    ends = '[[ $NUMBER == 1 ]] || { echo 0 >> ran; exit "$(( ${SLURM_RESTART_COUNT-} + 0 ))"; }'
    waits = "until grep -qs completed logs/a/0000-*/4711/attempts.jsonl; do sleep 0.05; done"
    goes_on = "[[ ! -e again ]] || exit 0; touch started; until [[ -e $CLUSTERJOBS_STOP_FILE ]]"
    command = f"{ends}; echo 1 >> ran; {waits}; {goes_on}; do sleep 0.05; done"
    text = restarting(command)
    return run_task(tmp_path, text, signal=signal.SIGUSR1, stand_ins=steps_of(tmp_path))


def test_a_pack_at_its_time_limit_is_requeued_once_after_all_have_saved(
    at_the_limit: Run, tmp_path: pathlib.Path
) -> None:
    assert reasons(tmp_path) == {0: ["completed"], 1: ["time_limit"]}
    assert at_the_limit.requeues == 1
    assert "requeue 4711_0" in at_the_limit.requests
    # Only the step of the point that runs gets the signal, never the whole job.
    signalled = [one for one in at_the_limit.requests if one.startswith("scancel")]
    assert signalled == ["scancel --signal=USR1 4711_0.1"]


def test_a_pack_whose_points_all_have_saved_is_requeued_once(tmp_path: pathlib.Path) -> None:
    waits = "until [[ -e $CLUSTERJOBS_STOP_FILE ]]; do sleep 0.05; done"
    meet = "touch port.$NUMBER; until [[ -e port.0 && -e port.1 ]]; do sleep 0.05; done"
    command = f"{meet}; touch started; {waits}"
    stand_ins = steps_of(tmp_path)
    run = run_task(tmp_path, restarting(command), signal=signal.SIGUSR1, stand_ins=stand_ins)
    assert reasons(tmp_path) == {0: ["time_limit"], 1: ["time_limit"]}
    assert run.requeues == 1


def test_points_that_have_ended_do_not_run_again_after_a_requeue(
    at_the_limit: Run, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "again").touch()
    again = run_task(
        tmp_path,
        (tmp_path / "job.sh").read_text(),
        environment={"SLURM_RESTART_COUNT": "1"},
        stand_ins=steps_of(tmp_path),
    )
    assert again.code == 0
    assert reasons(tmp_path) == {0: ["completed"], 1: ["time_limit", "completed"]}
    assert sorted(lines_of(tmp_path / "ran")) == ["0", "1", "1"]
    assert again.requeues == at_the_limit.requeues == 1


def test_what_has_ended_is_known_although_no_file_can_be_written(tmp_path: pathlib.Path) -> None:
    """A link needs no room: on a full disk, a file would be empty."""
    text = restarting("[[ $NUMBER != 0 ]] || exit 9; echo 1 >> ran")
    run_task(tmp_path, text, stand_ins=steps_of(tmp_path))
    folders = tmp_path.glob("logs/a/*/4711")
    assert sorted(str((one / "ended").readlink()) for one in folders) == ["0", "9"]


def test_a_point_that_cannot_start_again_asks_for_no_further_requeue(
    at_the_limit: Run, tmp_path: pathlib.Path
) -> None:
    (folder,) = tmp_path.glob("logs/a/0001-*/4711")
    assert (folder / "restart").exists()
    folder.chmod(0o777)
    again = run_task(
        tmp_path,
        (tmp_path / "job.sh").read_text(),
        environment={"SLURM_RESTART_COUNT": "1"},
        stand_ins=steps_of(tmp_path),
    )
    assert "others may change" in again.log
    assert again.code == 1
    assert again.requeues == at_the_limit.requeues == 1


def test_a_point_without_a_restart_left_keeps_its_exit_code(tmp_path: pathlib.Path) -> None:
    text = restarting("[[ $NUMBER != 0 ]] || exit 9; echo 1 >> ran")
    first = run_task(tmp_path, text, stand_ins=steps_of(tmp_path))
    again = run_task(
        tmp_path,
        text,
        environment={"SLURM_RESTART_COUNT": "1"},
        stand_ins=steps_of(tmp_path),
    )
    assert (first.code, again.code) == (9, 9)
    assert reasons(tmp_path) == {0: ["failure"], 1: ["completed"]}
    assert lines_of(tmp_path / "ran") == ["1"]


def test_each_point_has_steps_of_its_own(tmp_path: pathlib.Path) -> None:
    """On its ranks before the training, and at its end, however that comes."""
    tell = 'echo "$0 $CLUSTERJOBS_REASON" >> told.$0'
    text = packed_script(
        "exit $((NUMBER * 7))",
        before=[
            {"command": ["bash", "-c", "echo $RANK > rank.$NUMBER"], "per": "rank"},
            {"command": ["touch", "index.{{ point.index }}"], "name": "touch it"},
        ],
        after=[{"command": ["bash", "-c", tell, "{{ point.index }}"], "when": "always"}],
    )
    run_task(tmp_path, text)
    assert reasons(tmp_path) == {0: ["completed"], 1: ["failure"]}
    assert [(tmp_path / f"rank.{one}").read_text() for one in (0, 1)] == ["0\n", "0\n"]
    assert {one.name for one in tmp_path.glob("index.*")} == {"index.0", "index.1"}
    told = [(tmp_path / f"told.{one}").read_text() for one in (0, 1)]
    assert told == ["0 completed\n", "1 failure\n"]
