"""Clusters of many shapes: ParallelCluster configs, and descriptions of other Slurm clusters."""

from __future__ import annotations

from typing import Any

import yaml

from clusterjobs import resources


def _ready(name: str) -> str:
    return (resources.cluster_configs_dir() / f"{name}.yaml").read_text(encoding="utf-8")


def _config(*queues: dict[str, Any], **settings: Any) -> str:
    config = {
        "Region": "us-east-1",
        "Image": {"Os": "ubuntu2204"},
        "HeadNode": {"InstanceType": "m6i.xlarge"},
        "Scheduling": {
            "Scheduler": "slurm",
            "SlurmSettings": settings,
            "SlurmQueues": list(queues),
        },
    }
    return yaml.safe_dump(config)


def _queue(name: str, *resources: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"Name": name, "ComputeResources": list(resources), **keys}


def _resource(name: str, kind: str, most: int, **keys: Any) -> dict[str, Any]:
    return {"Name": name, "InstanceType": kind, "MinCount": 0, "MaxCount": most, **keys}


_EFA = {"Efa": {"Enabled": True}}
_LIMITS = {"CustomSlurmSettings": {"MaxTime": "2-12:00:00"}}

CONFIGS = {
    "cpu-only": _ready("small"),
    "efa-a100": _ready("p4d-a100"),
    "p5": _ready("p5-h100"),
    "two-types-in-a-queue": _config(
        _queue(
            "train",
            _resource("big", "p4d.24xlarge", 8, **_EFA),
            _resource("g5", "g5.xlarge", 4),
        )
    ),
    "same-hardware-but-for-gpu-memory": _config(
        _queue(
            "train",
            _resource("a40", "p4d.24xlarge", 8, **_EFA),
            _resource("a80", "p4de.24xlarge", 4, **_EFA),
        )
    ),
    "static-and-dynamic": _config(
        _queue("train", _resource("p4d", "p4d.24xlarge", 6, **_EFA) | {"MinCount": 2})
    ),
    "four-queues-and-limits": _config(
        _queue("a100", _resource("p4d", "p4d.24xlarge", 16, **_EFA), JobExclusiveAllocation=True),
        _queue("v100", _resource("p3dn", "p3dn.24xlarge", 8, **_EFA), **_LIMITS),
        _queue("cpu", _resource("c6i", "c6i.32xlarge", 100), _resource("c5", "c5.18xlarge", 3)),
        _queue("debug", _resource("g4dn", "g4dn.xlarge", 1), **_LIMITS),
    ),
    "memory-scheduling": _config(
        _queue("train", _resource("p4d", "p4d.24xlarge", 2, SchedulableMemory=1000000)),
        _queue("cpu", _resource("m6i", "m6i.4xlarge", 10)),
        EnableMemoryBasedScheduling=True,
    ),
    "one-thread-per-core": _config(
        _queue(
            "train",
            _resource("p5", "p5.48xlarge", 4, DisableSimultaneousMultithreading=True, **_EFA),
        )
    ),
}

_ONE_TYPE = """\
kind: slurm
node_types:
  {type}
partitions:
  batch: {{nodes: {{n: {nodes}}}, max_time: 1-00:00:00}}
"""


def _one_type(node_type: str, nodes: int = 20) -> str:
    return _ONE_TYPE.format(type=f"n: {{{node_type}}}", nodes=nodes)


DESCRIPTIONS = {
    "one-node": _one_type("cpus: 16, memory_mib: 64000, gpus: 2, gpu_type: rtx4090", 1),
    "gpus-without-type": _one_type("cpus: 64, memory_mib: 500000, gpus: 4, features: [ib, a100]"),
    "gpus-that-are-no-gres": _one_type("cpus: 40, memory_mib: 190000, features: [v100, nvlink]"),
    "four-threads-per-core": _one_type(
        "cpus: 176, threads_per_core: 4, memory_mib: 583680, gpus: 6, gpu_type: v100", 4608
    ),
    "partitions-over-the-same-nodes": """\
kind: slurm
default_partition: batch
node_types:
  a100: {cpus: 96, threads_per_core: 2, memory_mib: 512000, gpus: 4, gpu_type: a100, features: [ib]}
  cpu: {cpus: 128, memory_mib: 256000, gpus: 0, features: [milan]}
partitions:
  debug: {nodes: {a100: 2}, max_time: 30, max_nodes: 2}
  batch: {nodes: {a100: 936}, max_time: 1-00:00:00, max_nodes: 384, exclusive: true}
  long: {nodes: {a100: 100}, max_time: 7-00:00:00, max_nodes: 16}
  all: {nodes: {a100: 936, cpu: 240}}
memory_scheduling: true
""",
    "mixed": """\
kind: slurm
default_partition: gpu
node_types:
  a100_40: {cpus: 128, memory_mib: 515000, gpus: 4, gpu_type: a100, features: [a100_40, ib, rome]}
  a100_80: {cpus: 64, memory_mib: 1030000, gpus: 8, gpu_type: a100, features: [a100_80, ib]}
  v100: {cpus: 40, memory_mib: 385000, gpus: 4, gpu_type: v100, features: [v100, "gen=2", cuda:11]}
  fat: {cpus: 96, memory_mib: 6000000, gpus: 0, features: [fat.mem]}
partitions:
  gpu: {nodes: {a100_40: 30, a100_80: 12, v100: 60}, max_time: 3-00:00:00}
  gpu_low.prio: {nodes: {a100_40: 30, v100: 60}, max_time: 1:30:00}
  fat-mem: {nodes: {fat: 3}, exclusive: true}
""",
    "parts-of-gpus": _one_type("cpus: 64, memory_mib: 500000, gpus: 8, gpu_type: a100_3g.20gb", 2),
}

SHAPES = {**CONFIGS, **DESCRIPTIONS}
