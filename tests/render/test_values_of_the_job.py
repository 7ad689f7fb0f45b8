"""`{{ job.* }}` and `{{ env.* }}`: values that only the running job knows."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from script_runs import JOB_ID, Run, run_script, script

HOSTILE = "$(touch owned) 'a' \"b\" `touch owned`\n*"
PRINT = ["bash", "-c", "printf '<%s>' \"$@\"", "print"]


def run(folder: pathlib.Path, environment: dict[str, str], *words: str, **keys: Any) -> Run:
    text = script(nodes=1, command=[*PRINT, *words], **keys)
    return run_script(folder, text, environment=environment)


def test_the_values_of_the_job_arrive(tmp_path: pathlib.Path) -> None:
    words = ("{{ job.id }}", "{{ job.dir }}/x", "{{ job.attempt }}", "a-{{ job.array_index }}")
    end = run(tmp_path, {"SLURM_ARRAY_TASK_ID": "7"}, *words)
    assert f"<{JOB_ID}><{tmp_path}/logs/{JOB_ID}/x><1><a-7>" in end.log
    assert end.code == 0


def test_a_variable_of_the_node_arrives_byte_for_byte(tmp_path: pathlib.Path) -> None:
    given = {"SCRATCH": HOSTILE, "EMPTY": ""}
    words = ("{{ env.SCRATCH }}", "{{ env.EMPTY | default('of /x') }}")
    end = run(tmp_path, given, *words, env={"COPY": "{{ env.SCRATCH }}"})
    assert f"<{HOSTILE}><of /x>" in end.log
    assert not (tmp_path / "owned").exists()


def test_a_variable_that_is_not_set_ends_the_job_with_its_name(tmp_path: pathlib.Path) -> None:
    for number, keys in enumerate(
        (
            {},
            {"env": {"COPY": "{{ env.SCRATCH }}/x"}},
            {"workdir": "{{ env.SCRATCH }}"},
            {"before": ["echo {{ env.SCRATCH }}"]},
            {"checkpoints": {"path": "{{ env.SCRATCH }}/ck"}},
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        end = run(folder, {}, "{{ env.SCRATCH }}", **keys)
        assert end.code != 0
        assert "SCRATCH: not set on this node: not_started" in end.log
        assert end.reasons == ["not_started"]


def test_an_own_variable_keeps_its_value(tmp_path: pathlib.Path) -> None:
    end = run(tmp_path, {"NAME": "other"}, "{{ env.NAME }}", env={"NAME": "own"})
    assert "<own>" in end.log


# ------------------------------------------------------------------ {{ job.node_rank }}

BOTH_NODES = """while [[ $1 == --* ]]; do shift; done
for rank in 0 1; do (export SLURM_NODEID=$rank SLURM_PROCID=$rank SLURM_NTASKS=2; "$@"); done"""


def test_each_node_gets_its_own_rank_beside_hostile_values(tmp_path: pathlib.Path) -> None:
    words = ("{{ job.node_rank }}", "a/{{ job.node_rank }}-{{ job.node_rank }}", HOSTILE, "", "é")
    text = script(
        nodes=1,
        command=[*PRINT, *words, "{{ env.GIVEN }}", "$CLUSTERJOBS_NODE_RANK"],
    )
    end = run_script(tmp_path, text, environment={"GIVEN": HOSTILE}, stand_ins={"srun": BOTH_NODES})
    for rank in "01":
        expected = (rank, f"a/{rank}-{rank}", HOSTILE, "", "é", HOSTILE, "$CLUSTERJOBS_NODE_RANK")
        assert "".join(f"<{one}>" for one in expected) in end.log
    assert end.code == 0
    assert not (tmp_path / "owned").exists()


def test_a_variable_of_the_ranks_can_hold_the_rank_of_the_node(tmp_path: pathlib.Path) -> None:
    env = {"NODE": "of {{ job.node_rank }} ${NOWHERE}'$$(touch owned)", "PLAIN": "1"}
    text = script(
        nodes=1, env=env, command=["bash", "-c", 'echo "<$NODE><$CLUSTERJOBS_NODE_RANK>"']
    )
    end = run_script(tmp_path, text, stand_ins={"srun": BOTH_NODES})
    assert "<of 0 '$(touch owned)><0>" in end.log
    assert "<of 1 '$(touch owned)><1>" in end.log
    assert not (tmp_path / "owned").exists()


def test_a_script_without_the_reference_has_no_trace_of_it() -> None:
    assert "CLUSTERJOBS_NODE_RANK" not in script()


# ------------------------------------------------------------------ variables of paths and of env


@pytest.mark.parametrize(
    "keys",
    [
        {"workdir": "${DATA}/code"},
        {"checkpoints": {"path": "${DATA}/ck"}},
        {"command": ["true"], "software": {"source": ["${DATA}/env.sh"]}},
        {"software": {"container": {"runtime": "apptainer", "image": "${DATA}/a.sif"}}},
        {"software": {"venv": "${DATA}/venv"}},
        {"data": [{"source": "${DATA}/x", "target": "/fsx/x"}]},
        {"workdir": "${OTHER:-${DATA}}/code"},
    ],
)
@pytest.mark.parametrize("given", [{}, {"DATA": ""}])
def test_a_path_with_an_unset_variable_ends_the_job_as_not_started(
    tmp_path: pathlib.Path, keys: dict[str, Any], given: dict[str, str]
) -> None:
    end = run_script(tmp_path, script(nodes=1, **{"command": ["true"], **keys}), environment=given)
    assert "DATA: not set on this node" in end.log
    assert end.reasons == ["not_started"]


def test_a_path_needs_no_variable_that_has_a_default(tmp_path: pathlib.Path) -> None:
    (tmp_path / "code").mkdir()
    keys = {"workdir": "${DATA:-" + str(tmp_path) + "}/code"}
    end = run_script(tmp_path, script(nodes=1, command=["pwd"], **keys))
    assert f"{tmp_path}/code\n" in end.log
    assert end.code == 0


CHANGES = ["export OMP_NUM_THREADS=1 FROM_SETUP=here OPEN=1 PYTHONPATH=/b:$PYTHONPATH"]


def test_env_wins_over_setup_and_can_use_its_variables(tmp_path: pathlib.Path) -> None:
    env = {"OMP_NUM_THREADS": 12, "X": "${FROM_SETUP}/x", "PYTHONPATH": "/a:${PYTHONPATH:-}"}
    show = ["bash", "-c", 'echo "<$OMP_NUM_THREADS><$X><$OPEN><$PYTHONPATH>"']
    for key in ({"setup": CHANGES}, {"software": {"setup": CHANGES}}):
        end = run_script(tmp_path, script(nodes=1, command=show, env=env, **key))
        assert "<12><here/x><1></b:/a:>" in end.log


def test_every_rank_has_the_number_of_its_node(tmp_path: pathlib.Path) -> None:
    text = script(nodes=1, command=["bash", "-c", 'echo "<$NODE_RANK $RANK>"'])
    end = run_script(tmp_path, text, stand_ins={"srun": BOTH_NODES})
    assert "<0 0>" in end.log
    assert "<1 1>" in end.log


# ------------------------------------------------------------------ {{ checkpoints.latest }}


@pytest.mark.parametrize("marker", [None, "latest.txt"])
@pytest.mark.parametrize(
    ("args", "arrives"),
    [
        ({"resume": "{{ checkpoints.latest }}", "lr": 1}, "<--resume><{}><--lr><1>"),
        (["--resume={{ checkpoints.latest }}/model 'x'.pt"], "<--resume={}/model 'x'.pt>"),
        (["start", "{{ checkpoints.latest }}", "end"], "<start><{}><end>"),
    ],
)
def test_the_newest_checkpoint_is_an_argument_if_there_is_one(
    tmp_path: pathlib.Path, args: Any, arrives: str, marker: str | None
) -> None:
    folder = tmp_path / "ck points"
    keys = {"checkpoints": {"path": str(folder)} | ({"marker": marker} if marker else {})}
    text = script(nodes=1, command=PRINT, args=args, **keys)
    left = {"<--resume><{}><--lr><1>": "<--lr><1>", "<start><{}><end>": "<start><end>"}
    first = run_script(tmp_path, text)
    assert left.get(arrives, "<>") in first.log
    assert "resume" not in first.log
    for number in (1, 2):
        (folder / f"step {number}").mkdir()
        os.utime(folder / f"step {number}", (number, number))
    (folder / "latest.txt").write_text("step 2\n")
    os.utime(folder / "latest.txt", (0, 0))
    assert arrives.format(f"{folder}/step 2") in run_script(tmp_path, text).log


def test_a_marker_that_names_nothing_is_no_checkpoint(tmp_path: pathlib.Path) -> None:
    keys = {"checkpoints": {"path": str(tmp_path / "ck"), "marker": "m"}}
    text = script(nodes=1, command=[*PRINT, "a", "{{ checkpoints.latest }}"], **keys)
    run_script(tmp_path, text)
    (tmp_path / "ck" / "m").write_text("gone\n")
    assert "<a>\n" in run_script(tmp_path, text).log.replace("clusterjobs", "\nclusterjobs")
