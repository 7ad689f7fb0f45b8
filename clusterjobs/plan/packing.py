"""Packing: `sweep: {per_node: 8}` runs several points of a sweep side by side on one node.

It knows what points on one node can share, and which points are in which task. It must not know the
values of the points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.spec.experiment import Experiment

if TYPE_CHECKING:
    from clusterjobs.plan.placement import Placement

_PER_NODE = ("sweep", "per_node")
_PORTS = 20_000  # number of candidates for MASTER_PORT


def points_per_node(experiment: Experiment) -> int:
    """How many points share a node; 1 without packing."""
    return (experiment.sweep and experiment.sweep.per_node) or 1


def port_stride(per_node: int) -> int:
    """Distance between the first candidate ports (MASTER_PORT) of two points on a node."""
    return _PORTS // per_node


def tasks_of_points(count: int, per_node: int) -> list[tuple[int, int]]:
    """The task and the slot of each of `count` points, in their order: (0, 0), (0, 1) ..."""
    return [divmod(number, per_node) for number in range(count)]


def check_packing(
    experiment: Experiment, launcher: Launcher, placement: Placement, diagnostics: Diagnostics
) -> None:
    """Refuse settings that points on one node cannot share."""
    if placement.per_node == 1:
        return
    _check_gpus(experiment, placement, diagnostics)
    if experiment.nodes > 1:
        what = f"{counted(placement.per_node, 'point')} on each node, but a point has "
        what += f"{experiment.nodes} nodes"
        diagnostics.problem(("nodes",), what, "nodes: 1, or remove sweep.per_node")
    if not launcher.shares_nodes:
        known = (
            FRAMEWORKS[experiment.framework].launchers if experiment.framework in FRAMEWORKS else ()
        )
        others = [name for name in known if LAUNCHERS[name].shares_nodes]
        instead = f"launcher: {' or '.join(others)}, or " if others else ""
        diagnostics.problem(
            ("launcher",) if experiment.launcher else _PER_NODE,
            f"{launcher.name} cannot be limited to a point's share of the node",
            f"{instead}remove sweep.per_node",
        )
    if experiment.sweep and not experiment.sweep.array:
        diagnostics.problem(
            _PER_NODE,
            "array: false gives each point a job of its own, and per_node puts several into one",
            "remove one of them",
        )
    if experiment.job_arguments:
        diagnostics.problem(
            ("job_arguments",),
            "with sweep.per_node, the script's own argument says which point it runs",
            "remove it, or sweep.per_node; a parameter is for all points: NAME=value sbatch job.sh",
        )
    _check_sections(experiment, diagnostics)


def _check_gpus(experiment: Experiment, placement: Placement, diagnostics: Diagnostics) -> None:
    node_type, points = placement.node_type, placement.per_node
    has, gpus = node_type.gpus, placement.shape.gpus_per_node
    if not has:
        return
    name = f"a {node_type.name} has ({has})"
    if experiment.gpus_per_node is None and points > has:
        diagnostics.problem(
            _PER_NODE,
            f"{points} points need a GPU each, which is more than {name}",
            f"per_node: {has} at most; gpus_per_node: 0 if the points need no GPU",
        )
    elif gpus <= has < points * gpus:
        most = has // gpus
        fewer = f"gpus_per_node: {has // points}" if points <= has else ""
        diagnostics.problem(
            _PER_NODE,
            f"{points} points x {counted(gpus, 'GPU')} are more than {name}",
            " or ".join(filter(None, [f"per_node: {most} at most", fewer])),
        )


def _check_sections(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """Refuse sections that act on the whole node."""
    container, restarts = experiment.software.container, experiment.restarts
    if container and container.runtime == "docker":
        diagnostics.problem(
            ("software", "container", "runtime"),
            "docker cannot be used with sweep.per_node: "
            "its containers get all GPUs and CPUs of the node",
            "runtime: pyxis or apptainer, or remove sweep.per_node",
        )
    if experiment.preflight:
        diagnostics.problem(
            ("preflight",),
            "the preflight checks whole nodes, but other points may be running on them",
            "preflight: false, or remove sweep.per_node",
        )
    if restarts and restarts.stall_seconds:
        diagnostics.problem(
            ("restarts", "stall_seconds"),
            "stalled ranks cannot be detected when several points share a job",
            "remove it, or sweep.per_node",
        )
