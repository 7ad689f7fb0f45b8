"""Texts of several points as one text with variables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.sections.points.join import Columns
from clusterjobs.text import Value, joined, literals, references, replaced, show, variable

SCRATCH = variable("SCRATCH", default="a, b: c")
PIECES = st.sampled_from(
    ["1", "12", "0.5", "a", "é", '"', "\\", ":", ",", "{", "}", " ", "\n", "$", SCRATCH]
)
TEXTS = st.lists(PIECES, max_size=12).map(lambda pieces: joined(*pieces))


def read_back(text: Value, columns: Columns, point: int) -> Value:
    """The text with each column's value for that point."""
    known = {variable(one.name).parts[0]: one.values[point] for one in columns.columns}
    return replaced(text, lambda one: known.get(one, one))


@given(st.lists(TEXTS, min_size=2, max_size=6), st.lists(TEXTS, min_size=2, max_size=6))
def test_joined_texts_give_back_the_text_of_every_point(
    first: list[Value], second: list[Value]
) -> None:
    """Also for config files; texts with different references are never joined."""
    for texts in (first, second):
        same = tuple(one for one in texts if references(one) == references(texts[0]))
        known = {
            "k.x": tuple(map(str, range(len(same)))),
            "k.y": tuple(literals(one)[0][:2] for one in same),
        }
        for is_config in (False, True):
            columns = Columns([], known.items(), [])
            found = columns.joined_config(same) if is_config else columns.joined(same, "hint")
            assert [read_back(found, columns, one) for one in range(len(same))] == list(same)


def test_a_config_has_a_variable_for_each_value_that_differs() -> None:
    columns = Columns([], [("args.lr", ("1e-3", "3e-4"))], [])
    texts = tuple(
        f'{{"optimizer": {{"lr": {lr}}}, "name": "run-{lr}", "warmup": {steps}, "tag": "{tag}"}}'
        for lr, steps, tag in (("1e-3", 1, "a b"), ("3e-4", 22, "c"))
    )
    assert show(columns.joined_config(texts)) == (
        '{"optimizer": {"lr": $lr}, "name": "run-$lr", "warmup": $warmup, "tag": "$tag"}'
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


def test_a_reference_beside_a_value_of_a_config_is_not_in_the_table() -> None:
    columns = Columns([], [], [])
    found = columns.joined_config((joined("path: /x", SCRATCH), joined("path: /y", SCRATCH)))
    assert found == joined("path: ", variable("path"), SCRATCH)
    assert columns.columns[0].values == ("/x", "/y")
