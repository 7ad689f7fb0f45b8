"""Texts of several points as one text with variables."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.sections.points.join import Columns
from clusterjobs.spec.references import variable, variable_names

MARK = variable("SCRATCH", default="a, b: c")
PIECES = st.sampled_from(
    ["1", "12", "0.5", "a", "é", '"', "\\", ":", ",", "{", "}", " ", "\n", "$", MARK]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def read_back(joined: str, columns: Columns, point: int) -> str:
    """The text with each column's value for that point."""
    for column in columns.columns:
        joined = joined.replace(variable(column.name), column.values[point])
    return joined


def marks(text: str) -> list[str]:
    return variable_names(text)


@given(st.lists(TEXTS, min_size=2, max_size=6), st.lists(TEXTS, min_size=2, max_size=6))
def test_joined_texts_give_back_the_text_of_every_point(
    first: list[str], second: list[str]
) -> None:
    """Also for config files; texts with different marks are never joined."""
    for texts in (first, second):
        same = tuple(one for one in texts if marks(one) == marks(texts[0]))
        known = {"k.x": tuple(map(str, range(len(same)))), "k.y": tuple(one[:2] for one in same)}
        plain = {key: values for key, values in known.items() if "\0" not in "".join(values)}
        for is_config in (False, True):
            columns = Columns([], plain.items(), [])
            joined = columns.joined_config(same) if is_config else columns.joined(same, "hint")
            assert [read_back(joined, columns, one) for one in range(len(same))] == list(same)
            assert not any("\0" in value for one in columns.columns for value in one.values)


def test_a_config_has_a_variable_for_each_value_that_differs() -> None:
    columns = Columns([], [("args.lr", ("1e-3", "3e-4"))], [])
    texts = tuple(
        f'{{"optimizer": {{"lr": {lr}}}, "name": "run-{lr}", "warmup": {steps}, "tag": "{tag}"}}'
        for lr, steps, tag in (("1e-3", 1, "a b"), ("3e-4", 22, "c"))
    )
    joined = re.sub("\0(.*?)\0", r"<\1>", columns.joined_config(texts))
    assert joined == (
        '{"optimizer": {"lr": <lr>}, "name": "run-<lr>", "warmup": <warmup>, "tag": "<tag>"}'
    )


def test_the_column_that_has_the_name_of_the_place_is_preferred() -> None:
    """Two keys have the same values by chance."""
    columns = Columns(
        [],
        [
            ("args.lr", ("1", "2")),
            (
                "args.seed",
                (
                    "1",
                    "2",
                ),
            ),
        ],
        [],
    )
    assert columns.joined(("1", "2"), "--seed") == variable("seed")
    assert columns.joined(("1", "2"), "--lr") == variable("lr")


def test_a_mark_beside_a_value_of_a_config_is_not_in_the_table() -> None:
    columns = Columns([], [], [])
    joined = columns.joined_config((f"path: /x{MARK}", f"path: /y{MARK}"))
    assert joined == f"path: {variable('path')}{MARK}"
    assert columns.columns[0].values == ("/x", "/y")
