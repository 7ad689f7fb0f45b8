"""Values that a job gets when it is submitted, or against the rules: arguments of the script,
parameters that are variables of the ranks, reserved variables that are forced, code of a shell.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from script_runs import Run, run_script, script

SHOW = '#!/bin/bash\nprintf "<%s>" "$@" "LR=${LR-}" "GPUS=${CUDA_VISIBLE_DEVICES-}" >> shown\n'


def run(folder: pathlib.Path, *arguments: str, text: str, **environment: str) -> Run:
    program = folder / "run"
    program.write_text(SHOW)
    program.chmod(0o755)
    return run_script(folder, text, environment=environment, arguments=arguments)


def shown(folder: pathlib.Path) -> str:
    file = folder / "shown"
    return file.read_text() if file.exists() else ""


def test_arguments_of_the_script_come_after_those_of_the_spec(tmp_path: pathlib.Path) -> None:
    text = script(args={"lr": 0.1}, job_arguments=True)
    assert run(tmp_path, "--seed", "a b", "$HOME", text=text).code == 0
    assert shown(tmp_path) == "<--lr><0.1><--seed><a b><$HOME><LR=><GPUS=>"


def test_arguments_that_the_spec_does_not_allow_end_the_job_before_the_program(
    tmp_path: pathlib.Path,
) -> None:
    ended = run(tmp_path, "--seed", "1", text=script())
    assert (ended.code, shown(tmp_path)) == (1, "")
    assert ended.reasons == ["not_started"]
    assert "clusterjobs: unexpected arguments: --seed 1 (" in ended.log


@pytest.mark.parametrize(("given", "expected"), [({}, "1e-4"), ({"LR": "3e-4"}, "3e-4")])
def test_a_parameter_can_be_a_variable_of_the_ranks(
    tmp_path: pathlib.Path, given: dict[str, str], expected: str
) -> None:
    text = script(parameters={"LR": {"default": "1e-4", "env": True}})
    assert run(tmp_path, text=text, **given).code == 0
    assert shown(tmp_path) == f"<LR={expected}><GPUS=>"


def test_a_parameter_alone_is_no_variable_of_the_ranks(tmp_path: pathlib.Path) -> None:
    run(tmp_path, text=script(parameters={"LR": "1e-4"}))
    assert shown(tmp_path) == "<LR=><GPUS=>"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--lr", "3e-4"], "<3e-4><a b><>"),
        (["--LR=3e-4", "--run-name", "c  d"], "<3e-4><c  d><>"),
        (["--run_name=", "--lr=--lr"], "<--lr><a b><>"),  # as NAME= in front of sbatch: the default
        (["--seed", "1", "--lr", "3e-4"], "<3e-4><a b><><--seed><1>"),
    ],
)
def test_parameters_are_options_of_the_script(
    tmp_path: pathlib.Path, arguments: list[str], expected: str
) -> None:
    """Those of other names go to the program."""
    text = script(
        parameters={"LR": {"default": "1e-4", "type": "text"}, "RUN_NAME": "a b"},
        args=["{{ parameters.LR }}", "{{ parameters.RUN_NAME }}", "{{ env.LR_OF_RANKS }}"],
        env={"LR_OF_RANKS": ""},
        job_arguments=True,
    )
    assert run(tmp_path, *arguments, text=text, LR="from the shell").code == 0
    assert shown(tmp_path).startswith(expected)


def test_an_option_without_its_value_or_with_a_wrong_one_starts_nothing(
    tmp_path: pathlib.Path,
) -> None:
    text = script(parameters={"LR": 1e-4})
    for arguments, message in (
        (["--lr"], "unexpected arguments: --lr"),
        (["--lr", "fast"], "the parameter LR is not a number"),
    ):
        ended = run(tmp_path, *arguments, text=text)
        assert (ended.code, shown(tmp_path)) == (1, "")
        assert message in ended.log


def forced(value: object) -> dict[str, Any]:
    return {"value": value, "force": True, "reason": 'it\'s "measured"'}


def test_the_gpus_are_forced_after_slurm_has_set_them(tmp_path: pathlib.Path) -> None:
    srun = 'while [[ $1 == --* ]]; do shift; done; CUDA_VISIBLE_DEVICES=7 SLURM_PROCID=0 exec "$@"'
    text = script(env={"CUDA_VISIBLE_DEVICES": forced("0,1")})
    (tmp_path / "run").write_text(SHOW)
    (tmp_path / "run").chmod(0o755)
    assert run_script(tmp_path, text, stand_ins={"srun": srun}).code == 0
    assert shown(tmp_path) == "<LR=><GPUS=0,1>"
    assert '# CUDA_VISIBLE_DEVICES is forced: it\'s "measured"\n' in text


def test_the_address_and_port_are_forced_for_the_whole_script(tmp_path: pathlib.Path) -> None:
    text = script(
        command=["bash", "-c", 'echo "$MASTER_ADDR $MASTER_PORT" > shown'],
        env={"MASTER_ADDR": forced("${SLURMD_NODENAME}-ib"), "MASTER_PORT": forced(29500)},
    )
    assert run_script(tmp_path, text).code == 0
    assert shown(tmp_path) == "node-1-ib 29500\n"


def test_the_shell_of_a_command_expands_its_own_variables(tmp_path: pathlib.Path) -> None:
    text = script(
        command=["bash", "-ec", 'echo "$SLURM_PROCID $1 $2" > shown', "run"],
        args={"job": "{{ job.id }}/{{ env.DATA }}"},
    )
    assert run_script(tmp_path, text, environment={"DATA": "/fsx/a b"}).code == 0
    assert shown(tmp_path) == "0 --job 4711//fsx/a b\n"
