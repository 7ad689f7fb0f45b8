"""YAML read under our rules, with the position of every value."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.errors import InputError, Problem
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import dotted, load


def core(text: str) -> Any:
    return load(text, "f.yaml").value


def problem_of(text: str, rules: yaml_document.Rules = "core") -> Problem:
    with pytest.raises(InputError) as caught:
        load(text, "f.yaml", rules)
    return caught.value.problems[0]


@pytest.mark.parametrize(
    "text",
    [
        *("on", "off", "yes", "No", "y", "n", "12:00:00", "1:30", "190:20:30.15", "2026-11-21"),
        *(
            "1_000",
            "0b101",
            "0b",
            "0o8",
            "0xg",
            "1e",
            "e5",
            ".",
            "+",
            "1.2.3",
            "1,5",
            "=",
            "<<",
        ),
        *("tRue", "nULL", "nan", "inf", "1e5x", "٣", "１"),
    ],
)
def test_core_rules_leave_words_and_times_as_text(text: str) -> None:
    assert core(f"[{text!r}]" if text == "," else f"- {text}") == [text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("true", True),
            ("True", True),
            ("FALSE", False),
            ("null", None),
            ("~", None),
            ("", None),
        ),
        *(("10", 10), ("-3", -3), ("+4", 4), ("007", 7), ("0o17", 15), ("0x1F", 31), ("0", 0)),
        *(("1e-4", 1e-4), ("1.5e3", 1500.0), (".5", 0.5), ("2.", 2.0), ("-1E+2", -100.0)),
        *((".inf", math.inf), ("-.INF", -math.inf), ("'10'", "10"), ('"true"', "true")),
    ],
)
def test_core_rules_read_numbers_and_constants(text: str, value: object) -> None:
    found = core(f"- {text}")[0]
    assert found == value
    assert isinstance(found, type(value))
    assert isinstance(found, bool) is isinstance(value, bool)


def test_nan_is_read() -> None:
    assert math.isnan(core("- .nan")[0])


@pytest.mark.parametrize("text", ["1.50e-4", "007", "0x1F", "+4", "1e5", "2."])
def test_a_number_remembers_how_it_was_written(text: str) -> None:
    assert core(f"- {text}")[0].text == text


def test_text_of_more_than_a_line_is_text() -> None:
    assert core("- |\n  a\n  b\n- >\n  c\n  d\n") == ["a\nb\n", "c d\n"]


SCALARS = st.text("0123456789abcdefxoinNyYeEtTrRuUlLsS.:+-_~", max_size=8).filter(
    lambda text: not text.endswith(":") and not text.startswith(("-", ":")) and ": " not in text
)


@given(SCALARS)
def test_1_1_rules_read_scalars_as_safe_load_does(text: str) -> None:
    try:
        expected = yaml.safe_load(f"- {text}")
    except (yaml.YAMLError, ValueError):
        return
    found = load(f"- {text}", "f.yaml", "1.1").value
    if isinstance(expected, list) and isinstance(expected[0], (bool, int, float, type(None))):
        assert repr(found) == repr(expected)


def test_1_1_rules_merge_keys_and_own_keys_win() -> None:
    text = "base: &b {x: 1, y: 2}\nown: {<<: *b, y: 3}\n"
    assert load(text, "f.yaml", "1.1").value["own"] == yaml.safe_load(text)["own"]


# ------------------------------------------------------------------ positions

TEXT = """\
name: exp
batch:
  micro: 4   # a comment
  "global": 128
env: {A: one two, B: "x"}
list:
- first
- {deep: [1, 2]}
日本語: wert
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        (("name",), (1, 7, 3), (1, 1, 4)),
        (("batch", "micro"), (3, 10, 1), (3, 3, 5)),
        (("batch", "global"), (4, 13, 3), (4, 3, 8)),
        (("env", "A"), (5, 10, 7), (5, 7, 1)),
        (("env", "B"), (5, 22, 3), (5, 19, 1)),
        (("list", 0), (7, 3, 5), (7, 3, 5)),
        (("list", 1, "deep", 1), (8, 14, 1), (8, 14, 1)),
        (("日本語",), (9, 6, 4), (9, 1, 3)),
        (("batch",), (3, 3, 1), (2, 1, 5)),
    ],
)
def test_positions_of_values_and_keys(
    path: yaml_document.Path, value: tuple[int, ...], key: tuple[int, ...]
) -> None:
    document = load(TEXT, "f.yaml")
    for where, expected in ((document.locate(path), value), (document.locate_key(path), key)):
        assert (where.line, where.column, where.width) == expected
        assert where.source == TEXT.splitlines()[where.line - 1]
        assert str(where) == f"f.yaml:{expected[0]}:{expected[1]}"


def test_what_is_missing_stands_where_its_nearest_parent_does() -> None:
    document = load(TEXT, "f.yaml")
    assert document.locate(("batch", "nope")).line == 2
    assert document.locate(("nope",)).line == 1
    assert document.locate(("list", 9)).line == 6


def test_span_is_the_text_of_a_value() -> None:
    document = load(TEXT, "f.yaml")
    for path, written in (
        (("env", "B"), '"x"'),
        (("env", "A"), "one two"),
        (("list", 1, "deep"), "[1, 2]"),
    ):
        start, end = document.span(path)
        assert TEXT[start:end] == written
    with pytest.raises(KeyError):
        load("", "f.yaml").span(())


@given(st.dictionaries(st.text("abc日", min_size=1, max_size=4), st.integers(0, 99), min_size=1))
def test_every_value_is_found_where_it_is_said_to_stand(data: dict[str, int]) -> None:
    text = "".join(f"{key}:   {value} # c\n" for key, value in data.items())
    document = load(text, "f.yaml")
    for key, value in data.items():
        where = document.locate((key,))
        shown = text.splitlines()[where.line - 1][where.column - 1 :][: where.width]
        assert shown == str(value)


def test_positions_are_right_in_a_file_with_windows_line_ends() -> None:
    where = load(TEXT.replace("\n", "\r\n"), "f.yaml").locate(("batch", "global"))
    assert (where.line, where.column, where.source) == (4, 13, '  "global": 128')


@pytest.mark.parametrize(
    ("path", "text"),
    [(("batch", "global"), "batch.global"), (("before", 0, "per"), "before[0].per"), ((), "")],
)
def test_dotted_path(path: yaml_document.Path, text: str) -> None:
    assert dotted(path) == text


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("a: 1\na: 2\n", "f.yaml:2:1", "given twice"),
        ("a: {b: 1, b: 2}\n", "f.yaml:1:11", "given twice"),
        ("a: !!set {x}\n", "f.yaml:1:4", "tag"),
        ("? [a]\n: 1\n", "f.yaml:1:3", "a key must be plain text"),
        ("<<: {a: 1}\n", "f.yaml:1:1", "merge keys"),
        ("a: !!int x\n", "f.yaml:1:4", "is not a YAML int"),
        ("a:\n\tb: 1\n", "f.yaml:2:1", "not YAML"),
        ("a: *nope\n", "f.yaml:1:4", "not YAML"),
        ('a: "\\0"\n', "f.yaml:1:4", "NUL"),
        ('"\\0": 1\n', "f.yaml:1:1", "NUL"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", "a second YAML document"),
    ],
)
def test_refusal_has_a_place(text: str, place: str, what: str) -> None:
    problem = problem_of(text)
    assert str(problem.where) == place
    assert what in problem.what
    assert problem.hint


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        load("a: !x 1\nb: 2\nb: 3\nc: !y 4\n", "f.yaml")
    assert [problem.where.line for problem in caught.value.problems if problem.where] == [1, 3, 4]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_depth_has_a_limit_that_no_file_of_a_person_reaches() -> None:
    load(nested(yaml_document.MAX_DEPTH - 1), "f.yaml")
    for depth in (yaml_document.MAX_DEPTH + 2, 200_000):
        assert "nested deeper" in problem_of(nested(depth)).what
    assert "nested deeper" in problem_of("{a: " * 100_000).what


def test_aliases_cannot_multiply_without_end() -> None:
    lines = ["a0: &a0 [x]"]
    lines += [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    for rules in ("core", "1.1"):
        assert "more than 200,000 values" in problem_of("\n".join(lines), rules).what  # type: ignore[arg-type]


def test_an_alias_that_is_used_a_few_times_is_fine() -> None:
    assert core("a: &x [1, 2]\nb: *x\nc: *x\n")["c"] == [1, 2]


def test_the_largest_file_that_is_read_has_a_megabyte() -> None:
    assert yaml_document.decode(b"x" * yaml_document.MAX_BYTES, "f").startswith("x")
    with pytest.raises(InputError):
        yaml_document.decode(b"x" * (yaml_document.MAX_BYTES + 1), "f")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert yaml_document.decode(b"\xef\xbb\xbfa: 1", "f") == "a: 1"


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_with_a_place(data: bytes) -> None:
    for problem in problems_of_bytes(data):
        assert problem.where


def problems_of_bytes(data: bytes) -> tuple[Problem, ...]:
    try:
        load(yaml_document.decode(data, "f.yaml"), "f.yaml")
    except InputError as error:
        return error.problems
    return ()
