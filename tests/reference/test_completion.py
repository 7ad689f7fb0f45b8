"""Completion in real shells: bash, and zsh and fish where they are installed."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from clusterjobs.cli.main import cli

ROOT = pathlib.Path(__file__).parents[2]
SWEEP = """\
name: a
cluster: p4d-a100
framework: command
command: [./a]
nodes: 1
sweep: {grid: {nodes: [1, 2]}}
"""
ASKED = [
    ("clusterjobs rep", "report"),
    ("clusterjobs explain batch.m", "batch.micro"),
    ("clusterjobs plan a.yaml --set batch.mi", "batch.micro="),
    ("clusterjobs clusters show p4de", "p4de-a100"),
    ("clusterjobs logs sweep.yaml 0001", "0001-nodes=2"),
    ("clusterjobs render a.yaml --outp", "--output"),
]


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    (tmp_path / "sweep.yaml").write_text(
        SWEEP.replace("command: [./a]", "command: [./a]\nargs: {}")
    )
    programs = pathlib.Path(sys.executable).parent
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def _script(shell: str, tmp_path: pathlib.Path) -> pathlib.Path:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0
    path = tmp_path / f"completion.{shell}"
    path.write_text(done.output)
    return path


def _shell(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"no {name} here")
    return program


def _run(words: list[str], folder: pathlib.Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def _includes(found: list[str], offered: str) -> bool:
    """The name of a point ends with a hash of its values."""
    return any(one.startswith(offered) for one in found)


@pytest.mark.parametrize(("line", "offered"), ASKED)
def test_bash(line: str, offered: str, tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    code = """
    source "$1"
    read -ra COMP_WORDS <<<"$2"
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    $(complete -p clusterjobs | sed 's/.*-F \\([^ ]*\\).*/\\1/') clusterjobs
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    words = [_shell("bash"), "--norc", "-c", code, "bash", str(_script("bash", tmp_path)), line]
    assert _includes(_run(words, tmp_path, environment), offered)


@pytest.mark.parametrize(("line", "offered"), ASKED)
def test_fish(line: str, offered: str, tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    code = f"source {_script('fish', tmp_path)}; complete -C '{line}'"
    found = _run([_shell("fish"), "--no-config", "-c", code], tmp_path, environment)
    assert _includes(found, offered)


@pytest.mark.parametrize(("line", "offered"), ASKED)
def test_zsh(line: str, offered: str, tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    code = """
    autoload -U compinit; compinit -u -D
    compadd() { builtin print -rl -- ${(P)argv[-1]} ${argv[-1]}; }
    _describe() { builtin print -rl -- ${(P)3}; }
    compdef() { :; }
    source "$1"
    words=(${(z)2}); CURRENT=${#words}
    _clusterjobs_completion
    """
    words = [_shell("zsh"), "-f", "-c", code, "zsh", str(_script("zsh", tmp_path)), line]
    found = _run(words, tmp_path, environment)
    assert _includes(found, offered)
