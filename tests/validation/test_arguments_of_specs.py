"""`validate` asks a framework's own parser, with the Python of the spec's environment."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs.runs.load import load
from clusterjobs.validation import arguments

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
SCRIPT = "import argparse\nargparse.ArgumentParser().parse_args()\n"


@pytest.fixture
def validate(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> Callable[..., Any]:
    """Validates a spec whose workdir is here."""
    pytest.importorskip("torch", reason="needs the extra 'train'")

    def run(*options: str, **keys: object) -> Any:
        (folder / "train.py").write_text(SCRIPT)
        prefix = pathlib.Path(sys.prefix)
        spec: dict[str, object] = {
            "name": "a",
            "cluster": "p4d-a100",
            "framework": "torchrun",
            "script": "train.py",
            "software": {"venv": str(prefix)},
            "workdir": str(folder),
            **keys,
        }
        (folder / "exp.yaml").write_text(yaml.safe_dump(spec))
        return clusterjobs("validate", "exp.yaml", "--json", *options)

    return run


def problems(outcome: Any) -> list[dict[str, Any]]:
    (file,) = json.loads(outcome.out)["files"]
    return [one for one in file["problems"] if "own parser" in one["what"] or ": " in one["what"]]


def test_a_wrong_argument_is_an_error_at_its_line(validate) -> None:
    outcome = validate(preflight={"arguments": "help"}, args={"batchsize": 3})
    assert outcome.code == 1
    (problem,) = [one for one in problems(outcome) if "batchsize" in one["what"]]
    assert problem["what"] == "train.py: unrecognized argument --batchsize"
    assert problem["path"] == "args.batchsize"
    assert problem["file"] == "exp.yaml"


def test_the_parser_is_not_asked_with_no_parser(validate) -> None:
    wanted = {"preflight": {"arguments": "help"}, "args": {"batchsize": 3}}
    assert validate("--no-parser", **wanted).code == 0


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"software": {"venv": "/fsx/no-such-venv"}}, "software.venv is not on this machine"),
        ({"workdir": "/fsx/no-such-folder"}, "workdir is not on this machine"),
        ({"software": {"modules": ["cuda"]}}, "the environment needs software.modules"),
    ],
)
def test_an_environment_that_is_not_here_is_a_note(validate, keys, why) -> None:
    outcome = validate(preflight={"arguments": "help"}, **keys)
    assert outcome.code == 0, outcome.out
    (note,) = [one for one in problems(outcome) if "own parser" in one["what"]]
    assert why in note["what"]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("python3", "train.py: unrecognized argument --batchsize"),
        ("", "own parser was not asked about the arguments: there is no python3"),
    ],
)
def test_without_an_environment_the_python3_in_path_is_asked(
    validate, monkeypatch: pytest.MonkeyPatch, found: str, why: str
) -> None:
    here = {"python3": sys.executable if found else None}
    which = shutil.which
    monkeypatch.setattr(
        arguments.shutil,
        "which",
        lambda name, *_, **__: here[name] if name in here else which(name),
    )
    wrong = {"preflight": {"arguments": "help"}, "args": {"batchsize": 3}}
    (problem,) = problems(validate(**wrong, software={}))
    assert problem["what"].endswith(why)


@pytest.mark.parametrize("name", ["gpt2-345m", "tiny-gpt", "slurm/lightning-in-singularity"])
def test_the_script_of_in_job_is_valid_bash_and_shellcheck_finds_nothing(
    name: str, tmp_path: pathlib.Path
) -> None:
    run = load(EXAMPLES / f"{name}.yaml", ("preflight=true", "software={venv: /fsx/venv}"))
    file = tmp_path / "arguments.sh"
    file.write_text(arguments._script(run.planned_jobs[0]), encoding="utf-8")
    subprocess.run(["bash", "-n", file], check=True)
    shellcheck = pathlib.Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([shellcheck, "--norc", file], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_job_of_in_job_asks_for_one_task_where_the_job_would_run() -> None:
    settings = ("preflight=true", "sbatch={account: lab, comment: x}", "queue=train")
    run = load(EXAMPLES / "gpt2-345m.yaml", settings)
    options = [*arguments._options(run.planned_jobs[0].plan)]
    assert options[:2] == ["--partition=train", "--account=lab"]
    assert {"--nodes=1", "--ntasks=1", "--time=6"} <= {*options}
    assert not [one for one in options if "gpus" in one or "comment" in one]


def test_an_srun_that_ignores_the_end_is_killed_and_its_job_cancelled(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = folder / "bin"
    programs.mkdir()
    (programs / "srun").write_text(
        "#!/bin/bash\ntrap '' TERM\necho 'srun: job 7 queued and waiting for resources' >&2\n"
        "while :; do sleep 0.1; done\n"
    )
    (programs / "scancel").write_text('#!/bin/bash\necho "$@" >>cancelled\n')
    for one in programs.iterdir():
        one.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(arguments, "_BETWEEN", 0.05)
    monkeypatch.setattr(arguments, "_LEAVE", 0.2)
    said: list[str] = []

    def interrupted() -> tuple[()]:  # Ctrl-C, as soon as srun has said which job it is
        if any("job 7" in one for one in said):
            raise KeyboardInterrupt
        return ()

    monkeypatch.setattr(arguments, "known_jobs", interrupted)
    (job,) = load(EXAMPLES / "tiny-gpt.yaml", ("preflight=true",)).planned_jobs
    with pytest.raises(KeyboardInterrupt):
        arguments.problems_in_job(job, said.append)
    assert (folder / "cancelled").read_text() == "-- 7\n"
