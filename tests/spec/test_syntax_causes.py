"""Text that is not YAML: the usual mistakes are found where they were made."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError
from clusterjobs.yaml.document import load

CASES = [
    # (text, line, column, what, hint)
    (
        "name: a\n  nodes: 2\n",
        (2, 3),
        "nodes is indented deeper than name, which has a value already",
        "align it with name in line 1",
    ),
    (
        "batch: {micro: 8}\n   nodes: 2\n",
        (2, 4),
        "nodes is indented deeper than batch, which has a value already",
        "align it with batch in line 1",
    ),
    (
        "batch:\n    micro: 8\n  global: 8\n",
        (3, 3),
        "global is indented like no line above it",
        "align it with micro in line 2",
    ),
    (
        "logs: {{ name }}/x\n",
        (1, 7),
        "a reference without quotes",
        'quote the value: "{{ name }}/x"',
    ),
    ("logs: {{ name }}\n", (1, 8), "a reference without quotes", 'quote the value: "{{ name }}"'),
    (
        "args: {a: {{ name }}, b: 1}\n",
        (1, 12),
        "a reference without quotes",
        'quote the value: "{{ name }}"',
    ),
    ("name: a\nnodes 2\ncluster: c\n", (2, 1), "no colon after nodes", "write nodes: 2"),
    ("name: a\nnodes 2\n", (2, 1), "no colon after nodes", "write nodes: 2"),
    ("nodes 2\nname: a\n", (1, 1), "no colon after nodes", "write nodes: 2"),
    ("name: a\nnodes=2\nb: c\n", (2, 1), "no colon after nodes", "write nodes: 2"),
    ("a: b\ncluster:p4d\nc: d\n", (2, 8), "no space after the colon", "write cluster: p4d"),
    (
        'workdir: "/fsx/x\nb: c\nlogs: "/fsx/l"\n',
        (1, 10),
        "a quote is opened here and not closed",
        'write workdir: "/fsx/x"',
    ),
    (
        "args: {a: 'b, c: d}\nb: c\nlogs: '/fsx/l'\n",
        (1, 11),
        "a quote is opened here and not closed",
        "add the closing '",
    ),
    (
        "args: [a, b\ncluster: c\n",
        (1, 7),
        "[ is opened here and not closed",
        "write args: [a, b]",
    ),
    (
        "batch: {micro: 8\ncluster: c\n",
        (1, 8),
        "{ is opened here and not closed",
        "write batch: {micro: 8}",
    ),
    # Other errors keep the parser's words.
    (
        "a:\n  b: 1\nlogs: a: b\n",
        (3, 8),
        "mapping values are not allowed in this context",
        "quote a value that contains ': '",
    ),
    (
        'a: "two\n  lines"\nlogs: a: b\n',
        (3, 8),
        "mapping values are not allowed in this context",
        "quote a value that contains ': '",
    ),
]


@pytest.mark.parametrize(("text", "place", "what", "hint"), CASES)
def test_a_usual_mistake_is_named_where_it_was_made(
    text: str, place: tuple[int, int], what: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(text, "exp.yaml")
    problem = caught.value.problems[0]
    assert problem.where
    assert (problem.where.line, problem.where.column) == place
    assert problem.what.removeprefix("not YAML: ") == what
    assert problem.hint == hint


@pytest.mark.parametrize(
    "text", ["a: [b", "a: {b: 1", "a: 'b", "a: 1\n  b: [c, d@", "- [", "a: \t["]
)
def test_text_that_ends_too_early_without_a_line_break_is_an_error_of_the_input(text: str) -> None:
    with pytest.raises(InputError):
        load(text, "exp.yaml")
