"""Flag tables: what is close to a known flag is asked about, what has a wrong type is refused."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Problem
from clusterjobs.frameworks import flags
from clusterjobs.frameworks.arguments import argument_key
from clusterjobs.frameworks.flags import (
    Table,
    check_arguments,
    left_out_findings,
    mapping_findings,
    table,
)
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import variable
from clusterjobs.yaml import document

NAMES = sorted(path.stem for path in pathlib.Path(flags.__file__).parent.glob("*.json"))
LABEL = "Trainer 2.0 (2026-11-01)"
TYPES = {"switch", "integer", "number", "text", "boolean", "list", "mapping", "any"}
TYPES |= {"boolean switch", "boolean or text"}
KNOWN = Table(
    program="Trainer",
    version="2.0",
    date="2026-11-01",
    source="",
    refuses_unknown=False,
    coerces=False,
    types={
        "train-iters": "integer",
        "lr": "number",
        "fp16": "switch",
        "split": "text",
        "data-path": "list",
        "style": ["cosine", "linear"],
        "tf32": "boolean",
        "pin": "boolean switch",
        "shuffle": "boolean switch",
        "zero": "mapping",
        "zero.stage": "integer",
        "zero.overlap": "boolean",
        "free": "mapping",
    },
    removed=["old-batch", "evaluation"],
    renamed={"evaluation": "style linear"},
    on=["shuffle", "tf32"],
)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_names_its_source_and_has_known_types_alone(name: str) -> None:
    known = table(name)
    assert known.program
    assert known.source
    assert known.version
    assert known.date >= "2025-07"
    for flag, kind in known.types.items():
        is_choice = isinstance(kind, list) and all(isinstance(one, str) for one in kind)
        assert is_choice or kind in TYPES, flag


def problems_of(args: Any, known: Table = KNOWN) -> list[Problem]:
    spec = Experiment(name="a", cluster="c", framework="f", args=args)
    diagnostics = Diagnostics(document.load("args: {}", "exp.yaml"))
    check_arguments(spec, diagnostics, known)
    return diagnostics.problems


def said_of(args: Any) -> list[tuple[str, str, bool]]:
    return [(one.what, one.hint, one.warning) for one in problems_of(args)]


def test_flags_that_are_not_in_the_table_are_one_note_with_its_version_and_date() -> None:
    (note,) = problems_of({"of-a-fork": 3, "lr": 1, "entirely-new": True})
    assert note.info
    table = "Trainer 2.0 (2026-11-01)"
    assert note.what == f"--of-a-fork, --entirely-new are not in our table of {table}"
    assert "validate` asks Trainer itself" in note.hint
    assert note.hint.endswith("write known_args: [of-a-fork, entirely-new]")


def test_a_flag_of_another_version_is_warned_of() -> None:
    (warning,) = problems_of(["--old-batch", "8"])
    assert (warning.warning, warning.info) == (True, False)
    assert "Trainer 2.0 (2026-11-01) has no flag --old-batch: another" in warning.what
    assert "known_args: [old-batch]" in warning.hint


def test_a_flag_that_has_another_name_now_is_named() -> None:
    ((what, hint, is_warning),) = said_of({"evaluation": "steps"})
    assert what.endswith("has no flag --evaluation: it is --style linear now")
    assert hint.startswith("write --style linear in its place, or write known_args")
    assert is_warning


def test_where_scripts_have_flags_of_their_own_only_what_is_close_is_reported() -> None:
    of_scripts = KNOWN._replace(scripts_add=True)
    (finding,) = problems_of({"model_name": "a", "train-iter": 3, "entirely-new": 1}, of_scripts)
    assert "did you mean --train-iters?" in finding.hint


def test_false_is_reported_where_the_flag_may_be_on_without_it() -> None:
    spec = Experiment(
        name="a",
        cluster="c",
        framework="f",
        args={"shuffle": False, "tf32": False, "pin": False, "fp16": False, "other": False},
    )
    found = list(left_out_findings(spec, KNOWN))
    assert [one.path for one in found] == [("args", "shuffle"), ("args", "tf32")]
    assert all(one.warning for one in found)
    assert found[0].hint == 'write shuffle: "false", in quotes'
    assert not list(left_out_findings(spec, KNOWN._replace(accepted=["shuffle", "tf32"])))


WRONG = {"train_iter": 3, "old-batch": 8, "lr": "fast", "new-flag": 1}


@pytest.mark.parametrize("name", ["train-iter", "train_iter", "--train-iter"])
def test_what_known_args_names_is_right(name: str) -> None:
    accepts = KNOWN._replace(accepted={argument_key(name), "old_batch", "lr", "new_flag"})
    assert problems_of(WRONG, accepts) == []
    assert list(mapping_findings({"train-iter": 1, "lr": "fast"}, accepts)) == []
    assert len(problems_of(WRONG)) == 4


@pytest.mark.parametrize(
    ("version", "compares"),
    [
        *(("core_r0.20.0", True), ("v0.20.0", True), ("0.20.0", True), ("core 0.20.0", True)),
        *(("core_r0.13.0", False), ("0.2", False), ("main", False)),
    ],
)
def test_the_table_of_another_version_is_not_compared(version: str, compares: bool) -> None:
    known = table("megatron-lm")._replace(version="core 0.20.0")
    keys = {"name": "a", "cluster": "c", "framework": "megatron-lm", "args": WRONG}
    spec = Experiment(**keys, frameworks={"megatron-lm": {"version": version}})
    own = table("megatron-lm", spec)
    assert known.version == own.version, "the version of this test is the table's"
    assert bool(problems_of(WRONG, own)) is compares
    other = Experiment(**keys, frameworks={"deepspeed": {"version": version}})
    assert problems_of(WRONG, table("megatron-lm", other))


@pytest.mark.parametrize(
    "args",
    [
        {"train-iters": 1000, "lr": "1e-4", "fp16": True, "split": "9,1", "style": "linear"},
        {"data-path": ["0.5", "/a", "0.5", "/b"], "fp16": False},
        {"tf32": "True", "pin": "no", "shuffle": True},
        {"train-iters": variable("ITERS")},
        ["--train-iters", "-3", "--fp16", "--lr=1e-4", "--data-path", "/a", "/b"],
    ],
)
def test_what_the_parser_takes_is_not_reported(args: Any) -> None:
    assert said_of(args) == []


@pytest.mark.parametrize(
    ("args", "what", "hint", "warning"),
    [
        ({"train-iter": 3}, "has no flag --train-iter", "did you mean --train-iters?", True),
        ({"train_iters": 3}, "has no flag --train_iters", "did you mean --train-iters?", True),
        (["--train-iter=3"], "has no flag --train-iter", "did you mean --train-iters?", True),
        (
            {"train-iters": "1e3"},
            f"1e3, but {LABEL} expects an integer",
            "train-iters: 1000",
            False,
        ),
        ({"lr": "fast"}, f"lr: fast, but {LABEL} expects a number", "lr: 0.1", False),
        (["--lr", "fast"], "lr: fast", "lr: 0.1", False),
        (["--lr"], "lr without a value", "lr: 0.1", False),
        ({"lr": True}, "lr without a value", "lr: 0.1", False),
        ({"fp16": "yes"}, f"fp16: yes, but {LABEL} expects no value", "write for", False),
        ({"style": "cosin"}, "expects one of cosine, linear", "write style: cosine", False),
        ({"tf32": True}, f"tf32 without a value, but {LABEL} expects true or", '"true"', False),
        ({"pin": "yep"}, "pin: yep", 'write pin: "true" or "false", in quotes', False),
        ({"split": ["a", "b"]}, "split: a b", "write a value", False),
    ],
)
def test_a_wrong_argument_is_reported(args: Any, what: str, hint: str, warning: bool) -> None:
    ((said, advice, is_warning),) = said_of(args)
    assert what in said
    assert hint in advice
    assert is_warning is warning


@pytest.mark.parametrize(
    ("given", "path", "what", "warning"),
    [
        ({"zero": {"stge": 1}}, ("zero", "stge"), "has no key zero.stge", True),
        ({"zero": {"stage": "1"}}, ("zero", "stage"), "zero.stage: 1, but Trainer 2.0", False),
        ({"zero": {"overlap": 1}}, ("zero", "overlap"), "expects true or false", False),
        ({"zero": 3}, ("zero",), "expects a mapping", False),
        ({"lr": None}, ("lr",), "lr: null, but", False),
        ({"train-iters": True}, ("train-iters",), "expects an integer", False),
    ],
)
def test_a_wrong_key_of_a_mapping_is_found(
    given: dict[str, Any], path: tuple[str, ...], what: str, warning: bool
) -> None:
    (finding,) = mapping_findings(given, KNOWN)
    assert finding.path == path
    assert what in finding.what
    assert finding.warning is warning


def test_right_keys_and_keys_of_a_mapping_that_is_not_described_pass() -> None:
    given = {"zero": {"stage": 1, "overlap": True}, "free": {"x": 1}, "lr": 1}
    assert list(mapping_findings(given, KNOWN)) == []


def test_where_unknown_keys_are_refused_all_are_reported() -> None:
    strict = KNOWN._replace(refuses_unknown=True)
    (finding,) = mapping_findings({"of_a_fork": 1}, strict, ("neox",))
    assert finding.path == ("neox", "of_a_fork")
    assert not finding.warning


@pytest.mark.parametrize("value", ["1", 1e3, "auto", None, True, 2])
def test_where_values_are_converted_what_can_be_converted_passes(value: Any) -> None:
    lenient = KNOWN._replace(coerces=True)
    assert list(mapping_findings({"zero": {"stage": value}}, lenient)) == []


@pytest.mark.parametrize("value", ["two", 0.5, [], {}, "inf"])
def test_where_values_are_converted_what_cannot_be_is_reported(value: Any) -> None:
    lenient = KNOWN._replace(coerces=True)
    assert len(list(mapping_findings({"zero": {"stage": value}}, lenient))) == 1
