"""A `logs` folder on this machine that others can change or replace: a warning."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

SPEC = """\
name: a
cluster: small
framework: command
command: ["true"]
logs: {logs}
"""


@pytest.fixture
def said(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> Callable[..., str]:
    """What a render says of this `logs`."""

    def call(logs: pathlib.Path) -> str:
        (folder / "exp.yaml").write_text(SPEC.format(logs=logs))
        outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--force")
        assert outcome.code == 0, outcome.err
        return "\n".join(line for line in outcome.err.splitlines() if "change or replace" in line)

    return call


def make(folder: pathlib.Path, mode: int) -> pathlib.Path:
    folder.mkdir()
    folder.chmod(mode)
    return folder


def test_a_folder_that_everyone_may_write_to(said, tmp_path: pathlib.Path) -> None:
    logs = make(tmp_path / "logs", 0o777)
    assert f"warning: logs: everyone can change or replace {logs}: if" in said(logs)
    below = make(logs / "below", 0o755)
    assert f"{logs}: if" in said(below)
    (tmp_path / "link").symlink_to(below)
    assert f"{logs}: if" in said(tmp_path / "link")


def test_the_suggested_command_is_quoted(clusterjobs, folder, tmp_path: pathlib.Path) -> None:
    logs = make(tmp_path / "of all", 0o777)
    (folder / "exp.yaml").write_text(SPEC.format(logs=f'"{logs}"'))
    outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--force")
    assert f"`chmod +t '{logs}'`, choose" in outcome.err


@pytest.mark.parametrize("mode", [0o755, 0o1775, 0o1777])
def test_a_folder_that_is_safe(said, tmp_path: pathlib.Path, mode: int) -> None:
    assert said(make(tmp_path / "logs", mode)) == ""
    assert said(make(tmp_path / "logs" / "below", 0o755)) == ""
    assert said(tmp_path / "logs" / "nowhere" / "below") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_a_folder_of_another_user_where_everyone_may_make_one(said, tmp_path: pathlib.Path) -> None:
    shared = make(tmp_path / "shared", 0o1777)
    logs = make(shared / "logs", 0o775)
    os.chown(logs, 61235, 61235)
    assert f"user 61235 can change or replace {logs}: if" in said(logs)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another group")
def test_a_folder_of_a_group(said, tmp_path: pathlib.Path, monkeypatch) -> None:
    logs = make(tmp_path / "logs", 0o755)
    os.chown(logs, 0, 61236)
    assert said(logs) == ""
    logs.chmod(0o2775)
    assert f"group 61236 can change or replace {logs}: if" in said(logs)
    monkeypatch.setattr(f"{__name__}.SPEC", SPEC + "trust: ['61236']\n")
    assert said(logs) == ""


def test_a_folder_that_only_the_node_knows(said) -> None:
    assert said(pathlib.Path("${NOWHERE}/logs")) == ""
    assert said(pathlib.Path("logs")) == ""
