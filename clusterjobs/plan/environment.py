"""The environment of the ranks: few variables, each with its reason, and what must not be set.

Source names: OFI aws-ofi-nccl 1.21; LF libfabric's fi_efa manual; ADT AWS's distributed-training
samples; NCCL and PyTorch their own documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, Variable
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import MAX_WORD_BYTES
from clusterjobs.spec.references import as_text

EFA_LIBRARIES = ":".join(
    (
        "/opt/amazon/efa/lib",
        "/opt/amazon/efa/lib64",
        "/opt/amazon/ofi-nccl/lib",
        "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
        "/opt/aws-ofi-nccl/lib",
    )
)


def resolve_environment(
    experiment: Experiment,
    placement: Placement,
    further: Iterable[Variable],
    diagnostics: Diagnostics,
) -> tuple[Variable, ...]:
    """What the ranks find set: derived, then the spec's own, which has the last word.

    `further`: what other parts of the plan want set, in place of what is usual.
    """
    _check_own(experiment, placement, diagnostics)
    own = experiment.env
    further = tuple(further)
    replaced = {one.name for one in further}
    usual = [one for one in _derived(placement) if one.name not in replaced]
    derived = (*usual, *further)
    if container := experiment.software.container:
        # What is on the node's LD_LIBRARY_PATH is not in the image.
        derived = tuple(one for one in derived if not one.append)
        if container.runtime == "pyxis" and placement.gpus_per_node:
            derived += _NVIDIA
    kept = [one for one in derived if not one.append and one.name not in own]
    said = [Variable(name, value, "env: of the spec", expand=True) for name, value in own.items()]
    return (*kept, *said, *(one for one in derived if one.append))


def _derived(placement: Placement) -> Iterator[Variable]:
    threads, whose = placement.cpus_per_rank or 1, "CPUs of one rank"
    if placement.shares_cpus:
        whose = "more ranks than CPUs"
    yield Variable("OMP_NUM_THREADS", str(threads), f"{whose}; unset, every rank would use all")
    yield Variable("PYTHONUNBUFFERED", "1", "log lines appear when they are written")
    if placement.gpus_per_node:
        yield from _nccl()
    if placement.efa:
        yield from _efa()


_NVIDIA = (
    Variable(
        "NVIDIA_VISIBLE_DEVICES", "all", "enroot shows no GPU to an image without it", "enroot"
    ),
    Variable(
        "NVIDIA_DRIVER_CAPABILITIES", "compute,utility", "the driver's libraries for CUDA", "enroot"
    ),
)


def _nccl() -> Iterator[Variable]:
    yield Variable("NCCL_DEBUG", "WARN", "says why a collective failed", "NCCL")
    yield Variable(
        "NCCL_SOCKET_IFNAME",
        "^lo,docker,veth",
        "NCCL's first contact; a name such as eth0 differs between nodes",
        "ADT",
    )
    yield Variable(
        "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "a hang leaves a record of who waited", "PyTorch"
    )
    record = f"{JOB_DIR}/nccl-trace-rank-"  # the default is in /tmp, and gone with the node
    yield Variable("TORCH_FR_BUFFER_SIZE", "20000", "how many calls that record keeps", "PyTorch")
    yield Variable("TORCH_NCCL_TRACE_BUFFER_SIZE", "20000", "its older name", "PyTorch")
    yield Variable("TORCH_FR_DUMP_TEMP_FILE", record, "where it is kept", "PyTorch")
    yield Variable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", record, "its older name", "PyTorch")


def _efa() -> Iterator[Variable]:
    yield Variable("FI_PROVIDER", "efa", "plugins before 1.6 do not choose it themselves", "OFI")
    yield Variable(
        "FI_EFA_USE_HUGE_PAGE", "0", "with huge pages a fork fails for want of memory", "OFI 69, LF"
    )
    yield Variable(
        "LD_LIBRARY_PATH",
        EFA_LIBRARIES,
        "libfabric and its NCCL plugin, wherever the AMI has them",
        "ADT",
        append=True,
    )


# What circulates from blog to blog: (why not, what to do instead). True: an error, not a warning.
_MUST_NOT = {
    "RDMAV_FORK_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "RDMAV_HUGEPAGES_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "NCCL_BUFFERSIZE": ("is no variable of NCCL", "did you mean NCCL_BUFFSIZE?", True),
    "NCCL_PROTO": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)", False),
    "NCCL_ALGO": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)", False),
    "NCCL_IB_DISABLE": ("has no effect with EFA", "remove it", False),
    "NCCL_TREE_THRESHOLD": ("has no effect in NCCL 2.5 and later", "remove it", False),
    "FI_EFA_TX_MIN_CREDITS": ("is an old workaround", "remove it", False),
    "NCCL_ASYNC_ERROR_HANDLING": ("is the old name", "it is on by default in torch 2.2", False),
}


_TCP_INSTEAD = {"FI_PROVIDER": "tcp", "NCCL_NET": "socket"}
_INTERFACE = re.compile(r"=?(?:eth|ens|enp)\w+")


def _check_own(experiment: Experiment, placement: Placement, diagnostics: Diagnostics) -> None:
    for name, value in experiment.env.items():
        path = ("env", name)
        if len(f"{name}={value}".encode()) > MAX_WORD_BYTES:
            limit = f"{MAX_WORD_BYTES:,} bytes, the name among them"
            diagnostics.problem(
                path, f"longer than Linux allows for a variable ({limit})", "shorten it"
            )
        if name in _MUST_NOT:
            why, instead, is_error = _MUST_NOT[name]
            diagnostics.problem(path, f"{name} {why}", instead, warning=not is_error)
        elif name == "FI_EFA_USE_HUGE_PAGE" and as_text(value) != "0":
            diagnostics.problem(path, "huge pages make a fork fail for want of memory", "remove it")
        elif placement.efa and _TCP_INSTEAD.get(name) == as_text(value).lower():
            diagnostics.problem(path, f"{value}: EFA is not used", "remove it", warning=True)
        elif name == "NCCL_SOCKET_IFNAME" and _INTERFACE.fullmatch(as_text(value)):
            diagnostics.problem(
                path,
                f"{value} is not the name on every instance type and image",
                "remove it: ^lo,docker,veth is set",
                warning=True,
            )
        elif name == "FI_EFA_USE_DEVICE_RDMA" and as_text(value) != "0":
            _check_device_rdma(path, placement, diagnostics)


def _check_device_rdma(
    path: tuple[str, str], placement: Placement, diagnostics: Diagnostics
) -> None:
    instance = placement.instance
    if instance is not None and not instance.gpudirect_rdma:
        diagnostics.problem(
            path,
            f"{instance.name} has no RDMA: libfabric 1.18 and later aborts",
            "remove it (libfabric's fi_efa manual)",
        )
    else:
        diagnostics.problem(
            path,
            "needless since libfabric 1.18",
            "remove it (libfabric's fi_efa manual)",
            warning=True,
        )
