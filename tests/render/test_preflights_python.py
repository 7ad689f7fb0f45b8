"""Which Python the preflight takes: the lines of a rendered job, with other folders and Pythons."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

CASES = pathlib.Path(__file__).parents[1] / "cases" / "good"
JOB = CASES / "preflight-of-some-checks" / "expected" / "job.sh"
FAIL = 'set -euo pipefail\nfail() { printf "failed: %s\\n" "$1"; exit 1; }\n'


def lines_of_the_job(usr_bin: pathlib.Path) -> str:
    text = JOB.read_text()
    start = text.index("python=/usr/bin/python3")
    end = text.index("\nfi\n", start) + len("\nfi\n")
    assert "asked=(" not in text[start:end]
    return text[start:end].replace("/usr/bin/", f"{usr_bin}/")


def python_of(version: str, file: pathlib.Path) -> pathlib.Path:
    """A stand-in that counts its starts; what it is asked is answered as by that version."""
    minor = version.split(".")[1]
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f"#!/bin/bash\necho start >> {file}.starts\n"
        f"[[ $1 != --version ]] || {{ echo Python {version}; exit; }}\n"
        f'exec {sys.executable} -c "import sys; sys.version_info = (3, {minor}, 0); ${{@: -1}}"\n'
    )
    file.chmod(0o755)
    return file


def started(file: pathlib.Path) -> bool:
    return pathlib.Path(f"{file}.starts").exists()


def chosen(tmp_path: pathlib.Path) -> str:
    """What the job takes, where PATH has the folder `path` alone."""
    (tmp_path / "path").mkdir(exist_ok=True)
    script = f"{FAIL}{lines_of_the_job(tmp_path / 'usr')}\nprintf '%s\\n' \"$python\""
    environment = {**os.environ, "PATH": str(tmp_path / "path")}
    done = subprocess.run(
        ["/bin/bash", "-c", script], env=environment, stdout=subprocess.PIPE, text=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize("version", ["3.7", "3.9", "3.12"])
def test_the_systems_own_is_taken_and_not_started_for_that(tmp_path, version: str) -> None:
    own = python_of(version, tmp_path / "usr" / f"python{version}")
    (tmp_path / "usr" / "python3").symlink_to(own.name)
    python_of("3.6", tmp_path / "usr" / "python3.6")  # which is there, and is not python3
    assert chosen(tmp_path) == str(tmp_path / "usr" / "python3")
    assert not started(own)


@pytest.mark.parametrize("version", ["3.4", "3.6"])
def test_one_that_is_too_old_is_passed_by(tmp_path, version: str) -> None:
    """As on RHEL 8: python3 -> /etc/alternatives/python3 -> python3.6 -> platform-python3.6."""
    old = python_of(version, tmp_path / "platform-python")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / f"python{version}").symlink_to(old)
    (tmp_path / "alternative").symlink_to(tmp_path / "usr" / f"python{version}")
    (tmp_path / "usr" / "python3").symlink_to(tmp_path / "alternative")
    other = python_of("3.11", tmp_path / "path" / "python3")
    assert chosen(tmp_path) == str(other)
    assert not started(old)


def test_without_the_systems_own_the_jobs_is_taken(tmp_path) -> None:
    other = python_of("3.7", tmp_path / "path" / "python3")
    assert chosen(tmp_path) == str(other)


def test_no_python_that_is_new_enough_is_said(tmp_path) -> None:
    assert chosen(tmp_path).startswith("failed: the preflight needs a python3: there is none")
    other = python_of("3.6", tmp_path / "path" / "python3")
    said = f"failed: the preflight needs Python 3.7 or newer: {other} is Python 3.6"
    assert chosen(tmp_path) == said
