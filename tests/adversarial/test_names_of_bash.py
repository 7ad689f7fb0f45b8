"""Names that mean something to bash or Slurm: variables that bash sets, words that it would run."""

from __future__ import annotations

import collections
import re
import subprocess
from typing import Any

import pytest
from page import base
from rendering import plan_of, script_of
from script_stage import Stage

from clusterjobs.errors import InputError, Problem
from clusterjobs.resources import template_texts
from clusterjobs.script.lines import functions
from clusterjobs.spec.reserved_names import COMPUTED, OF_THE_SCRIPT

# Programs too, and they do the same.
SAME_AS_THE_PROGRAM = {"echo", "printf", "test", "[", "true", "false", "kill", "pwd"}
BY_THE_SCRIPT = {"OMP_NUM_THREADS", "PYTHONUNBUFFERED"}  # derived, and replaced by the spec's own
TEST_OWN = {"PATH", "HOME", "RECORD", "SIDECARS", "LANG"}  # the stage needs them


def lines_of_bash(command: str) -> list[str]:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout.split()


def is_refused(spec: dict[str, Any]) -> bool:
    """Whether the spec is refused, and then with a position."""
    problems: tuple[Problem, ...] = ()
    try:
        plan_of(spec)
    except InputError as error:
        problems = error.problems
    assert all(problem.where for problem in problems)
    return bool(problems)


def test_every_variable_of_bash_arrives_or_is_refused(
    stage: Stage, tally: collections.Counter[str]
) -> None:
    documented = lines_of_bash(
        r"man -P cat bash 2>/dev/null | grep -oE '^ {7}[A-Z_]{3,}' | tr -d ' ' || true"
    )
    known = set(lines_of_bash("compgen -v")) | set(documented)
    known |= {"TMOUT", "IFS", "CDPATH", "HISTFILE", "MAIL", "PS1", "COLUMNS", "LINES", "FCEDIT"}
    known |= {"PROMPT_COMMAND", "TIMEFORMAT", "REPLY", "MAPFILE", "COPROC", "OPTERR", "OPTARG"}
    known |= {"HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "SRANDOM", "EPOCHREALTIME", "INPUTRC"}
    known |= {"LC_ALL", "TMPDIR", "EXECIGNORE", "FIGNORE", "HISTSIZE", "CHILD_MAX", "FUNCNEST"}
    env: dict[str, str] = {}
    for name in sorted(known - TEST_OWN):
        spec = base(str(stage.folder)) | {"env": {name: "a value"}}
        tally["tried"] += 1
        if is_refused(spec):
            tally["refused"] += 1
        else:
            env[name] = "a value"
    assert "RANDOM" not in env
    assert len(env) > 10
    stage.clear()
    stage.make_input(f"{stage.folder}/code/record.py")
    spec = base(str(stage.folder)) | {"env": env}
    run = stage.run(script_of(plan_of(spec)), {})
    assert run.code == 0, run.output
    rank = run.calls["python3"][0]
    assert {name: rank.env.get(name) for name in env} == env
    tally["intact"] += len(env)


_NOT_BASH = re.compile(
    r"\{##.*?##\}|\{%.*?%\}|\{\{.*?\}\}|(?:^|\s)#[^\n]*", re.DOTALL | re.MULTILINE
)
_STATEMENT = r"(?m)(?:^|[;({&|]|\b(?:export|local|then|do|else)\b)"
_ASSIGNMENTS = re.compile(_STATEMENT + r"((?:[ \t]*[A-Za-z_]\w*\+?=\S*)+)")  # `a=1 b=2` in a line
_ASSIGNED = re.compile(r"(?:^|\s)(\w+)\+?=")
_BY_A_WORD = re.compile(
    r"\bfor (\w+) in\b|\bread(?: -\w+(?: \d+)?)* (\w+)|\bmapfile -t (\w+)|\{(\w+)\}[<>]"
)
_DECLARED = re.compile(r"\b(?:local|export)((?: +[A-Za-z_]\w*(?:=\S*)?)+)")
_GROW = {
    "HOME",
    "USER",
    "PATH",
    "LD_LIBRARY_PATH",
}  # the spec's own value stays in what the script makes of it
_FOR_ONE_COMMAND = {"IFS", "NCCL_LIB_DIR", "STAGE_DIR", "trust", "users"}
_BY_A_KEY = {"HOROVOD_GLOO_IFACE"}  # horovod.interface; without it the spec's own is taken


def assigned_by_the_templates() -> set[str]:
    """Every name that a template assigns, in the script or in a shell of a rank."""
    text = "\n".join(_NOT_BASH.sub("", one) for one in template_texts().values())
    text = re.sub(r"='[^'\n]*'", "=''", text)
    found = {name for line in _ASSIGNMENTS.findall(text) for name in _ASSIGNED.findall(line)}
    found |= {name for groups in _BY_A_WORD.findall(text) for name in groups if name}
    words = (word for one in _DECLARED.findall(text) for word in one.split())
    found |= {word.partition("=")[0] for word in words}
    return found - _FOR_ONE_COMMAND


def test_no_variable_of_a_spec_is_one_of_the_scripts_own() -> None:
    """What the templates assign is reserved, and nothing else in small letters."""
    by_the_table = {"point_name"}  # of a sweep; its other names are chosen apart from these
    assigned = (assigned_by_the_templates() | by_the_table) - _GROW - _BY_A_KEY
    assert {"command", "reason", "ranks", "kept", "decision", "lifeline", "VIRTUAL_ENV"} <= assigned
    for name in sorted(assigned):
        for key in ("env", "secrets", "parameters"):
            assert is_refused(base("/fsx/t") | {key: {name: {} if key == "secrets" else "x"}}), name
    assert {name for name in assigned if not name.isupper()} - {"_", COMPUTED} == OF_THE_SCRIPT


def test_every_word_of_bash_is_a_program_or_refused(
    stage: Stage, tally: collections.Counter[str]
) -> None:
    names = {*lines_of_bash("compgen -bk"), *functions()} - SAME_AS_THE_PROGRAM
    assert {"eval", "time", "esac", "fail", "finish"} <= names
    steps = []
    stage.clear()
    stage.make_input(f"{stage.folder}/code/record.py")
    for name in sorted(names):
        tally["tried"] += 1
        if is_refused(base(str(stage.folder)) | {"before": [[name, "x"]]}):
            tally["refused"] += 1
        else:
            steps.append([name, "x"])
    programs = stage.folder / "programs"
    programs.mkdir()
    for name, _ in steps:
        (programs / name).symlink_to(stage.bin / "step")
    spec = base(str(stage.folder)) | {"before": steps, "after": steps}
    path = {"PATH": f"{programs}:{stage.bin}:/usr/local/bin:/usr/bin:/bin"}
    run = stage.run(script_of(plan_of(spec)), path)
    assert run.code == 0, run.output
    for name, _ in steps:
        assert [call.argv for call in run.calls[name]] == [("x",)] * 2, name
    tally["intact"] += len(steps)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("sbatch", name)
        for name in ("nodes", "partitio", "job", "wra", "tasks-per-node", "gpus-per-n")
    ]
    + [("srun", name) for name in ("nodes", "multi-p", "cpus-per-t", "export", "exp")],
)
def test_a_shortened_option_of_another_key_is_refused(key: str, name: str) -> None:
    with pytest.raises(InputError, match="follows from"):
        plan_of(base("/fsx/t") | {key: {name: "99"}})
