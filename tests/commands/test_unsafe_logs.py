"""A folder on this machine that a job would refuse, since others can change it: a warning."""

from __future__ import annotations

import os
import pathlib
import shlex
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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to another user")
def test_a_group_proves_nothing_in_a_folder_of_everyone(
    said, tmp_path: pathlib.Path, monkeypatch
) -> None:
    shared = make(tmp_path / "shared", 0o3777)
    logs = make(shared / "logs", 0o2775)
    os.chown(logs, 61235, 61236)
    spec = SPEC
    for trust, found in (
        ("'61236'", f"user 61235 can change or replace {logs}: if"),
        ("'61236', '61235'", ""),
    ):
        monkeypatch.setattr(f"{__name__}.SPEC", f"{spec}trust: [{trust}]\n")
        assert found in said(logs)
        assert found or said(logs) == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders to root's group")
def test_the_group_of_root_is_no_stranger(said, tmp_path: pathlib.Path) -> None:
    logs = make(tmp_path / "logs", 0o775)
    os.chown(logs, 0, 0)
    assert said(logs) == ""


@pytest.mark.parametrize(
    ("keys", "key", "what"),
    [
        ("checkpoints: {{path: {}}}\n", "checkpoints", "add files to"),
        ("logs: {{copy: {}/out/all.log}}\n", "logs.copy", "change or replace"),
    ],
)
def test_every_folder_that_the_job_checks(
    clusterjobs, folder, tmp_path: pathlib.Path, keys: str, key: str, what: str
) -> None:
    shared = make(tmp_path / "shared", 0o1777)
    make(shared / "out", 0o777)
    text = SPEC.removesuffix("logs: {logs}\n") + keys.format(shared)
    (folder / "exp.yaml").write_text(text)
    outcome = clusterjobs("render", "exp.yaml", "-o", "out", "--force")
    unsafe = shared if key == "checkpoints" else shared / "out"
    assert f"{key}: everyone can {what} {unsafe}: if the nodes have" in outcome.err
    shared.chmod(0o755)
    (shared / "out").chmod(0o755)
    assert f"everyone can {what}" not in clusterjobs("render", "exp.yaml", "--force").err


@pytest.mark.parametrize("name", ["ml-team", "domain users", "CORP\\ml team", "1001", "a@b.c"])
def test_a_name_that_a_directory_service_gives(clusterjobs, folder, name: str) -> None:
    (folder / "exp.yaml").write_text(SPEC.format(logs="logs") + f"trust: ['{name}']\n")
    outcome = clusterjobs("render", "exp.yaml", "-o", "out")
    assert outcome.code == 0, outcome.err
    given = f'make_safe_folder.sh "$job_dir" job {shlex.quote(name)} # '
    assert given in (folder / "out" / "job.sh").read_text()


@pytest.mark.parametrize(
    "name", ["$(id)", "a/b", 'a"', "a\\\\b", "a\\", " a", "a ", "`a`", "a\\$b"]
)
def test_what_is_no_name_of_a_group(clusterjobs, folder, name: str) -> None:
    (folder / "exp.yaml").write_text(SPEC.format(logs="logs") + f"trust: ['{name}']\n")
    assert clusterjobs("render", "exp.yaml", "-o", "out").code == 1


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
