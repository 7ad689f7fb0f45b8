"""A hint at the shape of a value is itself accepted: for each key, values of other shapes."""

from __future__ import annotations

import re

import pytest

from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.reference.keys import Documented, all_keys
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import load_spec
from clusterjobs.spec.model import keys_below

BASE = "name: exp\ncluster: p4d-a100\nnodes: 2\n"
SCRIPTS = {"command": "command: ./run\n", "": "script: train.py\n"}
WRONG = ("5", "abc", "[[1]]", "{b: c}", "[{b: c}]", "[abc]")
# `write data: [...]`, or a list alone in `...`, for the key itself.
_WRITE = re.compile(r"write (?:`(\[.*\])`, or lines.*|(\w+): ([\[{].*[\]}]))")


def _spec(one: Documented, value: str) -> str:
    """A spec with the key below its parents: `data: [{source: 5}]`, `roles: {x: {nodes: 5}}`."""
    name, *above = reversed(one.path.replace("NAME", "X").split("."))
    text = f"{name}: {value}"
    for step in above:
        text = f"{step[:-2]}: [{{{text}}}]" if step.endswith("[]") else f"{step}: {{{text}}}"
    framework = one.of[0] if one.of else "torchrun"
    lines = [f"framework: {framework}", *SCRIPTS.get(framework, SCRIPTS[""]).splitlines()]
    kept = [line for line in lines if not text.startswith(line.partition(":")[0] + ":")]
    return BASE + "\n".join(kept) + f"\n{text}\n"


def _problems(text: str) -> list[Problem]:
    try:
        load_spec(text, "exp.yaml", option_models(), ())
    except InputError as error:
        return [one for one in error.problems if not one.warning]
    return []


KEYS = [one for one in all_keys() if one.path not in ("name", "cluster", "nodes", "framework")]


@pytest.mark.parametrize("value", WRONG)
def test_what_a_hint_says_to_write_for_a_key_is_accepted(value: str) -> None:
    checked = 0
    for one in KEYS:
        own = one.path.replace("NAME", "X").replace("[]", "[0]")
        for problem in _problems(_spec(one, value)):
            found = _WRITE.fullmatch(problem.hint)
            if problem.path == own and found:
                assert found[2] in (None, own.rpartition(".")[2]), (one.path, problem.hint)
                again = _problems(_spec(one, found[1] or found[3]))
                wrong = [p.what for p in again if p.path == own and p.what != "samples is missing"]
                assert not wrong, (one.path, problem.hint)
                checked += 1
    assert checked >= 10


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("data: s3://own/x", "write data: [{source: s3://own/x, target: /fsx/data/pile}]"),
        ("data: {source: s3://b/c, target: /d}", "write data: [{source: s3://my-bucket/pile"),
        ("before: abc", "write `[abc]`, or lines that start with `- `"),
        ("before: {command: [x]}", "write before: [{command: [x]}]"),
        ("secrets: abc", "write `[abc]`, or lines that start with `- `"),
        ("ulimit: 5", "write ulimit: {memlock: unlimited, stack: 8192}"),
        ("secrets: {A: b}", 'write A: {file: "${HOME}/.hf_token"}'),
        ("batch: 32", "write batch: {micro: 32}"),
        ("restarts: 3", "write restarts: {time_limit: 3}"),
        ("sbatch: [--mem=64G, --exclusive]", "write sbatch: {mem: 64G, exclusive: true}"),
        ("needs: {train: prepare.yaml}", "write needs: [prepare.yaml]"),
        ("checkpoints: /c", "write checkpoints: {path: /c}"),
        (
            "checkpoints: {path: /c, every: 5}",
            "known: export, from, marker, overwrite, path, via; ",
        ),
        ("before: echo hi", "write before: [echo hi]"),
        ("before: [{run: echo hi}]", "write command: echo hi"),
        ("needs: 4711", "write needs: [{job: 4711}]"),
        ("data: s3://own/x /fsx/x", "write data: [{source: s3://own/x, target: /fsx/x}]"),
        ("queue: [a, b]", "write a or b"),
        ("queue: {a: b}", "for example gpu"),
        ("gpus_per_node: 8 A100", "write 8"),
        ("ranks_per_node: 2-4", "write 2 or 4"),
        ("ranks_per_node: 2.5", "for example 8"),
        ("time_limit: {hours: 3}", "for example 12:00:00"),
        ("header: yes please", "write one of them without quotes"),
    ],
)
def test_the_hint_has_the_shape_of_the_key(text: str, hint: str) -> None:
    (problem,) = _problems(f"{BASE}framework: torchrun\nscript: train.py\n{text}\n")
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("sweep", "hint"),
    [
        ("5", "write sweep: {grid: {args.lr: [1e-3, 3e-4]}}"),
        ("{args: {lr: [1, 2]}}", "write sweep: {grid: {args.lr: [1, 2]}}"),
        ("{method: random}", "known: array, exclude, "),
        ("{random: {args.lr: [1, 2]}, samples: 2}", "write {uniform: [1, 2]}"),
    ],
)
def test_a_sweep_of_another_shape_gets_its_form(sweep: str, hint: str) -> None:
    from clusterjobs.spec.load import load_points

    text = f"{BASE}framework: torchrun\nscript: train.py\nsweep: {sweep}\n"
    with pytest.raises(InputError) as caught:
        load_points(text, "exp.yaml", option_models(), ())
    assert caught.value.problems[0].hint.startswith(hint)


def test_an_argument_that_is_set_as_a_key_is_named_with_its_place() -> None:
    text = f"{BASE}framework: torchrun\nscript: train.py\n"
    with pytest.raises(InputError) as caught:
        load_spec(text, "exp.yaml", option_models(), ("lr=1e-3",))
    (problem,) = caught.value.problems
    assert problem.hint.startswith("for an argument of your program, write --set args.lr=1e-3;")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("environment: {A: 1}", "write env: {A: 1}"),
        ("num_gpus: 4", "write gpus_per_node: 4"),
        ("node-count: 3", "write nodes: 3"),
        ("docker: a.sqsh", "write software: {container: {image: a.sqsh}}"),
        ("module: cuda", "write software: {modules: [cuda]}"),
        ("software: {venv: /v}\nmodule: cuda", "in software, write modules: [cuda]"),
        ("data: [{from: /a, to: /b}]", "write source: /a"),
        ("checkpoints: {dir: /c}", "write path: /c"),
        ("memory: 64G", "write sbatch: {mem: 64G}"),
        ("walltime: 48h", "write time_limit: 2-00:00:00"),
        ("arguments: {lr: 1}", "write args: {lr: 1}"),
        ("fp16: true", "write precision: fp16"),
        ("seed: 1", "for an argument of your program, write args: {seed: 1}"),
        ("sweep: {args.lr: [1, 2]}", "write sweep: {grid: {args.lr: [1, 2]}}"),
        ("sweep: {nodes: [1, 2]}", "write sweep: {grid: {nodes: [1, 2]}}"),
        ("sweep: {params: {args.lr: [1, 2]}}", "write grid: {args.lr: [1, 2]}"),
        ("sweep: {grid: {args.lr: 1e-3..1e-2}}", "write [1e-3, 1e-2], or take samples"),
        ("image: a.sqsh", "write software: {container: {image: a.sqsh}}"),
        ("steps: 100", "write training: {steps: 100}"),
        ("lr: 1e-4", "for an argument of your program, write args: {lr: 1e-4}; known: "),
        ("sweep: {lr: [1, 2]}", "write sweep: {grid: {args.lr: [1, 2]}}"),
        ("env: [A=1, B=2]", "write env: {A: 1, B: 2}"),
        ('env: "export A=1"', "write env: {A: 1}"),
        ('args: "--lr 1e-4 --bs 8"', "write args: [--lr, 1e-4, --bs, 8]"),
        ('software: {modules: "cuda, nccl"}', "write modules: [cuda, nccl]"),
        ("gpus_per_node: 8.0", "write 8"),
        ("env:\n\u00a0 A: 1", "indent with ordinary spaces: U+00A0 is part of the key"),
    ],
)
def test_what_was_probably_meant_is_written_out(line: str, hint: str) -> None:
    from clusterjobs.spec.load import load_points

    text = f"name: a\ncluster: p4d-a100\nframework: torchrun\n{line}\n"
    with pytest.raises(InputError) as caught:
        load_points(text, "exp.yaml", option_models(), ())
    assert any(hint in one.hint for one in caught.value.problems), caught.value.problems


BY_NAME = sorted(
    (".".join(map(str, (*path[:-1], name))), key.example)
    for path, key in keys_below(Experiment).items()
    for name in key.also_called
    if "=" not in name
)


def test_no_other_name_is_a_key_in_the_same_place() -> None:
    names = {".".join(map(str, path)) for path in keys_below(Experiment)}
    assert not names & {name for name, _ in BY_NAME}
    assert len(BY_NAME) >= 90


@pytest.mark.parametrize(
    ("name", "example"), [one for one in BY_NAME if "." not in one[0]], ids=lambda one: str(one)
)
def test_the_line_for_another_name_is_accepted_when_it_is_copied(name: str, example: str) -> None:
    spec = "name: a\ncluster: p4d-a100\nframework: torchrun\n"
    problems = _problems(f"{spec}{name}: {example}\n")
    (problem,) = (one for one in problems if one.path == name)
    written = problem.hint.removeprefix("write ")
    key = written.partition(":")[0]
    lines = [one for one in spec.splitlines() if not one.startswith(f"{key}:")]
    again = _problems("\n".join([*lines, written]) + "\n")
    assert written != problem.hint
    assert not [one for one in again if one.path.partition(".")[0] == key], again
