"""What the shell that called sbatch has exported changes neither the job nor its log."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from script_runs import run_script, script

SHOW = (
    'echo "seen: $SHELLOPTS $BASHOPTS $- ${POSIXLY_CORRECT-} ${PYTHONSAFEPATH-} ${PYTHONINSPECT-}"'
)


def run_beside(folder: pathlib.Path, name: str, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code, and the environment as a rank sees it."""
    (folder / name).mkdir()
    keys = {
        "command": ["bash", "-c", SHOW],
        "before": [["true"]],
        "setup": [": > twice; : > twice", 'echo "script: $-"'],
    }
    run = run_script(
        folder / name, script(logs=str(folder / name / "logs"), **keys), environment=environment
    )
    assert run.reasons == ["completed"], run.log
    marks = ("seen: ", "script: ")
    seen = [line for line in run.log.splitlines() if line.lstrip("0: ").startswith(marks)]
    assert len(seen) == len(marks)
    return run.code, " ".join(seen)


@pytest.mark.parametrize(
    "environment",
    [
        {"SHELLOPTS": "braceexpand:xtrace:verbose"},
        {"SHELLOPTS": "noclobber:noglob:allexport:keyword"},
        {"SHELLOPTS": "posix"},
        {"SHELLOPTS": "monitor"},
        {"POSIXLY_CORRECT": "1"},
        {"BASHOPTS": "extglob"},
        {"PYTHONSAFEPATH": "1", "PYTHONINSPECT": "1"},
    ],
    ids=str,
)
def test_options_of_the_calling_shell_reach_no_rank(
    tmp_path: pathlib.Path, environment: dict[str, str]
) -> None:
    usual = run_beside(tmp_path, "usual", {})
    assert run_beside(tmp_path, "hostile", environment) == usual


def test_a_trace_of_the_calling_shell_puts_no_secret_into_the_log(tmp_path: pathlib.Path) -> None:
    keys = {"secrets": ["A_KEY"], "command": ["true"], "logs": str(tmp_path / "logs")}
    environment = {"SHELLOPTS": "xtrace:verbose", "A_KEY": "do-not-show"}
    run = run_script(tmp_path, script(**keys), environment=environment)
    assert run.reasons == ["completed"], run.log
    assert "do-not-show" not in run.log


def test_a_script_that_is_not_submitted_says_so(tmp_path: pathlib.Path) -> None:
    """Outside of Slurm, and in the shell of salloc, which does not run on a node of the job."""
    (tmp_path / "job.sh").write_text(script(logs=str(tmp_path / "logs")))
    for environment in ({}, {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node-1"}):
        done = subprocess.run(
            ["bash", "job.sh"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert done.stderr.endswith("this is a batch script: submit it with sbatch\n")
        assert not (tmp_path / "logs").exists()
