"""What is checked on every node before the training.

Each wanted value is derived here, from the cluster's facts or the spec. How it is found out is
written in `node/preflight_*.sh`, which run on the nodes. Sources: NCCL its manual; AWS the EC2
user guide on EFA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, Framework, Variable
from clusterjobs.plan.directives import Directive
from clusterjobs.plan.placement import Placement
from clusterjobs.provenance import Provenance
from clusterjobs.spec import experiment as spec
from clusterjobs.spec.references import show


class Check(NamedTuple):
    """One check: `word` is the argument of the node's program, `check=wanted`."""

    word: str
    reason: str


class AllReduce(NamedTuple):
    """What an all-reduce must reach: `percent` of `gbps`, the rate of one node (0: not known).

    `srun_options`: of the step with a task for each rank.
    """

    gbps: str
    percent: int
    srun_options: tuple[Directive, ...]


class Preflight(NamedTuple):
    """`excludes_bad_nodes`: the job starts again without them.

    `reads_nccl`: NCCL's log, files in `nccl_logs`, has to show that the fabric is used.
    """

    checks: tuple[Check, ...]
    excludes_bad_nodes: bool
    reads_nccl: bool
    nccl_logs: str
    all_reduce: AllReduce | None

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs for the nodes that it starts."""
        needed = {
            "preflight.py": bool(self.checks),
            "nccl_log.py": self.reads_nccl,
            "all_reduce.py": self.all_reduce is not None,
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)

    @property
    def environment(self) -> tuple[Variable, ...]:
        """NCCL says once, when it starts, over which network it talks."""
        if not self.reads_nccl:
            return ()
        return (
            Variable("NCCL_DEBUG", "INFO", "its log says whether EFA is used", "NCCL"),
            Variable("NCCL_DEBUG_SUBSYS", "INIT,NET", "of that, what is about the network", "NCCL"),
            Variable("NCCL_DEBUG_FILE", f"{self.nccl_logs}/%h.%p", "a file for each rank", "NCCL"),
        )


def plan_preflight(
    wish: spec.Preflight | None,
    software: spec.Software,
    framework: Framework,
    placement: Placement,
    facts: ClusterFacts,
    checkpoints: str | None,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Preflight | None:
    """The preflight, or None where the spec wants none."""
    if wish is None:
        _check_unread_pins(software, diagnostics)
        return None
    possible = [
        *_hardware(placement, facts.terms.node_facts),
        *_storage(wish.free_gib, checkpoints, placement.shape.nodes, facts),
        *_network(),
        *_software(software, framework, placement),
    ]
    shape = placement.shape
    talks_over_efa = placement.fabric == "efa" and shape.gpus_per_node > 0 and shape.nodes > 1
    chosen = _chosen(wish.checks, {one.name for one in possible}, talks_over_efa, diagnostics)
    checks = []
    for one in possible:
        if one.name in chosen:
            provenance.record(one.unique_name, show(one.wanted) or "yes", one.reason, one.source)
            word = f"{one.word}={one.wanted}" if one.wanted else one.word
            checks.append(Check(word, one.reason))
    if checks:
        reason = "for all of it; a node that is silent is bad"
        checks.insert(0, Check(f"seconds={wish.seconds}", reason))
    return Preflight(
        tuple(checks),
        wish.on_bad_node == "exclude",
        "nccl" in chosen,
        f"{JOB_DIR}/nccl",
        _all_reduce(
            wish.bandwidth_percent,
            software.container is not None,
            placement,
            facts.terms.node_facts,
            diagnostics,
            provenance,
        ),
    )


def _chosen(
    wanted: Sequence[str] | None, possible: set[str], reads_nccl: bool, diagnostics: Diagnostics
) -> set[str]:
    possible = possible | ({"nccl"} if reads_nccl else set())
    for name in wanted or ():
        if name not in possible:
            diagnostics.problem(
                ("preflight",),
                f"there is nothing that {name} could check in this job",
                "remove it; checked: " + ", ".join(sorted(possible)),
                warning=True,
            )
    return possible if wanted is None else possible & set(wanted)


# ------------------------------------------------------------------ the network's rate


def _all_reduce(
    percent: int | None,
    contained: bool,
    placement: Placement,
    source: str,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> AllReduce | None:
    key, node_type = ("preflight", "bandwidth_percent"), placement.node_type
    if percent is None:
        return None
    if percent > 100:
        diagnostics.problem(key, f"{percent} % is more than the network gives", "a half is 50")
    elif placement.shape.nodes == 1:
        diagnostics.problem(key, "there is no network within one node", "remove it", warning=True)
    elif contained:
        what = (
            "the all-reduce is measured by the job's own Python, and the ranks' is in a container"
        )
        diagnostics.problem(key, what, "remove it")
    else:
        gbps = f"{node_type.network_gbps or 0:g}"
        reason = f"the network of a {node_type.name}, both ways, and {percent} % of it"
        provenance.record("preflight.all_reduce", f"{gbps} Gbps", reason, source)
        return AllReduce(gbps, percent, tuple(_task_per_rank(placement)))
    return None


def _task_per_rank(placement: Placement) -> Iterator[Directive]:
    """Options of srun for a task for each rank, whoever starts the ranks of the training."""
    shape = placement.shape
    yield Directive("nodes", shape.nodes, "all of the job's")
    yield Directive("ntasks", shape.world_size, "a task for each rank")
    yield Directive("ntasks-per-node", shape.ranks_per_node, "likewise")
    yield Directive("overlap", True, "beside what else this job may run")
    yield Directive("cpu-bind", "none", "as for the training")
    yield Directive("kill-on-bad-exit", 1, "one dead task ends them all")
    if placement.cpus_per_rank is not None:
        yield Directive(
            "cpus-per-task", placement.cpus_per_rank, "a rank's; else srun takes the job's"
        )
    if placement.shares_cpus:
        yield Directive("overcommit", True, "a node has more ranks than CPUs")


def _check_unread_pins(software: spec.Software, diagnostics: Diagnostics) -> None:
    if software.requires:
        diagnostics.problem(
            ("software", "requires"),
            "the preflight looks for these packages, and it is off",
            "preflight: true, or preflight: [software]",
            warning=True,
        )


# ------------------------------------------------------------------ what can be checked


class _Possible(NamedTuple):
    """A check that this job allows; `name` is what the spec calls it."""

    name: str
    word: str
    wanted: str
    reason: str
    source: str = ""

    @property
    def unique_name(self) -> str:
        """`preflight.space /tmp`: some checks are made for several folders."""
        wanted = self.wanted
        folder = wanted[wanted.find("/") :] if "/" in wanted else ""
        folder = wanted.partition(":")[2] if self.word == "space" else folder
        return f"preflight.{self.word} {show(folder)}".rstrip()


def _hardware(placement: Placement, source: str) -> Iterator[_Possible]:
    node_type, gpus = placement.node_type, placement.shape.gpus_per_node
    kind = node_type.name
    if gpus:
        yield _Possible("gpus", "gpus", str(gpus), f"the job's GPUs of a {kind}", source)
        if placement.exclusive:
            yield _Possible("gpus", "processes", "", "a whole node: nobody else is on its GPUs")
    if placement.fabric == "efa" and node_type.fabric_interfaces:
        count = str(node_type.fabric_interfaces)
        yield _Possible("efa", "efa", count, f"the EFA interfaces of a {kind}", source)
        yield _Possible("memlock", "memlock", "", "EFA pins memory", "AWS")
    if placement.shape.ranks_per_node > 1:
        reason = "GiB of /dev/shm: NCCL, and loaders of data, share it"
        yield _Possible("shm", "shm", "1", reason, "NCCL")


def _storage(
    free_gib: int, checkpoints: str | None, nodes: int, facts: ClusterFacts
) -> Iterator[_Possible]:
    for mount in facts.mounts:
        word = "lustre" if mount.kind == "lustre" else "mount"
        reason = f"{mount.name or mount.kind} of {facts.name}"
        yield _Possible("mounts", word, mount.path, reason, facts.terms.mounts)
    folders = {JOB_DIR: "the job's own folder"}
    if checkpoints:
        folders[checkpoints] = "checkpoints"
    for folder, reason in folders.items():
        if nodes > 1:
            yield _Possible("mounts", "folder", folder, f"{reason}: the same for all nodes")
        yield _Possible("space", "space", f"{free_gib}:{folder}", f"GiB free: {reason}", "free_gib")
    yield _Possible("space", "space", "1:/tmp", "GiB free: programs keep temporary files there")


def _network() -> Iterator[_Possible]:
    yield _Possible("clock", "clock", "5", "seconds apart: logs, file times, signed requests")
    yield _Possible("network", "network", "", "an interface that NCCL_SOCKET_IFNAME takes", "NCCL")
    yield _Possible("names", "names", "", "every node finds MASTER_ADDR by its name")
    yield _Possible("port", "port", "", "MASTER_PORT is free, and every node can call it")


def _software(
    software: spec.Software, framework: Framework, placement: Placement
) -> Iterator[_Possible]:
    if software.container:  # what is inside is the image's affair
        yield _Possible("containers", "containers", "", "the ranks run in a container", "pyxis")
        return
    pins = dict.fromkeys(framework.packages, "") | software.requires
    packages = ",".join(f"{name}=={pin}" if pin else name for name, pin in pins.items())
    if packages:
        yield _Possible("software", "packages", packages, "what the job's Python must have")
    if placement.shape.gpus_per_node and framework.compiles_extensions:
        reason = f"{framework.name} compiles extensions when it starts"
        yield _Possible("build", "build", "", reason, "PyTorch: torch.utils.cpp_extension")
