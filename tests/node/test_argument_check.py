"""The argument check as a program: what a framework refuses, and what only the check cannot do."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.resources import node_programs, with_imports

FAILED = 69
PARSER = """
import argparse, sys
def parse(words):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--lr", type=float)
    parser.add_argument("--style", choices=["cosine", "linear"])
    parser.add_argument("--steps", type=int)
    args = parser.parse_args(words)
    assert args.steps is None or args.steps > 0
    if args.lr and args.lr > 1:
        raise ValueError("the learning rate (lr) must be at most 1")
    if args.lr == 0.7 and args.style == "linear":
        assert False, "these do not fit together"
    if args.lr == 0.5:
        raise RuntimeError("no CUDA device was found")
    return args
"""
CHECK = """
import time, os, sys
from argument_request import Request, imported
def check(request: Request) -> None:
    request.version = "Framework 1.2"
    framework = imported(os.environ.get("FRAMEWORK", "framework"), "Framework")
    print("a framework prints")
    if "--hang" in request.words:
        time.sleep(600)
    if "--die" in request.words:
        os._exit(3)
    if "--bug" in request.words:
        None.missing
    if "--slow" in request.words and os.getpid() != os.getpgrp():
        time.sleep(600)  # when it is asked again
    words = [one for one in request.arguments if one != "--slow"]
    with request.refusals():
        request.parse(framework.parse, words)
"""
Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ask(tmp_path: pathlib.Path) -> Ask:
    """Runs the check of a small framework, as a job does in its folder."""
    job, code = tmp_path / "job", tmp_path / "code"
    job.mkdir()
    code.mkdir()
    for name in with_imports(["argument_check.py"]):
        shutil.copy(node_programs()[name], job)
    (job / "check_fake.py").write_text(CHECK)
    (code / "framework.py").write_text(PARSER)
    (code / "train.py").write_text("")

    def run(*words: Any, seconds: float = 60, options: tuple[str, ...] = (), **variables: str):
        request = {
            "title": "fake",
            "checks": ["check_fake"],
            "seconds": seconds,
            "pipeline": 1,
            "nodes": 2,
            "ranks_per_node": 4,
            "capability": [9, 0],
            "runs_help": False,
            "launcher": "srun",
            "launcher_words": [],
            "read_variables": [],
            "settings": {},
            "files": [],
            "folder": str(job),
            "words": ["train.py", *words],
            "origins": {
                "--lr": ["args.lr", "exp.yaml", 4, 3, 2],
                "--style": ["args.style", "exp.yaml", 5, 3, 5],
            },
            "lines": {"exp.yaml:4": "  lr: 3", "exp.yaml:5": "  style: cosinus"},
        }
        (job / "argument_check.json").write_text(json.dumps(request))
        program = [sys.executable, "-B", str(job / "argument_check.py"), *options]
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = [*program, str(job / "argument_check.json"), *settings]
        return subprocess.run(command, capture_output=True, text=True, cwd=code, timeout=120)

    return run


def test_right_arguments_are_accepted_and_nothing_of_the_framework_is_printed(ask: Ask) -> None:
    done = ask("--lr", "0.1", "--style", "linear")
    assert done.returncode == 0
    assert done.stdout.startswith("clusterjobs: Framework 1.2 accepts the arguments (")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_each_wrong_argument_is_shown_at_its_line_of_the_spec(ask: Ask) -> None:
    done = ask("--lr", "fast", "--style", "cosinus", "--stepz", "3")
    assert done.returncode == FAILED
    assert "exp.yaml:4:3 args.lr: argument --lr: invalid float value: 'fast'\n" in done.stdout
    assert "    4 |   lr: 3\n      |   ^^\n" in done.stdout
    assert "exp.yaml:5:3 args.style: argument --style: invalid choice: 'cosinus'" in done.stdout
    assert "--stepz: unrecognized argument --stepz\n" in done.stdout
    assert "clusterjobs: Framework 1.2 refuses the arguments (" in done.stdout


def test_a_refusal_of_the_validation_has_its_line_of_source(ask: Ask) -> None:
    done = ask("--lr", "3", "--style", "linear")
    assert done.returncode == FAILED
    assert "exp.yaml:4:3 args.lr: the learning rate (lr) must be at most 1\n" in done.stdout
    assert "   in framework.py:11: raise ValueError(" in done.stdout


def test_an_assertion_without_a_message_is_shown_by_its_condition(ask: Ask) -> None:
    done = ask("--steps", "0")
    assert done.returncode == FAILED
    assert "--steps: this must hold: args.steps is None or args.steps > 0\n" in done.stdout


def test_what_is_said_after_a_wrong_value_was_left_out_is_not_reported(ask: Ask) -> None:
    done = ask("--style", "cosinus", "--lr", "3")
    assert done.returncode == FAILED
    assert "at most 1" not in done.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--hang",), "no answer in 2 s"),
        (("--die",), "the check ended with exit code 3: "),
        (("--bug",), "AttributeError: 'NoneType' object has no attribute 'missing'"),
        (("--lr", "0.5"), "no CUDA device was found"),
    ],
)
def test_a_check_that_fails_itself_says_why_and_stops_nothing(ask: Ask, words, why) -> None:
    done = ask(*words, seconds=2 if "--hang" in words else 60)
    assert done.returncode == 0
    assert "could not check all arguments: " in done.stdout
    assert why in done.stdout
    assert "refuses" not in done.stdout


def test_a_framework_that_cannot_be_imported_stops_nothing(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAMEWORK", "missing_framework")
    done = ask("--lr", "3")
    assert done.returncode == 0
    assert "ModuleNotFoundError: No module named 'missing_framework'" in done.stdout


def test_variables_have_their_values_and_unknown_ones_are_not_judged(ask: Ask) -> None:
    rate, style = [{"variable": "rate"}], [{"variable": "style"}]
    assert ask("--lr", rate, rate="0.1").returncode == 0
    assert ask("--lr", rate, rate="fast").returncode == FAILED
    done = ask("--style", style)  # a stand-in has its place, which the parser refuses
    assert done.returncode == 0
    assert "refuses" not in done.stdout


def test_what_follows_a_wrong_flag_with_its_value_is_still_asked(ask: Ask) -> None:
    done = ask("--stepz=3", "--style=cosinus")
    assert "--stepz=3: unrecognized argument" in done.stdout
    assert "exp.yaml:5:3 args.style: argument --style: invalid choice: 'cosinus'" in done.stdout


def test_the_answer_as_json_has_the_flag_the_message_and_the_source(ask: Ask) -> None:
    done = ask("--steps", "-1", options=("--json",))
    answer = json.loads(done.stdout)
    (problem,) = answer["problems"]
    assert problem["flag"] == "--steps"
    assert problem["source"].startswith("framework.py:")
    assert (answer["version"], answer["not_checked"]) == ("Framework 1.2", "")


def test_a_refusal_that_names_no_flag_is_at_the_flag_without_which_it_is_not_there(
    ask: Ask,
) -> None:
    done = ask("--lr", "0.7", "--style", "linear", "--steps", "5")
    assert done.returncode == FAILED
    assert "exp.yaml:5:3 args.style: these do not fit together\n" in done.stdout


def test_a_found_problem_is_told_even_if_its_flag_is_not_found_in_time(ask: Ask) -> None:
    done = ask("--lr", "0.7", "--style", "linear", "--slow", seconds=2)
    assert done.returncode == FAILED
    assert "these do not fit together\n" in done.stdout
