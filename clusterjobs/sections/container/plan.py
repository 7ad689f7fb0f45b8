"""The container that the ranks run in: its mounts, its options, the variables set inside.

Sources: pyxis 0.20 (its options, args.c), enroot's hooks and mounts, the user guides of Apptainer
1.3 and Docker 28; SingularityCE 3.10; Shifter's documentation and shifter.c; issues of
aws-ofi-nccl; NCCL issue 290.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.sections.container.checks import (
    check_container,
    check_venv,
    plan_mounts,
)
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.fabrics import EFA_LIBRARIES, fabric_of
from clusterjobs.sections.plan import Container, Environment, Placement
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.keys.container import Container as WrittenContainer
from clusterjobs.spec.known_references import role_variables
from clusterjobs.text import Value, expanding, joined, variable


def plan(context: Context) -> Container | None:
    """The section `container`; None without one."""
    spec = context.spec
    wanted, venv = spec.software.container, spec.software.venv
    if wanted is None:
        return None
    check_container(context, wanted)
    check_venv(context, venv)
    mounts = plan_mounts(context, wanted)
    return Container(
        wanted.runtime,
        expanding(wanted.image),
        mounts,
        tuple(_options(context, wanted)),
        (*_names(context.environment, venv), *role_variables(spec.roles)),
        wanted.runtime in context.launcher.ssh_inside,
        venv and expanding(venv),
        _fabric_libraries(wanted, context.placement),
    )


def _fabric_libraries(wanted: WrittenContainer, placement: Placement) -> str | None:
    """Folders of the node with NCCL's plugin that the ranks use; None: the image's own."""
    if placement.fabric == "efa":
        return EFA_LIBRARIES if wanted.efa == "host" else None
    return (placement.all_nodes > 1 and fabric_of(placement.fabric).libraries) or None


# ------------------------------------------------------------------ the environment inside


def _names(environment: Environment, venv: Value | None) -> Iterator[str]:
    yield from ("MASTER_ADDR", "MASTER_PORT")
    yield from (one.name for one in environment.variables)
    yield from (one.name for one in environment.secrets)
    if venv:
        yield "VIRTUAL_ENV"


# ------------------------------------------------------------------ options of each runtime


def _folder_of_ranks(container: WrittenContainer) -> Value:
    """By default the script's own folder: it changes to `workdir` first."""
    return expanding(container.workdir) if container.workdir else variable("PWD")


def _pyxis(container: WrittenContainer) -> Iterator[Directive]:
    yield Directive("container-image", expanding(container.image), "software.container")
    yield Directive("container-mounts", variable("container_mounts"), "")
    yield Directive("container-workdir", _folder_of_ranks(container), "else the image's own")
    yield Directive("container-env", variable("container_env"), "else the image's values win")
    if container.home:
        yield Directive("container-mount-home", True, "software.container.home")
    else:
        yield Directive(
            "no-container-mount-home", True, "packages in it would mix with the image's"
        )
    if container.writable:
        yield Directive("container-writable", True, "software.container.writable")


def _apptainer(container: WrittenContainer, placement: Placement) -> Iterator[Directive]:
    if placement.shape.gpus_per_node and placement.node_type.has_amd_gpus:
        yield Directive("rocm", True, "AMD's devices and the driver's libraries of the node")
    elif placement.shape.gpus_per_node:
        yield Directive("nv", True, "NVIDIA's devices and the driver's libraries of the node")
    if not container.home:
        yield Directive("no-home", True, "packages in it would mix with the image's")
    if container.writable:
        yield Directive("writable-tmpfs", True, "software.container.writable; in memory, 64 MB")
    yield Directive("no-eval", True, "else a shell evaluates the values of variables")
    yield Directive("pwd", _folder_of_ranks(container), "where the job runs")


def _shifter(container: WrittenContainer) -> Iterator[Directive]:
    yield Directive("image", joined("docker:", expanding(container.image)), "software.container")
    yield Directive("workdir", _folder_of_ranks(container), "else the image's own")


def _docker(context: Context, container: WrittenContainer) -> Iterator[Directive]:
    placement = context.placement
    yield Directive("network", "host", "the nodes' own addresses and network cards")
    if placement.shape.gpus_per_node and placement.node_type.has_amd_gpus:
        yield Directive("device", "/dev/kfd", "AMD's GPUs: ROCm's driver")
        yield Directive("device", "/dev/dri", "AMD's GPUs")
    elif placement.shape.gpus_per_node:
        yield Directive("gpus", "all", "by NVIDIA's container toolkit")
    fabric = fabric_of(placement.fabric)
    if fabric.verbs:
        reason = f"{fabric.title}; without it NCCL takes TCP (aws-ofi-nccl issue 1020)"
        yield Directive("device", "/dev/infiniband", reason)
    yield Directive("shm-size", _shm(context, container), "Docker's own 64 MB break NCCL")
    yield Directive("ulimit", "memlock=-1:-1", "the network and NCCL pin memory")
    yield Directive("workdir", _folder_of_ranks(container), "where the job runs")


def _shm(context: Context, container: WrittenContainer) -> str:
    if container.shm:
        return container.shm
    memory_mib = context.placement.node_type.memory_mib
    if memory_mib is None:
        return context.record("container.shm", "16g", "the instance type is unknown")
    half = max(1, memory_mib // 2048)
    reason = "half of the node's memory, as without a container; only what is used is taken"
    return context.record("container.shm", f"{half}g", reason, "NCCL issue 290")


def _options(context: Context, container: WrittenContainer) -> Iterator[Directive]:
    if container.runtime == "pyxis":
        return _pyxis(container)
    if container.runtime in ("apptainer", "singularity"):
        return _apptainer(container, context.placement)
    if container.runtime == "shifter":
        return _shifter(container)
    return _docker(context, container)
