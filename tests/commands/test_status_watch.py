"""status --watch: prints each change, and ends with the last job or Ctrl-C."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click
import pytest

from clusterjobs.errors import InputError, one_problem
from clusterjobs.runs.status import report as module
from clusterjobs.runs.status.report import watch


class Look:
    """What is seen next: `texts`, one after the other; over with the last one."""

    def __init__(self, texts: list[str], interrupted: bool = False) -> None:
        self.texts, self.interrupted, self.slept = texts, interrupted, 0.0

    def __call__(self) -> Look:
        return self

    def text(self) -> str:
        if not self.texts:
            raise KeyboardInterrupt
        return self.texts.pop(0)

    def is_over(self) -> bool:
        return not self.texts and not self.interrupted


@pytest.fixture(autouse=True)
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(module.time, "sleep", found.append)
    return found


def test_each_change_is_printed_once(capsys: pytest.CaptureFixture[str], naps: list[float]) -> None:
    watch(Look(["1 running", "1 running", "1 completed"]), 7)
    assert capsys.readouterr().out == "1 running\n\n1 completed\n"
    assert naps == [7, 7]


def test_ctrl_c_keeps_the_last_view(capsys: pytest.CaptureFixture[str]) -> None:
    watch(Look(["1 running"], interrupted=True), 1)
    assert capsys.readouterr().out == "1 running\n"


def test_a_look_that_fails_later_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    looks = iter([Look(["a", "a"]), one_problem("squeue: busy"), Look(["b"])])

    def look() -> Look:
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    watch(look, 1)
    assert capsys.readouterr() == ("a\n\nb\n", "squeue: busy\n")
    looks = iter([one_problem("no such file")])
    with pytest.raises(InputError):
        watch(look, 1)


def test_a_terminal_is_cleared_before_each_view(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(click, "clear", lambda: click.echo("<clear>"))
    watch(Look(["a", "b"]), 1)
    assert capsys.readouterr().out == "<clear>\na\n<clear>\nb\n"


def test_a_spec_is_watched_until_its_jobs_have_ended(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stand_in_squeue import row, write_squeue

    spec = "name: a\ncluster: small\nframework: command\ncommand: ['true']\nlogs: logs\n"
    (folder / "exp.yaml").write_text(spec)
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", str(folder / "bin"))
    write_squeue(folder / "bin", row("5", "PENDING", "a", reason="Priority"))
    ended = row("5", "CANCELLED", "a")
    monkeypatch.setattr(module.time, "sleep", lambda _: write_squeue(folder / "bin", ended))
    done = clusterjobs("status", "exp.yaml", "--watch", "5")
    assert done.code == 0
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("5")] == [
        "PENDING",
        "CANCELLED",
    ]


@pytest.mark.parametrize("words", [["--watch", "0"], ["--watch", "--json"], ["--watch", "soon"]])
def test_wrong_uses_are_refused(clusterjobs: Callable[..., Any], words: list[str]) -> None:
    done = clusterjobs("status", "exp.yaml", *words)
    assert done.code == 2
    assert "--watch" in done.err
