"""Errors of keys and single values: which one, where, and what to write instead."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import LoadedSpec, load_spec

MINIMAL = "name: exp\ncluster: p4d-a100\nframework: command\ncommand: ./run\n"
DEEPSPEED = "name: exp\ncluster: p4d-a100\nframework: deepspeed\nscript: train.py\n"


def loaded(text: str, start: str = MINIMAL, *settings: str) -> LoadedSpec:
    return load_spec(start + text, "exp.yaml", option_models(), settings)


def problem_of(text: str, start: str = MINIMAL, *settings: str) -> Problem:
    with pytest.raises(InputError) as caught:
        loaded(text, start, *settings)
    (problem,) = caught.value.problems
    return problem


def marked(problem: Problem) -> str:
    """The part of the line that is underlined."""
    where = problem.where
    assert where
    return where.source[where.column - 1 : where.column - 1 + where.width]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("queue:\n", "queue"),
        ("batch: {micro: ~}\n", "batch.micro"),
        ("software: {container: null}\n", "software.container"),
        ("data: [{source: /a, target: /b, size_gib: ~}]\n", "data[0].size_gib"),
    ],
)
def test_a_key_without_a_value_is_refused(text: str, path: str) -> None:
    problem = problem_of(text)
    assert (problem.path, problem.what) == (path, "the value is missing")
    assert "write a value or remove the key" in problem.hint
    assert marked(problem) == path.rpartition(".")[2]


def test_null_is_a_value_in_json_and_for_a_secret() -> None:
    spec = loaded("secrets: {A_KEY: ~}\nds_config: {a: {b: ~}}\n", DEEPSPEED)
    assert list(spec.spec.secrets) == ["A_KEY"]
    assert spec.options
    assert spec.options.model_dump()["ds_config"] == {"a": {"b": None}}


@pytest.mark.parametrize(
    ("text", "path", "what", "hint"),
    [
        ("nodes: 0\n", "nodes", "0 is less than 1", "write 1 or more"),
        ("ssh: {port: 65536}\n", "ssh.port", "65536 is more than 65,535", "write 65535 or less"),
        ("precision: fp8\n", "precision", "'fp8' is not one of the choices", "known: fp32"),
        (
            "software: /fsx/a\n",
            "software",
            "expected a mapping",
            "write software: {venv: /fsx/a",
        ),
        ("software: {modules: gcc}\n", "software.modules", "expected a list", "[gcc]"),
        ("args: {lr: {a: 1}}\n", "args.lr", "expected a single value, not a mapping", "number"),
        ("args: [a, [1]]\n", "args[1]", "expected a single value, not a list", "write 1"),
        ("secrets: [A, RANK]\n", "secrets[1]", "RANK is reserved", "launcher"),
        ("secrets: [A, {B: c}]\n", "secrets", "expected a list of names", "[A_KEY]"),
        ("data: [{source: /a, target: 1, verify: no}]\n", "data[0].verify", "'no' is", "record"),
    ],
)
def test_a_wrong_value_is_named_with_what_to_write(
    text: str, path: str, what: str, hint: str
) -> None:
    problem = problem_of(text)
    assert problem.path == path
    assert problem.what.startswith(what)
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("text", "start", "path", "hint"),
    [
        ("gpus_per_nod: 8\n", MINIMAL, "gpus_per_nod", "did you mean gpus_per_node?"),
        ("batch: {glbal: 8}\n", MINIMAL, "batch.glbal", "did you mean global?"),
        (
            "software: {container: {runtime: docker, image: a, hom: true}}\n",
            MINIMAL,
            "software.container.hom",
            "did you mean home?",
        ),
        ("secrets: {A: {fil: /x}}\n", MINIMAL, "secrets.A.fil", "did you mean file?"),
        ("zero: {stage: 1, stages: 2}\n", DEEPSPEED, "zero.stages", "did you mean stage?"),
        ("ds_confg: {}\n", DEEPSPEED, "ds_confg", "did you mean ds_config?"),
        ("ds_confg: {}\n", MINIMAL, "ds_confg", "known: after, args"),
        ("batch: {abc: 8}\n", MINIMAL, "batch.abc", "known: accumulation, global, micro"),
    ],
)
def test_an_unknown_key_is_marked_with_the_nearest_key_or_all_of_them(
    text: str, start: str, path: str, hint: str
) -> None:
    problem = problem_of(text, start)
    key = path.rpartition(".")[2]
    assert (problem.path, problem.what, marked(problem)) == (path, f"unknown key {key}", key)
    assert problem.hint.startswith(hint)


def test_a_missing_key_is_named_where_its_mapping_is() -> None:
    problem = problem_of("data:\n  - {source: /a, target: /b}\n  - {source: /a}\n")
    assert (problem.path, problem.what) == ("data[1].target", "target is missing")
    assert problem.hint == "add `target: ...`"
    assert str(problem.where) == "exp.yaml:7:5"
    problem = problem_of("", MINIMAL.replace("name: exp\n", ""))
    assert (str(problem.where), problem.path) == ("exp.yaml:1:1", "name")


def test_a_wrong_key_of_a_mapping_is_marked_itself() -> None:
    problem = problem_of("env: {RANK: 1}\n")
    assert (problem.path, marked(problem)) == ("env.RANK", "RANK")


def test_a_misspelt_key_hides_only_the_missing_key_it_was_meant_to_be() -> None:
    with pytest.raises(InputError) as caught:
        loaded("data: [{surce: /a}]\n")
    assert [one.what for one in caught.value.problems] == [
        "target is missing",
        "unknown key surce",
    ]


def test_keys_of_every_framework_pass_if_the_framework_is_unknown() -> None:
    spec = loaded("zero: {stage: 9}\n", MINIMAL.replace("command\n", "deepsped\n", 1))
    assert (spec.spec.framework, spec.options) == ("deepsped", None)


@pytest.mark.parametrize(
    ("logs", "export", "hint"),
    [
        ("", "/a", "write logs: {export: /a}"),
        ("logs: {path: /l}\n", "/a", "write logs: {export: /a}"),
        ("logs: /l\n", "/a", "write logs: {path: /l, export: /a}, in place of both keys"),
        ("logs: 'a, b'\n", "a{b", "write logs: {path: 'a, b', export: \"a{b\"}, in place of"),
        ("logs: /l\n", '"s3://a/b"', 'write logs: {path: /l, export: "s3://a/b"}, in place of'),
    ],
)
def test_the_old_key_of_exported_logs_is_answered_with_the_new_one(
    logs: str, export: str, hint: str
) -> None:
    problem = problem_of(f"{logs}logs_export: {export}\n")
    assert (problem.path, problem.what) == ("logs_export", "logs_export is now logs.export")
    assert marked(problem) == "logs_export"
    assert problem.hint.startswith(hint)


def test_the_old_key_of_verified_data_is_answered_with_the_new_one() -> None:
    problem = problem_of("data: [{source: /a, target: /b, check: source}]\n")
    assert (problem.path, problem.what) == ("data[0].check", "check is now verify")
    assert problem.hint == "write verify: source"
    other = problem_of("checkpoints: {path: /a, check: source}\n")
    assert other.what == "unknown key check"


def test_a_path_alone_is_the_path_of_logs() -> None:
    assert loaded("").spec.logs.path == "logs"
    assert loaded("logs: /l\n").spec.logs.path == "/l"
    logs = loaded("logs: {export: /a}\n").spec.logs
    assert (logs.path, logs.export) == ("logs", "/a")
    problem = problem_of("logs: $HOME/l\n")
    assert (problem.path, marked(problem)) == ("logs", "$HOME/l")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("time_limit: 10\n", "time_limit"),
        ("software: {venv: /v, setup: [a]}\n", "software.venv"),
        ("setup: [a]\n", "setup"),
        ("env: {A_B: c}\n", "env.A_B"),
        ("args: {a.b: 1, c: 2}\n", "args.a.b"),
    ],
)
def test_a_key_that_is_set_to_null_is_removed(text: str, key: str) -> None:
    before, after = loaded(text).merged.data, loaded(text, MINIMAL, f"{key}=null").merged.data
    section, _, name = key.partition(".")
    del (before[section] if name else before)[name or section]
    assert after == before


def test_a_key_that_is_set_to_null_and_must_be_there_is_missing() -> None:
    problem = problem_of("", MINIMAL, "cluster=null")
    assert problem.what == "cluster is missing"
    assert problem_of("", MINIMAL, "time_limit=null").what == "the value is missing"
    assert problem_of("", MINIMAL, "time_limt=null").what == "unknown key time_limt"


@pytest.mark.parametrize("text", ["setup: -ulimit\n", "setup: [-ulimit -n 1]\n"])
def test_a_line_of_code_that_begins_with_a_dash_is_refused(text: str) -> None:
    problem = problem_of(text)
    assert (problem.what, problem.path) == ("'-ulimit' is no command", "setup")
    assert "- ulimit" in problem.hint
    assert loaded("setup: |\n  cat <<E\n  -x\n  E\n").spec.setup
