"""Policies that are made to take long, or to change the terminal."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_linear import steps

from clusterjobs.admin.policy_lines import slurm_lines
from clusterjobs.admin.policy_settings import settings_of
from clusterjobs.console import format_problem
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.sites.policy import SiteRule, load_policy
from clusterjobs.sites.policy_check import JobValues, User, check_policies
from clusterjobs.spec.load import load_spec
from clusterjobs.yaml.document import MAX_BYTES, decode

SPEC = "name: a\ncluster: small\nframework: command\ncommand: [./run]\n"


def rules_of(text: str) -> tuple[SiteRule, ...]:
    return load_policy(text, "policy.yaml", option_models())


def problem_of(text: str) -> Problem:
    with pytest.raises(InputError) as error:
        rules_of(text)
    (problem,) = error.value.problems
    return problem


def many(count: int) -> str:
    rule = "{name: r%, message: m, when: {users: [u%]}, forbid: {queue: [q%]}}"
    return "rules:\n" + "".join(f"- {rule}\n".replace("%", str(i)) for i in range(count))


def one(**keys: object) -> str:
    rule = {"name": "one", "message": "m", "require": ["nodes"], **keys}
    return json.dumps({"rules": [rule]})


@pytest.mark.slow
def test_ten_thousand_rules_are_read_and_compared() -> None:
    rules = rules_of(many(10_000))
    assert len(rules) == 10_000
    spec = load_spec(f"{SPEC}queue: q7\n", "exp.yaml", option_models())
    (problem,) = check_policies(rules, JobValues(spec, None, "small", User("u7")))
    assert problem.rule is not None
    assert (problem.rule.name, problem.rule.line) == ("r7", 9)


def test_four_times_as_many_rules_take_four_times_the_steps() -> None:
    def read(count: int) -> int:
        return steps(lambda: rules_of(many(count)))

    read(10)  # what is made once
    assert read(400) < 4.5 * read(100) + 5_000


def test_four_times_as_many_rules_are_compared_in_four_times_the_steps() -> None:
    spec = load_spec(f"{SPEC}queue: q7\n", "exp.yaml", option_models())

    def compare(count: int) -> int:
        rules = rules_of(many(count))
        return steps(lambda: check_policies(rules, JobValues(spec, None, "small", User("u7"))))

    compare(400)  # compiles the patterns
    assert compare(400) < 4.5 * compare(100) + 5_000


def test_message_of_a_megabyte_is_refused_with_the_limit() -> None:
    problem = problem_of(one(message="x" * 900_000))
    assert (problem.path, problem.what) == ("rules[0].message", "longer than 1,000 characters")
    assert len(format_problem(problem)) < 1_000
    with pytest.raises(InputError, match="more than 1,048,576 bytes"):
        decode(one(message="x" * MAX_BYTES).encode(), "policy.yaml")


def test_long_values_and_lists_are_refused_with_the_limit() -> None:
    assert problem_of(one(forbid={"name": "x" * 501})).what == "longer than 500 characters"
    assert problem_of(one(require=["nodes"] * 1_001)).what == "more than 1000 items"
    assert problem_of(one(link="https://x/" + "y" * 600)).what == "not a link"


@pytest.mark.parametrize("text", ["\x1b[31mred", "\x9b31m", "a\x07", "a\x00b"])
def test_control_characters_are_refused_wherever_text_is_printed(text: str) -> None:
    for key in ("message", "name", "link"):
        with pytest.raises(InputError):
            rules_of(one(**{key: text}))
    for keys in ({"allow": {"name": [text]}}, {"when": {"queues": [text]}}):
        with pytest.raises(InputError):
            rules_of(one(**keys))


def test_right_to_left_marks_in_a_message_are_not_printed() -> None:
    spec = load_spec(SPEC, "exp.yaml", option_models())
    rules = rules_of(one(message="pay \u202edaiper\u202c now"))
    (problem,) = check_policies(rules, JobValues(spec, None, "small", User("a")))
    assert "pay ?daiper? now" in format_problem(problem)


def test_message_may_have_several_lines() -> None:
    text = "rules:\n- name: one\n  message: |\n    Ask first:\n    the form.\n  require: [nodes]\n"
    assert rules_of(text)[0].rule.message == "Ask first: the form."


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "rules: []\n", "rules:\n# one\n"])
def test_policy_without_rules_is_fine(text: str) -> None:
    assert rules_of(text) == ()


WHOLE = """\
rules:
  - name: one
    message: Ask first.
    link: https://wiki.example.org
    action: warn
    when: {queues: [p5*], groups: [students]}
    unless: {users: [ann]}
    require: [sbatch.account]
    allow: {sbatch.account: [bio-*, chem]}
    forbid: {env: [NCCL_*]}
    limits: {nodes: 2, gpus: 16, time: 1-00:00:00, gpu_hours: 100}
    images: {forbid: ["*:latest"]}
    preflight: [gpus, nccl]
"""
PIECES = st.sampled_from(
    [*"[]{}:-#'\"&*!|>%@`~?,\t\n ", "null", "true", "1e999", "9" * 5000, "\0", "\u20ac", "<<: *a"]
)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 9), PIECES), max_size=4))
def test_damaged_policy_is_read_or_refused(changes: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for start, length, piece in changes:
        text = text[:start] + piece + text[start + length :]
    spec = load_spec(SPEC, "exp.yaml", option_models())
    with contextlib.suppress(InputError):
        rules = rules_of(text)
        check_policies(rules, JobValues(spec, None, "small", User("a")))
        slurm_lines(settings_of(rules))
