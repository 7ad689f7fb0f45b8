"""Plans of specs written as Python data, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec

BASE = {"name": "a", "cluster": "p4d-a100", "framework": "torchrun", "script": "t.py"}


_NOTHING: Mapping[str, object] = MappingProxyType({})


def plan_of(
    config: str | None = None,
    site: Mapping[str, object] = _NOTHING,
    texts: Mapping[str, str] = MappingProxyType({}),
    **keys: object,
) -> Plan:
    """The plan of BASE with other keys; None leaves one out. `config` is a config's text.

    `texts`: of the framework's own config files, by their names.
    """
    data = {key: value for key, value in {**BASE, **keys}.items() if value is not None}
    spec = load_spec(json.dumps(data), "exp.yaml", option_models())
    name = f"{data['cluster']}.yaml"
    text = config or (resources.cluster_configs_dir() / name).read_text(encoding="utf-8")
    return resolve(spec, cluster_facts(read_cluster(text, name, site)[0]), texts)


def problems_of(config: str | None = None, **keys: Any) -> tuple[Problem, ...]:
    """What is wrong with it; nothing is an empty tuple."""
    try:
        plan_of(config, **keys)
    except InputError as error:
        return error.problems
    return ()


def config_of(*queues: object, **more: object) -> str:
    """A ParallelCluster config with these queues."""
    scheduling = {"Scheduler": "slurm", "SlurmQueues": list(queues)}
    return json.dumps({"Region": "us-east-1", "Scheduling": scheduling, **more})


def queue(name: str, *resources: tuple[str, str, int], **more: object) -> dict[str, object]:
    """A queue of (name, instance type, MaxCount)."""
    return {
        "Name": name,
        "ComputeResources": [
            {"Name": one, "InstanceType": kind, "MaxCount": count} for one, kind, count in resources
        ],
        **more,
    }
