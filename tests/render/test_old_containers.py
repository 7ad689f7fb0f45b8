"""What a docker job does first on each node: the whole script, beside stand-ins."""

from __future__ import annotations

import pathlib

import pytest
from script_runs import run_script, script

CASES = {
    "squeue does not list the running jobs": {"squeue": "exit 1", "docker": ""},
    "docker does not answer: may this user call it?": {"docker": "exit 1"},
    "old containers cannot be removed: clusterjobs-1": {
        "docker": "[[ $1 != ps ]] || printf 'clusterjobs-%s\\n' 1 2",
    },
    "": {"docker": "[[ $1 != ps ]] || echo clusterjobs-2"},
}
SQUEUE = 'case $* in *%A*) echo 2 ;; *) echo "$STATE:$WHY" ;; esac'


@pytest.mark.parametrize("said", CASES)
def test_each_thing_that_can_go_wrong_is_reported(tmp_path: pathlib.Path, said: str) -> None:
    container = {"runtime": "docker", "image": "a/b:1"}
    text = script(software={"container": container}, launcher="torchrun", command=["true"])
    run = run_script(
        tmp_path,
        text,
        environment={"SLURMD_NODENAME": "node-7", "SLURM_CPUS_ON_NODE": "1"},
        stand_ins={"squeue": SQUEUE, "sleep": "", **CASES[said]},
    )
    assert run.code == bool(said), run.log
    assert run.reasons == (["not_started"] if said else ["completed"])
    assert not said or f"clusterjobs: node-7: {said}" in run.log
