"""What every node is asked before the training, and what it has to answer.

Each wanted value is derived here, from the catalogue, the cluster's config or the spec. How it is
found out is written in `node/preflight_*.sh`, which run on the nodes. Sources: NCCL its manual;
AWS the EC2 user guide on EFA; facts of clusters stand in their configs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, Variable, folder_on_the_node
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.plan.directives import Directive
from clusterjobs.plan.placement import Placement
from clusterjobs.provenance import Provenance
from clusterjobs.resources import with_imports
from clusterjobs.spec.experiment import Experiment, Preflight
from clusterjobs.spec.references import show

NCCL_LOGS = f"{JOB_DIR}/nccl"

_PACKAGES = {
    "torchrun": ("torch",),
    "deepspeed": ("torch", "deepspeed"),
    "megatron-deepspeed": ("torch", "deepspeed"),
    "gpt-neox": ("torch", "deepspeed"),
}
_COMPILES = ("deepspeed", "megatron-deepspeed", "gpt-neox")


class Asked(NamedTuple):
    """One question: `word` is the argument of the node's program, `check=wanted`."""

    word: str
    reason: str


class AllReduce(NamedTuple):
    """What an all-reduce must reach: `percent` of `gbps`, the rate of one node (0: not known).

    `srun_options`: of the step with a task for each rank.
    """

    gbps: str
    percent: int
    srun_options: tuple[Directive, ...]


class PreflightPlan(NamedTuple):
    """`excludes`: the job starts again without bad nodes. `reads_nccl`: its log must show EFA."""

    asked: tuple[Asked, ...]
    excludes: bool
    reads_nccl: bool
    all_reduce: AllReduce | None = None

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs for the nodes that it needs."""
        needed = {
            "preflight.py": bool(self.asked),
            "nccl_log.py": self.reads_nccl,
            "all_reduce.py": self.all_reduce is not None,
        }
        return with_imports(name for name, is_needed in needed.items() if is_needed)

    @property
    def environment(self) -> tuple[Variable, ...]:
        """NCCL says once, when it starts, over which network it talks."""
        if not self.reads_nccl:
            return ()
        return (
            Variable("NCCL_DEBUG", "INFO", "its log says whether EFA is used", "NCCL"),
            Variable("NCCL_DEBUG_SUBSYS", "INIT,NET", "of that, what is about the network", "NCCL"),
            Variable("NCCL_DEBUG_FILE", f"{NCCL_LOGS}/%h.%p", "a file for each rank", "NCCL"),
        )


def resolve_preflight(
    experiment: Experiment,
    placement: Placement,
    cluster: Cluster,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> PreflightPlan | None:
    """The preflight, or None where the spec wants none."""
    wish = experiment.preflight
    if wish is None:
        _check_unread_pins(experiment, diagnostics)
        return None
    questions = list(_questions(experiment, wish, placement, cluster))
    reads_nccl = placement.efa and placement.gpus_per_node > 0 and placement.nodes > 1
    possible = {check for check, *_ in questions} | ({"nccl"} if reads_nccl else set())
    chosen = possible if wish.checks is None else possible & set(wish.checks)
    for named in wish.checks or ():
        if named not in possible:
            diagnostics.problem(
                ("preflight",),
                f"there is nothing that {named} could check in this job",
                "remove it; checked: " + ", ".join(sorted(possible)),
                warning=True,
            )
    asked = []
    for check, word, value, reason, source in questions:
        if check in chosen:
            provenance.record(_unique_name(word, value), show(value) or "yes", reason, source)
            asked.append(Asked(f"{word}={value}" if value else word, reason))
    if asked:
        reason = "for all of it; a node that is silent is bad"
        asked.insert(0, Asked(f"seconds={wish.seconds}", reason))
    all_reduce = _all_reduce(experiment, wish, placement, diagnostics, provenance)
    excludes = wish.on_bad_node == "exclude"
    return PreflightPlan(tuple(asked), excludes, "nccl" in chosen, all_reduce)


def _unique_name(word: str, value: str) -> str:
    """`preflight.space /tmp`: some checks are made for several folders."""
    folder = value[value.find("/") :] if "/" in value else ""
    folder = value.partition(":")[2] if word == "space" else folder
    return f"preflight.{word} {show(folder)}".rstrip()


def _all_reduce(
    experiment: Experiment,
    wish: Preflight,
    placement: Placement,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> AllReduce | None:
    percent, key = wish.bandwidth_percent, ("preflight", "bandwidth_percent")
    if percent is None:
        return None
    if percent > 100:
        diagnostics.problem(key, f"{percent} % is more than the network gives", "a half is 50")
    elif placement.nodes == 1:
        diagnostics.problem(key, "there is no network within one node", "remove it", warning=True)
    elif getattr(experiment.software, "container", None):
        what = (
            "the all-reduce is measured by the job's own Python, and the ranks' is in a container"
        )
        diagnostics.problem(key, what, "remove it")
    else:
        gbps = f"{placement.instance.network_gbps:g}" if placement.instance else "0"
        reason = f"the network of a {placement.instance_type}, both ways, and {percent} % of it"
        provenance.record("preflight.all_reduce", f"{gbps} Gbps", reason, "catalogue")
        return AllReduce(gbps, percent, tuple(_task_per_rank(placement)))
    return None


def _task_per_rank(placement: Placement) -> Iterator[Directive]:
    """Options of srun for a task for each rank, whoever starts the ranks of the training."""
    ranks = placement.ranks_per_node
    yield Directive("nodes", placement.nodes, "all of the job's")
    yield Directive("ntasks", placement.nodes * ranks, "a task for each rank")
    yield Directive("ntasks-per-node", ranks, "likewise")
    yield Directive("overlap", True, "beside what else this job may run")
    yield Directive("cpu-bind", "none", "as for the training")
    yield Directive("kill-on-bad-exit", 1, "one dead task ends them all")
    if placement.cpus_per_rank is not None:
        yield Directive(
            "cpus-per-task", placement.cpus_per_rank, "a rank's; else srun takes the job's"
        )
    if placement.shares_cpus:
        yield Directive("overcommit", True, "a node has more ranks than CPUs")


def _check_unread_pins(experiment: Experiment, diagnostics: Diagnostics) -> None:
    if experiment.software.requires:
        diagnostics.problem(
            ("software", "requires"),
            "the preflight looks for these packages, and it is off",
            "preflight: true, or preflight: [software]",
            warning=True,
        )


_Question = tuple[str, str, str, str, str]  # check, word, wanted, reason, source


def _questions(
    experiment: Experiment, wish: Preflight, placement: Placement, cluster: Cluster
) -> Iterator[_Question]:
    yield from _hardware(placement)
    yield from _storage(experiment, wish, placement, cluster)
    yield ("clock", "clock", "5", "seconds apart: logs, file times, signed requests", "")
    yield ("network", "network", "", "an interface that NCCL_SOCKET_IFNAME takes", "NCCL")
    yield ("names", "names", "", "every node finds MASTER_ADDR by its name", "")
    yield ("port", "port", "", "MASTER_PORT is free, and every node can call it", "")
    if getattr(experiment.software, "container", None):  # what is inside is the image's affair
        yield ("containers", "containers", "", "the ranks run in a container", "pyxis")
        return
    if packages := _packages(experiment):
        yield ("software", "packages", packages, "what the job's Python must have", "")
    if placement.gpus_per_node and experiment.framework in _COMPILES:
        reason = f"{experiment.framework} compiles extensions when it starts"
        yield ("build", "build", "", reason, "PyTorch: torch.utils.cpp_extension")


def _hardware(placement: Placement) -> Iterator[_Question]:
    instance, gpus = placement.instance, placement.gpus_per_node
    kind = instance.name if instance else placement.instance_type
    if gpus:
        yield ("gpus", "gpus", str(gpus), f"the job's GPUs of a {kind}", "catalogue")
        if placement.exclusive:
            yield ("gpus", "processes", "", "a whole node: nobody else is on its GPUs", "")
    if placement.efa and instance and instance.efa_interfaces:
        count = str(instance.efa_interfaces)
        yield ("efa", "efa", count, f"the EFA interfaces of a {kind}", "catalogue")
        yield ("memlock", "memlock", "", "EFA pins memory", "AWS")
    if placement.ranks_per_node > 1:
        yield ("shm", "shm", "1", "GiB of /dev/shm: NCCL, and loaders of data, share it", "NCCL")


def _storage(
    experiment: Experiment, wish: Preflight, placement: Placement, cluster: Cluster
) -> Iterator[_Question]:
    for mount in cluster.mounts:
        word = "lustre" if mount.storage_type == "FsxLustre" else "mount"
        reason = f"{mount.name or mount.storage_type} of {cluster.name}"
        yield ("mounts", word, mount.directory, reason, "SharedStorage")
    folders = {JOB_DIR: "the job's own folder"}
    if experiment.checkpoints:
        folders[folder_on_the_node(experiment.checkpoints.path)] = "checkpoints"
    for folder, reason in folders.items():
        if placement.nodes > 1:
            yield ("mounts", "folder", folder, f"{reason}: the same for all nodes", "")
        yield ("space", "space", f"{wish.free_gib}:{folder}", f"GiB free: {reason}", "free_gib")
    yield ("space", "space", "1:/tmp", "GiB free: programs keep temporary files there", "")


def _packages(experiment: Experiment) -> str:
    pins = dict.fromkeys(_PACKAGES.get(experiment.framework, ()), "")
    pins.update(experiment.software.requires)
    return ",".join(f"{name}=={pin}" if pin else name for name, pin in pins.items())
