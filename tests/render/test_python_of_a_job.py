"""Which Python a job uses for its own programs: whole scripts, with other folders and Pythons."""

from __future__ import annotations

import pathlib
import shutil
import sys

import pytest
from script_runs import Run, run_script, script

TOOLS = (
    "awk",
    "bash",
    "cat",
    "date",
    "env",
    "grep",
    "head",
    "mkdir",
    "mv",
    "printf",
    "rm",
    "sleep",
)
TOOLS += (
    "chmod",
    "find",
    "getent",
    "id",
    "ls",
    "cut",
    "readlink",
    "sed",
    "sort",
    "stat",
    "tail",
    "tee",
    "timeout",
    "tr",
    "true",
)


def python_of(version: str, file: pathlib.Path) -> pathlib.Path:
    """A stand-in for a Python of that version, which notes what it runs."""
    minor = version.split(".")[1]
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"#!/bin/bash\n"
        f"[[ $1 != --version ]] || {{ echo Python {version}; exit; }}\n"
        f'[[ $2 != -c ]] || exec {sys.executable} -c "import sys; '
        f'sys.version_info = (3, {minor}, 0); ${{@: -1}}"\n'
        f'echo "$2" >> {file}.ran\nexec {sys.executable} "$@"\n'
    )
    file.chmod(0o755)
    return file


def runs_programs(file: pathlib.Path) -> bool:
    ran = pathlib.Path(f"{file}.ran")
    return ran.exists() and "attempt.py" in ran.read_text()


def run_job(tmp_path: pathlib.Path) -> Run:
    """A job with restarts, where `usr` stands for /usr/bin, and PATH has the folder `path`."""
    tools, job = tmp_path / "tools", tmp_path / "job"
    tools.mkdir()
    job.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    keys = {"restarts": {"failure": 1}, "checkpoints": {"path": str(tmp_path / "checkpoints")}}
    text = script(nodes=1, command=["true"], **keys).replace(":/usr/bin:/bin\n", "\n")
    text = text.replace("/usr/bin/", f"{tmp_path / 'usr'}/")
    path = f"{job / 'bin'}:{tmp_path / 'path'}:{tools}"
    return run_script(job, text, environment={"PATH": path})


@pytest.mark.parametrize("version", ["3.7", "3.9", "3.12"])
def test_the_systems_own_is_used(tmp_path: pathlib.Path, version: str) -> None:
    own = python_of(version, tmp_path / "usr" / f"python{version}")
    (tmp_path / "usr" / "python3").symlink_to(own.name)
    python_of("3.6", tmp_path / "usr" / "python3.6")  # it is there, and is not python3
    other = python_of("3.11", tmp_path / "path" / "python3")
    assert run_job(tmp_path).code == 0
    assert runs_programs(tmp_path / "usr" / f"python{version}") or runs_programs(
        tmp_path / "usr" / "python3"
    )
    assert not runs_programs(other)


@pytest.mark.parametrize("version", ["3.4", "3.6"])
def test_one_that_is_too_old_is_not_used(tmp_path: pathlib.Path, version: str) -> None:
    """As on RHEL 8: python3 -> /etc/alternatives/python3 -> python3.6 -> platform-python3.6."""
    old = python_of(version, tmp_path / "platform-python")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / f"python{version}").symlink_to(old)
    (tmp_path / "alternative").symlink_to(tmp_path / "usr" / f"python{version}")
    (tmp_path / "usr" / "python3").symlink_to(tmp_path / "alternative")
    other = python_of("3.11", tmp_path / "path" / "python3")
    assert run_job(tmp_path).code == 0
    assert runs_programs(other)
    assert not runs_programs(old)


def test_without_the_systems_own_that_of_path_is_used(tmp_path: pathlib.Path) -> None:
    other = python_of("3.7", tmp_path / "path" / "python3")
    assert run_job(tmp_path).code == 0
    assert runs_programs(other)


def test_without_any_python_the_job_trains_and_is_not_restarted(tmp_path: pathlib.Path) -> None:
    run = run_job(tmp_path)
    assert (run.code, run.reasons) == (0, ["completed"]), run.log
    assert "there is no python3 on this node" in run.log
    assert "no restart: attempt.py does not run" in run.log


def test_a_python_that_is_too_old_is_named(tmp_path: pathlib.Path) -> None:
    old = python_of("3.6", tmp_path / "path" / "python3")
    run = run_job(tmp_path)
    assert (run.code, run.reasons) == (0, ["completed"]), run.log
    assert f"{old} is Python 3.6, and Python 3.7 is needed" in run.log
