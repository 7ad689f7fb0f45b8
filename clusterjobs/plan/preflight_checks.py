"""The checks that a job allows, each with its expected value and the source of that value.

Sources: NCCL's documentation; AWS's user guide on EFA.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.frameworks.base import JOB_DIR, Framework
from clusterjobs.plan.fabrics import fabric_of
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Software
from clusterjobs.spec.references import expanding, show, variable


class Possible(NamedTuple):
    """A check that this job allows; `name` is what the spec calls it."""

    name: str
    word: str
    wanted: str
    reason: str
    source: str = ""

    @property
    def unique_name(self) -> str:
        """`preflight.space /tmp`: some checks run for several folders."""
        wanted = self.wanted
        folder = wanted[wanted.find("/") :] if "/" in wanted else ""
        folder = wanted.partition(":")[2] if self.word == "space" else folder
        return f"preflight.{self.word} {show(folder)}".rstrip()


def hardware(placement: Placement, source: str) -> Iterator[Possible]:
    """GPUs, the fabric and memory. `source`: where a node's numbers come from."""
    node_type, gpus = placement.node_type, placement.shape.gpus_per_node
    if gpus and not node_type.has_amd_gpus:
        yield Possible("gpus", "gpus", str(gpus), f"the job's GPUs of {node_type.in_words}", source)
        if placement.exclusive:
            yield Possible("gpus", "processes", "", "a whole node: no other process uses its GPUs")
    yield from _fabric(placement, source)
    if placement.shape.ranks_per_node > 1:
        reason = "GiB of /dev/shm: NCCL, and loaders of data, share it"
        yield Possible("shm", "shm", "1", reason, "NCCL")


# Words of the checks that count interfaces.
_COUNTED = {"efa": "efa", "infiniband": "infiniband", "slingshot": "cxi"}


def _fabric(placement: Placement, source: str) -> Iterator[Possible]:
    """Its interfaces, and what NCCL needs to use them."""
    name, node_type = placement.fabric, placement.node_type
    fabric, word = fabric_of(name), _COUNTED.get(name)
    key = "efa" if name == "efa" else "fabric"
    if word and node_type.fabric_interfaces:
        count = str(node_type.fabric_interfaces)
        reason = f"the {fabric.title} interfaces of {node_type.in_words}"
        yield Possible(key, word, count, reason, source)
    if name == "gvnic":
        yield Possible(key, "gvnic", "", "Google's virtual network card, and Fast Socket", "Google")
    if fabric.libraries and placement.all_nodes > 1:
        reason = f"NCCL's plugin for {fabric.title}"
        yield Possible(key, "plugin", fabric.libraries, reason, "Google")
    if fabric.pins_memory and (node_type.fabric_interfaces or name != "efa"):
        maker = "AWS" if name == "efa" else "NCCL"
        yield Possible("memlock", "memlock", "", f"{fabric.title} pins memory", maker)


def storage(
    free_gib: int, checkpoints: str | None, nodes: int, facts: ClusterFacts
) -> Iterator[Possible]:
    """Mounts, the folders that the job writes to, and the space in them."""
    for mount in facts.mounts:
        word = "lustre" if mount.kind == "lustre" else "mount"
        reason = f"{mount.name or mount.kind} of {facts.name}"
        yield Possible("mounts", word, mount.path, reason, facts.terms.mounts)
    folders = {JOB_DIR: "the job's own folder"}
    if checkpoints:
        folders[checkpoints] = "checkpoints"
    for folder, reason in folders.items():
        if nodes > 1:
            yield Possible("mounts", "folder", folder, f"{reason}: the same for all nodes")
        yield Possible("space", "space", f"{free_gib}:{folder}", f"GiB free: {reason}", "free_gib")
    yield Possible("space", "space", "1:/tmp", "GiB free: programs keep temporary files there")


def network() -> Iterator[Possible]:
    """Clocks, names and addresses."""
    yield Possible("clock", "clock", "5", "seconds apart: logs, file times, signed requests")
    yield Possible("network", "network", "", "an interface that NCCL_SOCKET_IFNAME takes", "NCCL")
    yield Possible("names", "names", "", "every node finds MASTER_ADDR by its name")
    yield Possible("port", "port", "", "MASTER_PORT is free, and every node can call it")


def software(
    software: Software, framework: Framework, placement: Placement, script: str | None
) -> Iterator[Possible]:
    """What the job's Python or its container needs."""
    if software.container:  # the image decides what is inside
        if software.container.runtime == "pyxis":
            yield Possible("containers", "containers", "", "the ranks run in a container", "pyxis")
        return
    pins = dict.fromkeys(framework.packages, "") | software.requires
    packages = ",".join(f"{name}=={pin}" if pin else name for name, pin in pins.items())
    if packages:
        yield Possible("software", "packages", packages, "what the job's Python must have")
    if placement.shape.gpus_per_node and framework.imports:
        reason = f"{framework.name} imports them on GPUs"
        yield Possible("software", "imports", ",".join(framework.imports), reason)
    if placement.shape.gpus_per_node and framework.compiles_extensions:
        reason = f"{framework.name} compiles extensions when it starts"
        yield Possible("build", "build", "", reason, "PyTorch: torch.utils.cpp_extension")
    if framework.helpers and script:
        folder = expanding(f"{PurePosixPath(script).parent}/{framework.helpers}".removeprefix("./"))
        here = folder if folder.startswith(("/", "\0")) else f"{variable('PWD')}/{folder}"
        reason = f"{framework.name} compiles helpers.cpp there when it starts"
        yield Possible("build", "helpers", here, reason)
