"""The container that the ranks run in: what is mounted, what reaches the ranks, its options.

Sources: pyxis 0.20 (its options, args.c), enroot's hooks and mounts, the user guides of Apptainer
1.3 and Docker 28; OFI aws-ofi-nccl's issues; NCCL its issue 290.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, Variable, folder_on_the_node
from clusterjobs.launchers import Launcher
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.plan.container_checks import SSH_INSIDE, check_container
from clusterjobs.plan.directives import Directive
from clusterjobs.plan.placement import Placement
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Container, Experiment
from clusterjobs.spec.references import expanding, has_variable, show, variable
from clusterjobs.yaml.document import Path

HERE = variable("PWD")  # the script goes to workdir first, and the ranks run where it is


class Mounted(NamedTuple):
    """A folder of the node inside the container. `path` is the key of the spec that asks for it."""

    source: str
    target: str
    read_only: bool
    reason: str
    path: Path = ("software", "container")


class ContainerPlan(NamedTuple):
    """`names`: the variables that the ranks find set, whatever the image says of them.

    `options` are the runtime's own, pyxis' those of srun. `ssh_inside`: one process in the
    first node's container reaches the others by ssh, into containers that wait there.
    """

    runtime: str
    image: str
    mounts: tuple[Mounted, ...]
    options: tuple[Directive, ...]
    names: tuple[str, ...]
    ssh_inside: bool
    venv: str | None
    efa_of_the_host: bool

    @property
    def programs(self) -> tuple[str, ...]:
        """The files of the room `node/` that it needs inside."""
        return ("job_ssh.py", "job_ssh_login.py") if self.ssh_inside else ()


def resolve_container(
    experiment: Experiment,
    placement: Placement,
    cluster: Cluster,
    launcher: Launcher,
    environment: Iterable[Variable],
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> ContainerPlan | None:
    """The container of the spec, or None without one; problems go into `diagnostics`."""
    container = experiment.software.container
    if container is None:
        return None
    automatic = tuple(_automatic(experiment, placement, cluster))
    check_container(experiment, placement, launcher, [one.target for one in automatic], diagnostics)
    own = tuple(_own(container))
    for mount in (*automatic, *own):
        _check_writable(container.runtime, mount, diagnostics)
    for mount in automatic:
        provenance.record(f"mount {show(mount.target)}", show(mount.source), mount.reason)
    return ContainerPlan(
        container.runtime,
        expanding(container.image),
        (*automatic, *own),
        tuple(_options(container, placement, provenance)),
        tuple(_names(experiment, environment)),
        (container.runtime, launcher.name) in SSH_INSIDE,
        experiment.software.venv,
        container.efa == "host" and placement.efa,
    )


# ------------------------------------------------------------------ mounts


def _own(container: Container) -> Iterator[Mounted]:
    for index, one in enumerate(container.mounts):
        source, target = expanding(one.source), expanding(one.target)
        path = ("software", "container", "mounts", index)
        yield Mounted(source, target, one.read_only, "mounts: of the spec", path)


def _automatic(experiment: Experiment, placement: Placement, cluster: Cluster) -> Iterator[Mounted]:
    """What the job needs inside, each folder once and at the place that it has on the node."""
    seen: list[pathlib.PurePosixPath] = []
    for path, folder, reason in _needed(experiment, cluster):
        place = pathlib.PurePosixPath(folder)
        if any(place.is_relative_to(other) for other in seen):
            continue
        seen.append(place)
        yield Mounted(folder, folder, False, reason, path)
    container = experiment.software.container
    if placement.efa and container and container.runtime == "pyxis":
        # enroot shows all of /dev, unless the site restricts it (ENROOT_RESTRICT_DEV).
        yield Mounted("/dev/infiniband", "/dev/infiniband", False, "EFA's devices")
    if placement.efa and container and container.efa == "host":
        yield Mounted("/opt/amazon", "/opt/amazon", True, "EFA's libraries, by efa: host")


def _needed(experiment: Experiment, cluster: Cluster) -> Iterator[tuple[Path, str, str]]:
    key = ("software", "container")
    for mount in cluster.mounts:
        yield key, mount.directory, f"shared storage of {cluster.name}"
    yield ("workdir",), folder_on_the_node(experiment.workdir or "."), "where the program runs"
    logs = folder_on_the_node(experiment.logs.path)
    job_dir = JOB_DIR if has_variable(logs) else logs
    yield ("logs", "path"), job_dir, "the job's own folder: its configs and records"
    if experiment.checkpoints:
        path = ("checkpoints", "path")
        yield path, folder_on_the_node(experiment.checkpoints.path), "checkpoints"
    for index, data in enumerate(experiment.data):
        yield ("data", index, "target"), folder_on_the_node(data.target), "data"


def _check_writable(runtime: str, mount: Mounted, diagnostics: Diagnostics) -> None:
    """What separates mounts, or their parts, cannot be in a path that is mounted."""
    separators = ' :,"\\' if runtime == "pyxis" else ':,"'
    for sign in separators:
        if sign in mount.source or sign in mount.target:
            diagnostics.problem(
                mount.path,
                f"{runtime} cannot mount {show(mount.source)}: {sign!r} separates its mounts",
                "rename the folder",
            )
            return


# ------------------------------------------------------------------ the environment inside


def _names(experiment: Experiment, environment: Iterable[Variable]) -> Iterator[str]:
    yield from ("MASTER_ADDR", "MASTER_PORT")
    yield from (one.name for one in environment)
    yield from experiment.secrets
    if experiment.software.venv:
        yield "VIRTUAL_ENV"


# ------------------------------------------------------------------ options of each runtime


def _pyxis(container: Container) -> Iterator[Directive]:
    yield Directive("container-image", expanding(container.image), "software.container")
    yield Directive("container-mounts", variable("container_mounts"), "")
    yield Directive("container-workdir", HERE, "else the image's own")
    yield Directive("container-env", variable("container_env"), "else the image's values win")
    if container.home:
        yield Directive("container-mount-home", True, "software.container.home")
    else:
        yield Directive(
            "no-container-mount-home", True, "packages in it would mix with the image's"
        )
    if container.writable:
        yield Directive("container-writable", True, "software.container.writable")


def _apptainer(container: Container, placement: Placement) -> Iterator[Directive]:
    if placement.gpus_per_node:
        yield Directive("nv", True, "NVIDIA's devices and the driver's libraries of the node")
    if not container.home:
        yield Directive("no-home", True, "packages in it would mix with the image's")
    if container.writable:
        yield Directive("writable-tmpfs", True, "software.container.writable; in memory, 64 MB")
    yield Directive("no-eval", True, "else a shell evaluates the values of variables")
    yield Directive("pwd", HERE, "where the job runs")


def _docker(
    container: Container, placement: Placement, provenance: Provenance
) -> Iterator[Directive]:
    yield Directive("network", "host", "the nodes' own addresses, and EFA")
    if placement.gpus_per_node:
        yield Directive("gpus", "all", "by NVIDIA's container toolkit")
    if placement.efa:
        yield Directive(
            "device", "/dev/infiniband", "EFA; without it NCCL takes TCP (aws-ofi-nccl issue 1020)"
        )
    yield Directive(
        "shm-size", _shm(container, placement, provenance), "Docker's own 64 MB break NCCL"
    )
    yield Directive("ulimit", "memlock=-1:-1", "EFA and NCCL pin memory")
    yield Directive("workdir", HERE, "where the job runs")


def _shm(container: Container, placement: Placement, provenance: Provenance) -> str:
    if container.shm:
        return container.shm
    instance = placement.instance
    if instance is None:
        return provenance.record("container.shm", "16g", "the instance type is not known")
    half = max(1, instance.memory_mib // 2048)
    reason = "half of the node's memory, as without a container; only what is used is taken"
    return provenance.record("container.shm", f"{half}g", reason, "NCCL 290")


def _options(
    container: Container, placement: Placement, provenance: Provenance
) -> Iterator[Directive]:
    if container.runtime == "pyxis":
        return _pyxis(container)
    if container.runtime == "apptainer":
        return _apptainer(container, placement)
    return _docker(container, placement, provenance)
