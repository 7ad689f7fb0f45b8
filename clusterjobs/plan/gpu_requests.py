"""How a spec requests GPUs from Slurm: `gpus_per_node: a100:4`, or in `sbatch` as
`gpus-per-node: a100:4` or `gres: gpu:a100:4`.

It knows Slurm's forms of a request. It must not know how many GPUs a node has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.gpu_count import gpu_type
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


def gpus_wanted(experiment: Experiment) -> int | None:
    """The GPUs of a node that the spec asks for, by either key; None if by none."""
    if experiment.gpus_per_node is not None:
        return experiment.gpus_per_node
    request = gpu_request(experiment.sbatch)
    return request and request.number


def is_gpu_request(name: str, value: str | int | bool) -> bool:
    """Whether the directive requests GPUs."""
    if name == "gres":
        return gpu_request({name: str(value)}) is not None
    return name == "gpus-per-node"


def check_gpu_requests(
    experiment: Experiment, gpus: int, gres_type: str, per_node: int, diagnostics: Diagnostics
) -> None:
    """`gpus`: of a node, as planned. `gres_type`: the type in Slurm; "" if unknown."""
    own = experiment.sbatch
    requests = list(_requests(own))
    _check_syntax(own, diagnostics)
    for one in requests:
        if one.number != gpus * per_node:
            diagnostics.problem(
                one.path,
                f"requests {one.number} of each node, but the job is planned for {gpus * per_node}",
                "write the same number, or only one of the two keys",
            )
    if len(requests) > 1:
        what = "Slurm refuses several requests for GPUs in one job"
        diagnostics.problem(requests[1].path, what, "write one of them")
    kinds = [(one.path, one.type) for one in requests]
    for path, kind in ((("gpus_per_node",), gpu_type(experiment.gpus_per_node)), *kinds):
        if kind and gres_type and kind != gres_type:
            diagnostics.problem(
                path,
                f"the planned nodes have no GPUs of the type {kind}",
                f"their type in Slurm is {gres_type}: write {gres_type}:{gpus * per_node}",
            )


def _check_syntax(own: _Values, diagnostics: Diagnostics) -> None:
    value = own.get("gpus-per-node")
    if isinstance(value, str) and not _PER_NODE.fullmatch(value):
        what = f"{value} is not a number of GPUs"
        diagnostics.problem(("sbatch", "gpus-per-node"), what, "write 8, or a100:8")
    value = own.get("gres")
    for part in value.split(",") if isinstance(value, str) else ():
        name = part.partition(":")[0]
        if not _NAME.fullmatch(name) or (name == "gpu" and not _GRES.fullmatch(part)):
            what = f"{part} is not a request of a generic resource"
            diagnostics.problem(("sbatch", "gres"), what, "write gpu:8, or gpu:a100:8")


def requests_gpus(directives: Iterable[tuple[str, str | int | bool, str]]) -> bool:
    """Whether one of the directives does."""
    return any(is_gpu_request(name, value) for name, value, _ in directives)
