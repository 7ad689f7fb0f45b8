"""`validate --in-job` asks the framework's own parser in a job of one task, in a real Slurm."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from rendered_jobs import VENV, Jobs

from clusterjobs.lab.lab import until

pytest.importorskip("torch", reason="needs the extra 'train'")
pytestmark = pytest.mark.lab

SCRIPT = "import argparse\nargparse.ArgumentParser().parse_args()\n"
COMMAND = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()", "validate"]


@pytest.fixture
def spec(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pathlib.Path]:
    """Writes a spec of two nodes whose script knows no argument."""
    monkeypatch.setenv("PATH", f"{jobs.lab.folder / 'bin'}:{os.environ['PATH']}")

    def write(**keys: Any) -> pathlib.Path:
        (jobs.folder / "train.py").write_text(SCRIPT)
        common = {
            "name": "asked",
            "cluster": "small",
            "framework": "torchrun",
            "nodes": 2,
            "script": "train.py",
            "software": {"venv": str(VENV)},
            "workdir": str(jobs.folder),
            "logs": "/fsx/logs",
            "preflight": {"arguments": "help"},
        }
        file = jobs.folder / "exp.yaml"
        file.write_text(yaml.safe_dump({**common, **keys}))
        return file

    return write


def test_a_wrong_argument_is_shown_at_its_line(jobs: Jobs, spec, clusterjobs) -> None:
    before = sorted(jobs.lab.folder.shared("/fsx").rglob("*"))
    outcome = clusterjobs("validate", spec(args={"batchsize": 3}), "--in-job", "--json")
    assert outcome.code == 1, outcome.err
    assert "asking torchrun in a job of one task" in outcome.err
    (file,) = json.loads(outcome.out)["files"]
    (problem,) = [one for one in file["problems"] if "batchsize" in one["what"]]
    assert problem["what"] == "train.py: unrecognized argument --batchsize"
    assert problem["path"] == "args.batchsize"
    assert problem["file"].endswith("exp.yaml")
    assert sorted(jobs.lab.folder.shared("/fsx").rglob("*")) == before


@pytest.mark.parametrize(
    "keys", [{}, {"checkpoints": {"path": "/fsx/not-made"}}], ids=["", "checkpoints"]
)
def test_right_arguments_are_accepted_and_no_folder_is_made(
    jobs: Jobs, spec, clusterjobs, keys
) -> None:
    outcome = clusterjobs("validate", spec(**keys), "--in-job", "--json")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "own parser was not asked" not in outcome.out
    assert not (jobs.lab.folder.shared("/fsx") / "not-made").exists()


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"sbatch": {"reservation": "none"}}, "Requested reservation is invalid"),
        (
            {"software": {"venv": "/fsx/no-such-venv"}},
            "no virtual environment at /fsx/no-such-venv",
        ),
        ({"setup": "echo before; exit 3"}, "before"),
    ],
)
def test_a_job_that_cannot_ask_says_why(spec, clusterjobs, keys, why) -> None:
    outcome = clusterjobs("validate", spec(**keys), "--in-job", "--json")
    assert outcome.code == 0, outcome.out + outcome.err
    (file,) = json.loads(outcome.out)["files"]
    (note,) = [one for one in file["problems"] if "own parser was not asked" in one["what"]]
    assert why in note["what"]


def test_ctrl_c_cancels_the_job_and_a_waiting_job_says_why(jobs: Jobs, spec) -> None:
    file = spec()
    assert jobs.lab.run(["scontrol", "update", "PartitionName=train", "State=DOWN"]).returncode == 0
    command = [*COMMAND, str(file), "--in-job"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_ctrl_c)
    try:
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        assert any("the job waits: the partition is down" in line for line in lines)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        until(lambda: not queued(jobs), 30, lambda: queued(jobs))
    finally:
        process.kill()
        process.communicate()
        jobs.lab.run(["scontrol", "update", "PartitionName=train", "State=UP"])


def heed_ctrl_c() -> None:
    """A process ignores what its caller ignores: SIGINT in the background of a shell."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def queued(jobs: Jobs) -> str:
    return jobs.lab.run(["squeue", "--noheader", "--format=%j %T"]).stdout


CONDA = """\
# A stand-in for conda: what `conda shell.bash hook` prints, as its documentation says.
case "$*" in
  "shell.bash hook") echo 'conda() {
    [[ $1 == activate ]] || return 1
    [[ -d $2/conda-meta ]] || { echo "EnvironmentLocationNotFound: $2" >&2; return 1; }
    export CONDA_PREFIX=$2 PATH="$2/bin:$PATH"; }' ;;
  *) exit 2 ;;
esac
"""
MODULES = "/usr/share/modules/init/bash"  # of the Debian package environment-modules
FUNCTION = """\
module() {
  [[ $1 == load && $2 == torch/2.13 ]] || { echo "ERROR: Unable to locate $2" >&2; return 1; }
  export PATH="@PATH@:$PATH"
}
"""


@pytest.fixture
def conda(jobs: Jobs) -> dict[str, Any]:
    """`software` with a conda environment whose Python is the one of the tests."""
    root = jobs.folder / "conda"
    (root / "bin").mkdir(parents=True)
    (root / "bin/conda").write_text(f"#!/bin/bash\n{CONDA}")
    (root / "bin/conda").chmod(0o755)
    environment = root / "envs/torch"
    (environment / "conda-meta").mkdir(parents=True)
    for name in ("bin", "lib", "pyvenv.cfg"):
        (environment / name).symlink_to(VENV / name)
    return {"setup": f'export PATH="{root}/bin:$PATH"', "conda": str(environment)}


@pytest.fixture(params=["environment-modules", "a function"])
def modules(request: pytest.FixtureRequest, jobs: Jobs) -> dict[str, Any]:
    """`software` with a module that puts the Python of the tests first."""
    source = jobs.folder / "modules.sh"
    if request.param == "a function":
        source.write_text(FUNCTION.replace("@PATH@", str(VENV / "bin")))
    elif not pathlib.Path(MODULES).exists():
        pytest.skip("environment-modules is not installed")
    else:
        (jobs.folder / "modulefiles/torch").mkdir(parents=True)
        text = f"#%Module1.0\nprepend-path PATH {VENV / 'bin'}\n"
        (jobs.folder / "modulefiles/torch/2.13").write_text(text)
        source.write_text(f". {MODULES}\nmodule use {jobs.folder / 'modulefiles'}\n")
    return {"source": [str(source)], "modules": ["torch/2.13"]}


def test_the_check_runs_in_a_conda_environment(spec, clusterjobs, conda) -> None:
    check_one_wrong_and_one_right(spec, clusterjobs, conda)
    missing = {**conda, "conda": f"{conda['conda']}-2"}
    assert "EnvironmentLocationNotFound" in note_of(spec, clusterjobs, missing)


def test_the_check_runs_with_modules(spec, clusterjobs, modules) -> None:
    check_one_wrong_and_one_right(spec, clusterjobs, modules)
    missing = {**modules, "modules": ["torch/9"]}
    assert "Unable to locate" in note_of(spec, clusterjobs, missing)


def check_one_wrong_and_one_right(spec, clusterjobs, software: dict[str, Any]) -> None:
    wrong = spec(software=software, framework="lightning", env={"PL_TRAINER_STRATEGY": "ddpp"})
    outcome = clusterjobs("validate", wrong, "--in-job", "--json")
    assert outcome.code == 1, outcome.out + outcome.err
    assert "invalid strategy name" in outcome.out
    right = spec(software=software, framework="lightning", env={"PL_TRAINER_STRATEGY": "ddp"})
    outcome = clusterjobs("validate", right, "--in-job", "--json")
    assert outcome.code == 0, outcome.out + outcome.err
    assert "own parser was not asked" not in outcome.out


def note_of(spec, clusterjobs, software: dict[str, Any]) -> str:
    """Why the parser was not asked."""
    outcome = clusterjobs("validate", spec(software=software), "--in-job", "--json")
    assert outcome.code == 0, outcome.out + outcome.err
    (file,) = json.loads(outcome.out)["files"]
    (note,) = [one for one in file["problems"] if "own parser was not asked" in one["what"]]
    return str(note["what"])
