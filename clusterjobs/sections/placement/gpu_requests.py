"""How a spec requests GPUs from Slurm: `gpus_per_node: a100:4`, or in `sbatch` as
`gpus-per-node: a100:4` or `gres: gpu:a100:4`.

Reads Slurm's forms of a request. How many GPUs a node has is checked in node_share.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterjobs.clusters.facts import NodeType, Partition
from clusterjobs.errors import did_you_mean
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import gpu_type
from clusterjobs.text import Text, Value
from clusterjobs.yaml.document import Path


class GpuRequest(NamedTuple):
    """The GPUs of one node; `type` is "" if none is named."""

    path: Path
    type: str
    number: int


# Options of sbatch that a spec may use to request GPUs.
GPU_OPTIONS = ("gpus-per-node", "gres")

# What a job may have instead of one of them, where its site asks for that.
GPU_REQUESTS = (*GPU_OPTIONS, "gpus-per-task")

_Values = Mapping[str, str | bool]
_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)
_GRES = re.compile(r"gpu(?::(?P<type>[A-Za-z][\w.-]*))?(?::(?P<count>[0-9]{1,6}))?", re.ASCII)
_PER_NODE = re.compile(r"(?:(?P<type>[A-Za-z][\w.-]*):)?(?P<count>[0-9]{1,6})", re.ASCII)


def gpu_request(own: _Values) -> GpuRequest | None:
    """The request in `sbatch`; None without one."""
    return next(_requests(own), None)


def _requests(own: _Values) -> Iterator[GpuRequest]:
    for name, value in own.items():
        if name not in GPU_OPTIONS or isinstance(value, bool):
            continue
        for part in value.split(","):
            form = _GRES if name == "gres" else _PER_NODE
            if found := form.fullmatch(part):
                count = int(found["count"] or 1)
                yield GpuRequest(("sbatch", name), found["type"] or "", count)


def gpus_wanted(spec: Experiment) -> int | None:
    """The GPUs of a node that the spec asks for, by either key; None if by none."""
    if spec.gpus_per_node is not None:
        return spec.gpus_per_node
    request = gpu_request(spec.sbatch)
    return request and request.number


def is_gpu_request(name: str, value: Value | int | bool) -> bool:
    if name == "gres" and not isinstance(value, Text):
        return gpu_request({name: str(value)}) is not None
    return name == "gpus-per-node"


def check_gpu_requests(context: Context) -> None:
    """Refuse requests of `sbatch` that are not for the planned GPUs."""
    own, placement = context.spec.sbatch, context.placement
    gres_type = placement.node_type.gpu_gres_type
    gpus = placement.shape.gpus_per_node * placement.per_node
    requests = list(_requests(own))
    _check_syntax(context, own)
    for one in requests:
        if one.number != gpus:
            context.problem(
                one.path,
                f"requests {one.number} of each node, but the job is planned for {gpus}",
                "write the same number, or only one of the two keys",
            )
    if len(requests) > 1:
        what = "Slurm refuses several requests for GPUs in one job"
        context.problem(requests[1].path, what, "write one of them")
    kinds = [(one.path, one.type) for one in requests]
    for path, kind in ((("gpus_per_node",), gpu_type(context.spec.gpus_per_node)), *kinds):
        if kind and gres_type and kind != gres_type:
            context.problem(
                path,
                f"the planned nodes have no GPUs of the type {kind}",
                f"their type in Slurm is {gres_type}: write {gres_type}:{gpus}",
            )


def _check_syntax(context: Context, own: _Values) -> None:
    value = own.get("gpus-per-node")
    if isinstance(value, str) and not _PER_NODE.fullmatch(value):
        what = f"{value} is not a number of GPUs"
        context.problem(("sbatch", "gpus-per-node"), what, "write 8, or a100:8")
    value = own.get("gres")
    for part in value.split(",") if isinstance(value, str) else ():
        name = part.partition(":")[0]
        if not _NAME.fullmatch(name) or (name == "gpu" and not _GRES.fullmatch(part)):
            what = f"{part} is not a request of a generic resource"
            context.problem(("sbatch", "gres"), what, "write gpu:8, or gpu:a100:8")


def requests_gpus(directives: Iterable[tuple[str, Value | int | bool, str]]) -> bool:
    """Whether one of the directives does."""
    return any(is_gpu_request(name, value) for name, value, _ in directives)


# ------------------------------------------------------------------ hints
# `--hint` of sbatch and srun: which CPUs Slurm binds the ranks to.
# srun ignores the hint silently beside an option that binds CPUs or names a number of threads, so
# the derived `--cpu-bind=none` is left out. Source: Slurm, validate_hint_option() in
# src/common/slurm_opt.c; srun(1), --hint.


HINT = "hint"
_VALUES = ("compute_bound", "memory_bound", "multithread", "nomultithread")
_EXCLUDED = ("cpu-bind", "threads-per-core", "ntasks-per-core", "extra-node-info")


def hint_of(spec: Experiment) -> str | None:
    """The hint for the ranks: srun takes sbatch's."""
    found = spec.srun.get(HINT, spec.sbatch.get(HINT))
    return found if isinstance(found, str) else None


def with_usable_cpus(partition: Partition, hint: str | None) -> Partition:
    """The partition with the CPUs that jobs may use: with `nomultithread`, a thread of each core.

    Slurm then counts cores, if it knows their threads, and refuses a job that asks for all CPUs.
    """
    if hint != "nomultithread":
        return partition
    groups = (
        one._replace(node_type=_one_thread_per_core(one.node_type)) for one in partition.node_groups
    )
    return partition._replace(node_groups=tuple(groups))


def _one_thread_per_core(node_type: NodeType) -> NodeType:
    if not node_type.cpus or not node_type.threads_per_core:
        return node_type
    return node_type._replace(cpus=node_type.cpus // node_type.threads_per_core)


def check_hint(context: Context) -> None:
    """Refuse hints that have no effect, and warn where the nodes have no threads to leave idle."""
    spec, node_type = context.spec, context.placement.node_type
    hint = hint_of(spec)
    if hint is None:
        return
    key = "srun" if HINT in spec.srun else "sbatch"
    if hint not in _VALUES:
        what = f"Slurm knows no hint {hint!r}"
        context.problem((key, HINT), what, did_you_mean(hint, _VALUES))
        return
    if spec.sbatch.get(HINT, hint) != hint:
        what = f"sbatch has another hint: {spec.sbatch[HINT]}"
        context.problem((key, HINT), what, "write one of them, under sbatch")
    for program in ("sbatch", "srun"):
        for name in _EXCLUDED:
            if name in getattr(spec, program):
                if program == "srun" and name == "cpu-bind" and HINT not in spec.srun:
                    continue  # sbatch's hint chooses the job's CPUs, and srun binds as it says
                what = f"Slurm ignores --hint beside --{name}"
                where = context.diagnostics.describe_key((key, HINT))
                context.problem((program, name), what, f"remove one of them: {where}")
    if not context.launcher.calls_srun:
        what = f"has no effect on the ranks: {context.launcher.name} starts its own steps"
        context.problem((key, HINT), what, "remove it", warning=True)
    elif (
        hint == "nomultithread"
        and context.facts.terms.one_thread_per_core
        and not node_type.cpus_are_cores
    ):
        context.problem(
            (key, HINT),
            "on these nodes, Slurm counts each thread as a core: ranks are bound to their CPUs, "
            "but no thread stays idle, and cpus_per_task counts threads",
            context.facts.terms.one_thread_per_core,
            warning=True,
        )
