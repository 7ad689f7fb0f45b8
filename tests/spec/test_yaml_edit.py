"""Values that are changed in YAML text: everything else stays byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from clusterjobs.yaml.document import Path, load
from clusterjobs.yaml.edit import set_value

BLOCK = """\
# A spec.
nodes: 4   # as many as there are
parallel:
  tensor: 2  # inside a node
  # a comment behind the last key

args:
  lr: 1e-4
"""
FLOW = "parallel: {tensor: 2, pipeline: 4}   # sizes\nbatch: {micro: 1}\n"


@pytest.mark.parametrize(
    ("text", "path", "value", "old", "new"),
    [
        (BLOCK, ("nodes",), 8, "nodes: 4 ", "nodes: 8 "),
        (BLOCK, ("parallel", "tensor"), 8, "tensor: 2 ", "tensor: 8 "),
        (FLOW, ("parallel", "pipeline"), 1, "pipeline: 4", "pipeline: 1"),
        (FLOW, ("parallel", "sequence"), True, "4}", "4, sequence: true}"),
        (
            BLOCK,
            ("parallel", "pipeline"),
            4,
            "inside a node\n",
            "inside a node\n  pipeline: 4\n",
        ),
        (BLOCK, ("zero", "stage"), 1, "lr: 1e-4\n", "lr: 1e-4\nzero: {stage: 1}\n"),
        ("a: {}\n", ("a", "b"), "full", "{}", "{b: full}"),
        ("a:\nb: 1\n", ("a", "c"), False, "a:\n", "a: {c: false}\n"),
        ("a: 1", ("b",), "p5.48xlarge", "a: 1", "a: 1\nb: p5.48xlarge\n"),
        ("a: 'x'\n", ("a",), "true", "'x'", '"true"'),
    ],
)
def test_one_value_changes(text: str, path: Path, value: Any, old: str, new: str) -> None:
    found = set_value(text, "exp.yaml", path, value)
    assert found == text.replace(old, new, 1)
    read = load(found, "exp.yaml").value
    for step in path:
        read = read[step]
    assert read == value
