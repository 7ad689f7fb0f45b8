"""What is checked on every node before the training.

Each expected value is derived from the cluster's facts or the spec. The programs in
`node/preflight/` run the checks on the nodes.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.script import shell
from clusterjobs.script.lines import command_text, option_lines, with_reason
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.fabrics import fabric_of
from clusterjobs.sections.plan import AllReduce, Check, Placement, Preflight
from clusterjobs.slurm.options import Directive
from clusterjobs.text import Value, changed, expanding, is_rooted, joined, show, variable

# ------------------------------------------------------------------ preflight checks
# The checks that a job allows, each with its expected value and the source of that value.
# Sources: NCCL's documentation; AWS's user guide on EFA.


class Possible(NamedTuple):
    """A check that this job allows; `name` is what the spec calls it."""

    name: str
    word: str
    wanted: Value
    reason: str
    source: str = ""

    @property
    def unique_name(self) -> str:
        """`preflight.space /tmp`: some checks run for several folders."""
        wanted = show(self.wanted)
        folder = wanted[wanted.find("/") :] if "/" in wanted else ""
        folder = wanted.partition(":")[2] if self.word == "space" else folder
        return f"preflight.{self.word} {folder}".rstrip()


def hardware_checks(placement: Placement, source: str) -> Iterator[Possible]:
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
    """The checks of the fabric's interfaces, and of what NCCL needs to use them."""
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


def storage_checks(context: Context, free_gib: int) -> Iterator[Possible]:
    """Mounts, the folders that the job writes to, and the space in them."""
    facts, checkpoints = context.facts, context.checkpoints.path
    for mount in facts.mounts:
        word = "lustre" if mount.kind == "lustre" else "mount"
        reason = f"{mount.name or mount.kind} of {facts.name}"
        yield Possible("mounts", word, mount.path, reason, facts.terms.mounts)
    folders: dict[Value, str] = {JOB_DIR: "the job's own folder"}
    if checkpoints:
        folders[checkpoints] = "checkpoints"
    for folder, reason in folders.items():
        if context.placement.all_nodes > 1:
            yield Possible("mounts", "folder", folder, f"{reason}: the same for all nodes")
        wanted = joined(f"{free_gib}:", folder)
        yield Possible("space", "space", wanted, f"GiB free: {reason}", "free_gib")
    yield Possible("space", "space", "1:/tmp", "GiB free: programs keep temporary files there")


def network_checks() -> Iterator[Possible]:
    """Clocks, names and addresses."""
    yield Possible("clock", "clock", "5", "seconds apart: logs, file times, signed requests")
    yield Possible("network", "network", "", "an interface that NCCL_SOCKET_IFNAME takes", "NCCL")
    yield Possible("names", "names", "", "every node finds MASTER_ADDR by its name")
    yield Possible("port", "port", "", "MASTER_PORT is free, and every node can call it")


def software_checks(context: Context) -> Iterator[Possible]:
    """What the job's Python or its container needs."""
    software, framework, script = context.spec.software, context.framework, context.spec.script
    has_gpus = context.placement.shape.gpus_per_node > 0
    if software.container:  # the image decides what is inside
        if software.container.runtime == "pyxis":
            yield Possible("containers", "containers", "", "the ranks run in a container", "pyxis")
        return
    pins = dict.fromkeys(framework.packages, "") | software.requires
    packages = ",".join(f"{name}=={pin}" if pin else name for name, pin in pins.items())
    if packages:
        yield Possible("software", "packages", packages, "what the job's Python must have")
    if has_gpus and framework.imports:
        reason = f"{framework.name} imports them on GPUs"
        yield Possible("software", "imports", ",".join(framework.imports), reason)
    if has_gpus and framework.compiles_extensions:
        reason = f"{framework.name} compiles extensions when it starts"
        yield Possible("build", "build", "", reason, "PyTorch: torch.utils.cpp_extension")
    if framework.helpers and script:
        beside = f"/{framework.helpers}"
        folder = changed(script, lambda text: f"{PurePosixPath(text).parent}{beside}")
        folder = expanding(changed(folder, lambda text: text.removeprefix("./")))
        here = folder if is_rooted(folder) else joined(variable("PWD"), "/", folder)
        reason = f"{framework.name} compiles helpers.cpp there when it starts"
        yield Possible("build", "helpers", here, reason)


def plan(context: Context) -> Preflight:
    written, placement, facts = context.spec.preflight, context.placement, context.facts
    assert written
    possible = [
        *hardware_checks(placement, facts.terms.node_facts),
        *storage_checks(context, written.free_gib),
        *network_checks(),
        *software_checks(context),
    ]
    shape, fabric = placement.shape, fabric_of(placement.fabric)
    reads_nccl = bool(fabric.network) and shape.gpus_per_node > 0 and shape.nodes > 1
    chosen = _chosen(context, written.checks, {one.name for one in possible}, reads_nccl)
    checks = []
    for one in possible:
        if one.name in chosen:
            context.record(one.unique_name, show(one.wanted) or "yes", one.reason, one.source)
            word = joined(one.word, "=", one.wanted) if one.wanted else one.word
            checks.append(Check(word, one.reason))
    if checks:
        reason = "for all checks; a node that does not answer in time is bad"
        checks.insert(0, Check(f"seconds={written.seconds}", reason))
    return Preflight(
        tuple(checks),
        written.on_bad_node == "exclude",
        "nccl" in chosen,
        joined(JOB_DIR, "/nccl"),
        _all_reduce(context, written.bandwidth_percent),
        fabric,
    )


def _chosen(
    context: Context, wanted: Sequence[str] | None, possible: set[str], reads_nccl: bool
) -> set[str]:
    possible = possible | ({"nccl"} if reads_nccl else set())
    for name in wanted or ():
        if name not in possible:
            context.problem(
                ("preflight",),
                f"{name} has nothing to check in this job",
                "remove it; checked: " + ", ".join(sorted(possible)),
                warning=True,
            )
    return possible if wanted is None else possible & set(wanted)


# ------------------------------------------------------------------ the network's rate


def _all_reduce(context: Context, percent: int | None) -> AllReduce | None:
    placement = context.placement
    key, node_type = ("preflight", "bandwidth_percent"), placement.node_type
    if percent is None:
        return None
    if percent > 100:
        context.problem(key, f"{percent} % is more than the network gives", "a half is 50")
    elif placement.all_nodes == 1:
        context.problem(key, "there is no network within one node", "remove it", warning=True)
    elif context.spec.software.container:
        what = (
            "the all-reduce is measured by the job's own Python, and the ranks' is in a container"
        )
        context.problem(key, what, "remove it")
    else:
        gbps = f"{node_type.network_gbps or 0:g}"
        known = f"{gbps} Gbps" if node_type.network_gbps else "unknown"
        reason = f"the network of {node_type.in_words}, both ways, and {percent} % of it"
        context.record("preflight.all_reduce", known, reason, context.facts.terms.node_facts)
        return AllReduce(gbps, percent, tuple(_task_per_rank(placement)))
    return None


def _task_per_rank(placement: Placement) -> Iterator[Directive]:
    """Options of an srun with one task per rank, whatever the launcher starts."""
    shape = placement.shape
    ntasks = placement.all_nodes * shape.ranks_per_node
    yield Directive("nodes", placement.all_nodes, "all of the job's")
    yield Directive("ntasks", ntasks, "a task for each rank")
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


# ------------------------------------------------------------------ text: the checks of every node


_ALL_REDUCE_SECONDS = "240"


def render(rendering: Rendering) -> dict[str, Any]:
    plan = rendering.plan
    preflight = plan.preflight
    assert preflight
    reduced = preflight.all_reduce or AllReduce("0", 1, ())
    arguments = (reduced.gbps, str(reduced.percent), _ALL_REDUCE_SECONDS)
    return {
        "checks": [
            line
            for one in preflight.checks
            for line in with_reason(shell.quote(one.word), one.reason)
        ],
        "nodes": ShellText('"${all_nodes[@]}"' if plan.roles else '"${nodes[@]}"'),
        "has_all_reduce": preflight.all_reduce is not None,
        "all_reduce_options": option_lines(reduced.srun_options),
        "all_reduce_arguments": command_text(arguments),
        "excludes_bad_nodes": preflight.excludes_bad_nodes,
        "reads_nccl": preflight.reads_nccl,
        "nccl_logs": shell.quote(preflight.nccl_logs),
    }
