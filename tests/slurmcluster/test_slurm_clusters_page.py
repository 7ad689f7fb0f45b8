"""The page docs/slurm-clusters.md has every key, and its example is read."""

from __future__ import annotations

import pathlib
import re

import pytest

from clusterjobs.clusters.described.description import Defaults, Description, NodeType, Partition
from clusterjobs.clusters.described.read import unclear_values
from clusterjobs.clusters.described.source import DescriptionSource

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "slurm-clusters.md").read_text()


def keys_below(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"(?m)^\| \[?(`.*?) \|", section)
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


COMMON = set(Defaults.model_fields)


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Keys at the top", set(Description.model_fields) - COMMON),
        ("Keys at the top or in a node type", COMMON),
        ("Keys of a node type", set(NodeType.model_fields) - COMMON),
        ("Keys of a partition", set(Partition.model_fields)),
    ],
)
def test_page_has_every_key(heading: str, keys: set[str]) -> None:
    assert keys_below(heading) == keys


def test_example_is_a_description_without_mistakes() -> None:
    text = next(one for one in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind" in one)
    source = DescriptionSource(text, "mycluster.yaml")
    warnings = [one for one in unclear_values(source.description, source.document) if not one.info]
    assert warnings == []
    batch, develop = source.facts.partitions
    assert [one.max_nodes for one in batch.node_groups] == [384]
    assert [one.name for one in develop.node_groups] == ["a100", "cpu"]
