"""The record of a job without restarts says when it was submitted."""

from __future__ import annotations

import pathlib

import pytest
from script_runs import STAND_INS, run_script, script


@pytest.mark.parametrize(
    ("answer", "submitted"), [("echo 1000", 1000), ("echo N/A", None), ("exit 1", None)]
)
def test_the_record_says_when_the_job_was_submitted(
    tmp_path: pathlib.Path, answer: str, submitted: int | None
) -> None:
    squeue = f"case $*$SLURM_TIME_FORMAT in *%V%s) {answer} ;; *) {STAND_INS['squeue']} ;; esac"
    run = run_script(tmp_path, script(command=["true"]), stand_ins={"squeue": squeue})
    assert run.records[0]["submitted"] == submitted
    assert run.reasons == ["completed"]
