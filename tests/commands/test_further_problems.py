"""What is said of a spec with wrong values: also what is wrong beside them, and nothing more."""

from __future__ import annotations

import io
import pathlib
import types
from collections.abc import Callable

import pytest

from clusterjobs.errors import Problem
from clusterjobs.runs.load import independent

SPEC = """\
name: a
cluster: p4d-a100
framework: deepspeed
script: t.py
batch: {micro: 8, global: 256}
"""


def paths(err: str) -> list[str]:
    lines = [line for line in err.splitlines() if line.startswith("exp.yaml:")]
    return [line.split(" ")[1].rstrip(":") for line in lines]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # The framework's error beside one of the spec.
        ("time_limit: 2h\nargs: {deepspeed: 1}\n", ["time_limit", "args.deepspeed"]),
        ("args: {deepspeed: 1, x: '{{ no }}'}\n", ["args.deepspeed", "args.x"]),
        ("env: {'1': a}\nzero: {stage: 2}\nparallel: {pipeline: 2}\n", ["env.1", "zero.stage"]),
        ("setup: fi\nargs: {deepspeed: 1}\n", ["setup", "args.deepspeed"]),
        # 256 divides among 8 ranks, but nobody knows how many were meant.
        ("nodez: 3\n", ["nodez"]),
        (
            "nodes: x\nmodel: {layers: x, hidden: 8, heads: 3, sequence: 8}",
            ["nodes", "model.layers"],
        ),
        ("restarts: {time_limit: 1}\ncheckpoints: {marker: a}\n", ["checkpoints.path"]),
        # Warnings wait until the errors are gone.
        ("env: {'1': a}\nworkdir: /elsewhere\n", ["env.1"]),
        # The list keeps its other items.
        ("data: [{source: /a/b, target: c}, {source: 1}]\n", ["data[1].target"]),
    ],
)
def test_errors_that_do_not_depend_on_each_other_are_told_together(
    clusterjobs: Callable[..., object], folder: pathlib.Path, more: str, expected: list[str]
) -> None:
    (folder / "exp.yaml").write_text(SPEC + more)
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 1
    assert sorted(paths(outcome.err)) == sorted(expected)


def problem(path: str, meant: str = "", warning: bool = False) -> Problem:
    return Problem("wrong", None, path, warning=warning, meant=meant)


@pytest.mark.parametrize(
    ("wrong", "found", "is_told"),
    [
        (problem("args.lr"), problem("args.seed"), True),
        (problem("args.lr"), problem("args.lr"), False),
        (problem("args.lr"), problem("args"), False),
        (problem("args"), problem("args[0]"), False),
        (problem("args.lr"), problem("args.lr.x"), False),
        (problem("args.l"), problem("args.lr"), True),
        (problem("args.lr"), problem(""), False),
        (problem("args.lr"), problem("sbatch.acount", warning=True), False),
        (problem("nodez", meant="nodes"), problem("batch.global"), False),
        (problem("partition", meant="queue"), problem("queue"), False),
        (problem("framework"), problem("restarts"), False),
        (problem("framework"), problem("parallel"), False),
        (problem("time_limit"), problem("restarts.grace_seconds"), False),
        (problem("time_limit"), problem("sbatch.acount"), True),
    ],
)
def test_what_may_follow_from_a_wrong_value_is_not_told(
    wrong: Problem, found: Problem, is_told: bool
) -> None:
    assert list(independent([found], [wrong])) == [found] * is_told


def test_a_spec_comes_from_standard_input(
    clusterjobs: Callable[..., object], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def feed(text: str) -> None:
        stream = types.SimpleNamespace(buffer=io.BytesIO(text.encode()))
        monkeypatch.setattr("sys.stdin", stream)

    feed(SPEC)
    assert clusterjobs("render", "-").code == 0
    assert (folder / "generated" / "job.sh").exists()
    feed(SPEC)
    assert clusterjobs("validate", "-").out.startswith("-: ok")
    feed("name: a\ncluster: small\nbatch: 3\n")
    outcome = clusterjobs("plan", "-")
    assert outcome.code == 1
    assert "<stdin>:3:8 batch: expected a mapping" in outcome.err
