"""Commands as a person or a script meets them: help, usage, JSON, and our own failures."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable

import click
import pytest

from clusterjobs import api
from clusterjobs.cli import main

CLUSTERJOBS = pathlib.Path(sys.executable).with_name("clusterjobs")
SECRET = "hunter2-do-not-tell"
SPEC = f"name: a\ncluster: p4d-a100\nnodes: 2\nframework: torchrun\nscript: {SECRET}.py\n"
LISTED = main.cli.list_commands(click.Context(main.cli))
COMMANDS = sorted(set(LISTED) - {"lab"})  # a group of its own, tested with the lab


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "spec.yaml"
    path.write_text(SPEC)
    return path


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_has_an_example_and_exits_0(
    command: list[str], clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs(*command, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert "Example" in outcome.out
    assert re.search(rf"^\s+clusterjobs {' '.join(command)}", outcome.out, re.MULTILINE)


def test_help_lists_every_command(clusterjobs: Callable[..., object]) -> None:
    listed = clusterjobs("--help").out
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +\S", listed, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rendre"], "did you mean render?"),
        (["render"], "Missing argument"),
        (["render", "a.yaml", "b.yaml"], "several specs are rendered one by one"),
        (["render", "--nope", "a.yaml"], "No such option"),
        (["plan", "a.yaml", "--set"], "requires an argument"),
        (["--nope"], "No such option"),
        (["plan", "a.yaml", "--set:2"], "hint: write --set KEY=VALUE, for example --set nodes=4"),
        (["plan", "a.yaml", "--set:nodes=2"], "hint: write --set nodes=2"),
        (["plan", "a.yaml", "--sett", "nodes=2"], "hint: write --set nodes=2"),
        (["plan", "a.yaml", "--nodes", "2"], "a key of the spec: write --set nodes=2"),
        (["plan", "a.yaml", "--batch.micro=4"], "write --set batch.micro=4"),
        (["show", "a.yaml", "nodes=2"], "a key of the spec: write --set nodes=2"),
        (["plan", "a.yaml", "--set", "nodes", "=2"], "hint: without spaces: nodes=2"),
        (["plan", "a.yaml", "\u2014set", "nodes=2"], "another character than -: write --set"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_exit_2(
    arguments: list[str], said: str, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


def test_version_is_that_of_the_package_and_of_each_table_of_flags(
    clusterjobs: Callable[..., object],
) -> None:
    from clusterjobs import __version__
    from clusterjobs.frameworks.flags import table

    first, _, *tables = clusterjobs("--version").out.splitlines()
    assert first == f"clusterjobs, version {__version__}"
    assert f"  {table('megatron-lm').label}" in tables
    assert f"  {table('torchtitan-0.2').label}" in tables
    assert all(re.fullmatch(r"  [\w-]+ .*\S \(20\d\d-\d\d-\d\d\)", line) for line in tables)


# ------------------------------------------------------------------ plan

KEYS = [
    *("name", "cluster", "partition", "instance_type", "framework", "launcher", "nodes"),
    *("ranks_per_node", "gpus_per_node", "world_size", "data_parallel", "batch"),
    *("roles", "foresight", "merged", "sections"),
]


def test_plan_as_json_has_stable_keys(
    spec: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs("plan", spec, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    data = json.loads(outcome.out)
    assert list(data) == KEYS
    assert data["world_size"] == data["nodes"] * data["ranks_per_node"] == 16
    assert list(data["sections"]) == ["derived", "sbatch", "srun", "environment", "command"]
    for rows in data["sections"].values():
        assert all(list(row) == ["name", "value", "reason"] for row in rows)


def test_plan_as_json_is_json_also_with_warnings(
    spec: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    outcome = clusterjobs("plan", spec, "--json", "--set", "env.NCCL_ALGO=Ring")
    assert outcome.code == 0
    assert "warning" in outcome.err
    json.loads(outcome.out)


def test_plan_gives_a_reason_for_every_derived_value(
    spec: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    sections = json.loads(clusterjobs("plan", spec, "--json").out)["sections"]
    for title in ("derived", "sbatch", "srun", "environment"):
        assert sections[title]
        for row in sections[title]:
            assert row["reason"], row


def test_plan_writes_nothing(spec: pathlib.Path, clusterjobs: Callable[..., object]) -> None:
    outcome = clusterjobs("plan", spec)
    assert outcome.code == 0
    assert [path.name for path in spec.parent.iterdir()] == ["spec.yaml"]
    assert "world_size" in outcome.out
    assert max(map(len, outcome.out.splitlines())) < 200


def test_plan_into_a_closed_pipe_is_quiet(spec: pathlib.Path) -> None:
    program = "from clusterjobs.cli.main import main; main()"
    call = shlex.join([sys.executable, "-c", program, "plan", str(spec), "--json"])
    done = subprocess.run(
        ["bash", "-c", f"{call} | head -n 1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# ------------------------------------------------------------------ our own failures


def test_a_failure_of_ours_exits_3_with_a_log_that_holds_no_value_of_the_spec(
    spec: pathlib.Path,
    clusterjobs: Callable[..., object],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: pathlib.Path,
) -> None:
    def broken(*arguments: object) -> None:
        text = pathlib.Path("spec.yaml").read_text()
        raise RuntimeError(f"cannot make anything of {text}")

    monkeypatch.setattr(api, "write_outputs", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outcome = clusterjobs("render", spec, "--set", f"args.x={SECRET}")
    assert outcome.code == 3
    assert "internal error" in outcome.err
    assert "Traceback" not in outcome.err
    assert SECRET not in outcome.err
    (log,) = tmp_path.glob("clusterjobs-*.log")
    assert str(log) in outcome.err
    text = log.read_text()
    assert SECRET not in text
    assert "RuntimeError" in text
    assert "broken" in text
    assert log.stat().st_mode & 0o077 == 0


def test_a_failure_of_ours_without_a_place_for_the_log_is_told_all_the_same(
    spec: pathlib.Path, clusterjobs: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(api, "write_outputs", broken)
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    outcome = clusterjobs("render", spec)
    assert outcome.code == 3
    assert "internal error" in outcome.err
    assert SECRET not in outcome.err


def test_ctrl_c_exits_130_without_a_traceback(
    spec: pathlib.Path, clusterjobs: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "write_outputs", interrupted)
    outcome = clusterjobs("render", spec)
    assert (outcome.code, outcome.err.strip()) == (130, "stopped")


# ------------------------------------------------------------------ how problems look


def test_no_control_character_of_a_spec_reaches_the_terminal(
    folder: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    (folder / "spec.yaml").write_text('name: "\\e]0;x\\a"\ncluster: small\n"\\a\\b": 1\n')
    outcome = clusterjobs("render", "spec.yaml")
    assert outcome.code == 1
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", outcome.err)


def test_caret_stands_below_the_value_also_after_wide_characters(
    folder: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    (folder / "spec.yaml").write_text("{name: 日本語, cluster: nowhere, framework: command}\n")
    lines = clusterjobs("render", "spec.yaml").err.splitlines()
    source, caret = lines[1], lines[2]
    before = source[: source.index("nowhere")]
    assert caret.index("^") == len(before) + 3  # three characters of two columns
    assert caret.count("^") == len("nowhere")


def test_names_that_are_no_text_are_no_failure_of_ours(folder: pathlib.Path) -> None:
    name = os.fsdecode(b"\xff.yaml")
    (folder / name).write_text("name: b\ncluster: ./c.yaml\nframework: command\ncommand: ./run\n")
    config = (
        "Scheduling: {SlurmQueues: [{Name: q, ComputeResources: [{Name: r, InstanceType: %s}]}]}"
    )
    (folder / "c.yaml").write_text(config % "c6i.xlarge")
    for locale in ("C.UTF-8", "POSIX"):
        done = subprocess.run(
            [CLUSTERJOBS, "render", name, "-o", os.fsdecode(b"out\xff"), "--set", "name=ü"],
            env={**os.environ, "LC_ALL": locale, "PYTHONUTF8": "1" if locale == "C.UTF-8" else "0"},
            capture_output=True,
            check=False,
        )
        assert b"bug of ours" not in done.stderr
        assert done.returncode == (0 if locale == "C.UTF-8" else 1), done.stderr


def test_a_plan_needs_no_site_and_does_not_ask_for_one(
    clusterjobs: Callable[..., object], spec: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(spec.parent / "nowhere"))
    assert clusterjobs("plan", spec).code == 0
    wrong = clusterjobs("plan", spec, "--set", "batch.micro=0")
    assert wrong.code == 1
    assert "is not given" not in wrong.err
    wrong = clusterjobs("plan", spec, "--set", "nodes=1000")
    assert wrong.code == 1
    assert "is not given" not in wrong.err


@pytest.mark.parametrize("target", ["a" * 300, "spec.yaml/new", "/proc/new"])
@pytest.mark.parametrize(
    "command",
    [
        ("import", "job.sbatch", "-o"),
        (
            "init",
            "--yes",
            "--framework",
            "torchrun",
            "--script",
            "t.py",
            "--cluster",
            "small",
            "-o",
        ),
        ("render", "spec.yaml", "-o"),
        ("examples", "tiny-gpt", "-o"),
        ("validate",),
        ("status",),
        ("report",),
        ("clusters", "show"),
    ],
    ids=lambda words: words[0],
)
def test_a_file_that_the_system_refuses_is_no_failure_of_ours(
    command: tuple[str, ...], target: str, spec: pathlib.Path, clusterjobs: Callable[..., object]
) -> None:
    pathlib.Path("job.sbatch").write_text("#!/bin/bash\n#SBATCH -N2\nsrun ./train\n")
    outcome = clusterjobs(*command, target)
    assert outcome.code == 1, outcome.err
    assert target[:20] in outcome.err or "spec.yaml: File exists" in outcome.err


def test_a_working_folder_that_is_gone_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for words in (["plan", "exp.yaml"], ["status", "exp.yaml"], ["clusters", "list"]):
        assert main.run(words) == 1
        assert "the folder that you are in is gone: cd to another one" in capsys.readouterr().err
