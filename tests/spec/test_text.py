"""Values with references, and the content hashes of specs that have them."""

from __future__ import annotations

import itertools
import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.runs.content import content_hash
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.script import shell
from clusterjobs.text import (
    DerivedValue,
    ShellVariable,
    Text,
    Value,
    changed,
    expanding,
    file_name,
    join,
    joined,
    literals,
    marked,
    partition,
    references,
    show,
    split_text,
    variable,
    without_points,
)

REFERENCES = st.sampled_from(
    [
        ShellVariable("A"),
        ShellVariable("B", True),
        ShellVariable("C", False, "/x=y z"),
        DerivedValue("n.m"),
    ]
)
# With the first characters that stand for references while a value is divided.
LITERALS = st.text(st.sampled_from("ab/= ${}\"'\\\U000f0000\U000f0001"), max_size=6)
VALUES = st.lists(LITERALS | REFERENCES, max_size=8).map(lambda parts: joined(*parts))
A_TEXT = joined("a/", variable("A"), "/b")


@given(VALUES)
def test_no_literal_is_empty_or_follows_another(value: Value) -> None:
    assert isinstance(value, Text) is bool(references(value))
    assert "".join(literals(value)) == "".join(
        one
        for one in (value.parts if isinstance(value, Text) else (value,))
        if isinstance(one, str)
    )
    if isinstance(value, Text):
        kinds = [isinstance(one, str) for one in value.parts]
        assert (True, True) not in itertools.pairwise(kinds)
        assert "" not in value.parts


@given(VALUES, st.sampled_from(["=", "/", " "]))
def test_a_divided_value_keeps_every_reference_at_its_place(value: Value, sign: str) -> None:
    assert join(sign, split_text(value, lambda text: text.split(sign))) == value
    before, found, after = partition(value, sign)
    assert joined(before, found, after) == value
    assert changed(value, lambda text: text.replace(sign, sign)) == value


@given(VALUES)
def test_what_is_shown_has_the_names_and_nothing_else(value: Value) -> None:
    names = [f"${one.name.replace('.', '_')}" for one in references(value)]
    pieces = zip(literals(value), [*names, ""], strict=True)
    assert show(value) == "".join(literal + name for literal, name in pieces)


def test_a_value_with_references_is_never_printed_as_it_is() -> None:
    assert isinstance(A_TEXT, Text)
    for print_it in (str, format, "{}".format, lambda text: f"{text}", "%s".__mod__):
        with pytest.raises(TypeError, match="has references"):
            print_it(A_TEXT)
    with pytest.raises(TypeError):
        json.dumps({"a": A_TEXT})
    with pytest.raises(TypeError):
        "".join([A_TEXT])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        "a" + A_TEXT  # type: ignore[operator]


def test_a_derived_value_that_has_no_number_yet_cannot_be_quoted() -> None:
    for text in (Text((DerivedValue("nodes"),)), joined("a", DerivedValue("nodes"))):
        with pytest.raises(shell.UnquotedError):
            shell.quote(text)
        with pytest.raises(shell.UnquotedError):
            shell.expanding_document(text)
    with pytest.raises(shell.UnquotedError):
        shell.directive("comment", A_TEXT)


def test_parts_of_paths() -> None:
    assert file_name(A_TEXT) == "b"
    assert file_name(joined("a/", variable("A"))) == variable("A")
    a, c = variable("A", required=True), variable("C", required=True)
    assert expanding("${A}/$${B}${C}") == joined(a, "/${B}", c)
    assert expanding("${A}${HOME}", may_be_unset=True) == joined(variable("A"), variable("HOME"))
    assert expanding("${A:-${C}}") == variable("A", default=c)
    point = joined("/a/", variable("point_name"), variable("A"))
    assert without_points(point, "p") == joined("/a/p", variable("A"))


# ------------------------------------------------------------------ content hashes

REFERRING = """\
name: refs
cluster: small
framework: command
launcher: srun
nodes: 2
command:
  - ./run
  - "--world={{ world_size }}"
  - "--tp={{ parallel.tensor }}"
  - "{{ job.dir }}/out-{{ job.id }}-{{ job.attempt }}"
  - "{{ job.node_rank }}"
  - "{{ parameters.LR }}"
parameters: {LR: 1e-3, CHOICE: {default: a, choices: [a, b]}}
env:
  SCRATCH_DIR: "{{ env.SCRATCH }}/x"
  OTHER: "{{ env.TMPX | default('/tmp/a b') }}"
  CUDA_VISIBLE_DEVICES: {value: "{{ parameters.LR }}", force: true, reason: why}
checkpoints: {path: "/fsx/{{ job.id }}/{{ env.USERX }}"}
roles: {server: {command: [./serve, "{{ job.dir }}"], port: 8000}}
prefix: [echo, "{{ roles.server.addr }}:{{ roles.server.addrs }}"]
before: [{command: "./prep --to {{ job.dir }}"}]
"""
ARRAY = """\
name: refs
cluster: small
framework: command
command: [./run, "{{ job.array_index }}"]
sbatch: {array: 0-9}
"""
SWEEP = """\
name: refs
cluster: small
framework: command
command: [./run, "{{ point.name }}", "{{ point.label }}", "{{ point.index }}", "{{ args.x }}"]
args: {x: "1{{ env.A }}"}
checkpoints: {path: "/fsx/{{ point.label }}"}
sweep: {grid: {env.X: ["{{ env.HOMEX }}", b]}}
"""


@pytest.mark.parametrize(
    ("spec", "recorded"),
    [
        (REFERRING, ["8a2d82973b107cf6"]),
        (ARRAY, ["7f7a9fa9ace0fc0a"]),
        (SWEEP, ["9132c9984bbad854", "2c09b3c9c64ecdbd"]),
    ],
)
def test_hashes_are_those_that_earlier_versions_have_recorded(
    spec: str, recorded: list[str], tmp_path: pathlib.Path
) -> None:
    """They were made by a version in which NUL characters marked references inside strings."""
    file = tmp_path / "exp.yaml"
    file.write_text(spec)
    found = SpecFiles(file).load_points()
    assert [content_hash(one.expanded, {}) for one in found] == recorded
    assert any("\\u0000" in json.dumps(one.expanded, default=marked) for one in found)
