from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import slurm_partitions
from clusterjobs.clusters.parallelcluster.render_config import fit
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem

KEYS = re.findall(
    r"\w+",
    """
    Region Image Os CustomAmi Scheduling SlurmSettings EnableMemoryBasedScheduling SlurmQueues
    Name CapacityType Networking SubnetIds PlacementGroup Enabled Id ComputeSettings LocalStorage
    EphemeralVolume MountDir ComputeResources InstanceType Instances MinCount MaxCount Efa
    DisableSimultaneousMultithreading SchedulableMemory JobExclusiveAllocation StaticNodePriority
    DynamicNodePriority SharedStorage StorageType CustomSlurmSettings MaxTime
    """,
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from(
        ["p4d.24xlarge", "t3.micro", "<x>", "${X}", "{{ site.x }}", "{{", "", "9" * 30]
    )
    | st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=5)
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)


VALUES = st.recursive(SCALARS, containers, max_leaves=25)
RESOURCES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=8)
QUEUES = st.lists(
    st.fixed_dictionaries({"Name": SCALARS, "ComputeResources": st.lists(RESOURCES, max_size=3)})
    | RESOURCES,
    max_size=3,
)


@given(RESOURCES, QUEUES | VALUES)
def test_any_data_under_the_known_keys_is_read(data: dict[str, Any], queues: Any) -> None:
    text = yaml.safe_dump({**data, "Scheduling": {"SlurmQueues": queues}}, allow_unicode=True)
    cluster, document = read_cluster(text, "c.yaml", {"x": 4})
    for problem in problems_of(lambda: slurm_partitions(cluster, document)):
        assert problem.where
    for problem in problems_of(lambda: fit(document, {"x": 4})):
        assert problem.where


def problems_of(use: Callable[[], object]) -> tuple[Problem, ...]:
    """What it refuses; any other exception is a failure."""
    try:
        use()
    except InputError as error:
        return error.problems
    return ()


@pytest.mark.parametrize("name", ["p4d-a100", "small"])
def test_a_damaged_file_is_read_or_refused(name: str) -> None:
    text = (resources.cluster_configs_dir() / f"{name}.yaml").read_text()
    chance = random.Random(name)
    for _ in range(300):
        start = chance.randrange(len(text))
        damage = chance.choice(["", "{{", "}}", "'", '"', "\t", ": ", "- ", "\n", "[", "@x@", "%"])
        damaged = text[:start] + damage + text[start + chance.randrange(4) :]
        for problem in problems_of(functools.partial(read_cluster, damaged, "c.yaml", {})):
            assert problem.what
            assert problem.where
