"""Packing: the share of the node that each point gets, and what points cannot share."""

from __future__ import annotations

import json

import pytest
from plans import BASE, plan_of, problems_of

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.context import PointArray, PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.placement.node_share import tasks_of_points
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points.arrays import point_arrays
from clusterjobs.spec.load import load_points

SWEEP = {"per_node": 8, "grid": {"args.lr": [1, 2, 3]}}
LR = {"args": {"lr": 1}, "launcher": "srun"}


def packed(**keys: object) -> Plan:
    return plan_of(**{"sweep": SWEEP, **LR, **keys})


def directives(plan: Plan) -> dict[str, object]:
    return {one.name: one.value for one in plan.job.directives}


def options(plan: Plan) -> dict[str, object]:
    return {one.name: one.value for one in plan.launch.srun_options}


def test_a_node_is_divided_among_its_points() -> None:
    plan = packed()
    job, point = directives(plan), options(plan)
    assert (job["nodes"], job["ntasks-per-node"], job["gpus-per-node"]) == (1, 8, 8)
    assert job["exclusive"] is True
    assert job["cpus-per-task"] == point["cpus-per-task"] == 12
    assert (point["ntasks"], point["gpus-per-node"], point["exact"]) == (1, 1, True)
    assert plan.placement.shape.gpus_per_node == 1  # all that the node has, divided


def test_each_point_may_have_several_gpus() -> None:
    sweep = {**SWEEP, "per_node": 2}
    plan = packed(sweep=sweep, gpus_per_node=4)
    job, point = directives(plan), options(plan)
    assert (job["ntasks-per-node"], job["gpus-per-node"], job["cpus-per-task"]) == (8, 8, 12)
    assert (point["ntasks"], point["gpus-per-node"], point["cpus-per-task"]) == (4, 4, 12)
    assert plan.warnings == ()


def test_torchrun_gets_the_cpus_of_its_point() -> None:
    point = options(packed(launcher="torchrun", sweep={**SWEEP, "per_node": 4}))
    assert (point["ntasks"], point["gpus-per-node"], point["cpus-per-task"]) == (1, 2, 24)


def test_no_point_reserves_the_memory_of_the_others() -> None:
    assert options(packed())["mem"] == 0


def test_points_without_gpus_divide_the_cpus() -> None:
    plan = packed(gpus_per_node=0, sweep={**SWEEP, "per_node": 24})
    assert "gpus-per-node" not in directives(plan)
    assert "gpus-per-node" not in options(plan)
    assert options(plan)["cpus-per-task"] == 4


def test_a_pack_may_be_a_part_of_a_node() -> None:
    sweep = {**SWEEP, "per_node": 4}
    plan = packed(sweep=sweep, gpus_per_node=1, sbatch={"exclusive": False})
    job = directives(plan)
    assert "exclusive" not in job
    assert "mem" not in job
    assert (job["gpus-per-node"], job["cpus-per-task"]) == (4, 12)


def test_idle_gpus_are_counted_for_all_points() -> None:
    (warning,) = packed(sweep={**SWEEP, "per_node": 3}).warnings
    assert warning.what == "idle GPUs on every node, which you pay for: 2 of 8"


def test_a_single_point_on_a_node_is_a_plain_job() -> None:
    alone = packed(sweep={**SWEEP, "per_node": 1})
    assert "exact" not in options(alone)
    assert alone.job == packed(sweep={"grid": SWEEP["grid"]}).job


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_launchers_that_start_ranks_by_srun_share_a_node(launcher: str) -> None:
    assert problems_of(sweep=SWEEP, args={"lr": 1}, launcher=launcher) == ()


@pytest.mark.parametrize(
    "container",
    [
        {"runtime": "pyxis", "image": "nvcr.io#nvidia/pytorch:24.01-py3"},
        {"runtime": "apptainer", "image": "/fsx/images/pytorch.sif"},
    ],
)
def test_containers_that_srun_starts_share_a_node(container: dict[str, str]) -> None:
    assert problems_of(sweep=SWEEP, **LR, software={"container": container}) == ()


def test_points_are_put_into_tasks_in_their_order() -> None:
    assert tasks_of_points(5, 2) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]


# ------------------------------------------------------------------ which points are in which task


def points_of(grid: dict[str, list[object]], **sweep: object) -> list[PointPlan]:
    data = {**BASE, **LR, "gpus_per_node": 1, "sweep": {"grid": grid, "per_node": 4, **sweep}}
    text = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text(encoding="utf-8")
    facts = cluster_facts(read_cluster(text, "p4d-a100.yaml", {})[0])
    specs = load_points(json.dumps(data), "exp.yaml", option_models())
    return [PointPlan(one.point, resolve(one, facts), "0" * 16) for one in specs if one.point]


def array_option(array: PointArray) -> object:
    return directives(array.plan)["array"]


def test_a_task_of_the_array_has_several_points() -> None:
    (array,) = point_arrays(points_of({"args.lr": [1, 2, 3, 4, 5, 6]}, max_running=2))
    assert array.table.keys == ("0.0", "0.1", "0.2", "0.3", "1.0", "1.1")
    assert array_option(array) == "0-1%2"


def test_chosen_points_are_packed_anew() -> None:
    points = points_of({"args.lr": [1, 2, 3, 4, 5, 6]})
    (array,) = point_arrays([points[1], points[5]])
    assert array.table.keys == ("0.0", "0.1")
    assert array_option(array) == "0"
    assert [one.point.index for one in array.table.points] == [1, 5]


def test_a_pack_of_one_point_is_an_array_too() -> None:
    (array,) = point_arrays(points_of({"args.lr": [1]}))
    assert (array.table.is_array, array.table.keys, array_option(array)) == (True, ("0.0",), "0")


def test_points_of_different_shapes_are_in_different_packs() -> None:
    grid: dict[str, list[object]] = {"gpus_per_node": [1, 2], "args.lr": [1, 2]}
    arrays = point_arrays(points_of(grid))
    assert [one.table.keys for one in arrays] == [("0.0", "0.1")] * 2
    assert [directives(one.plan)["gpus-per-node"] for one in arrays] == [4, 8]


def test_the_largest_array_has_as_many_tasks_as_slurm_takes() -> None:
    points = points_of({"args.lr": list(range(10))})
    arrays = point_arrays(points, max_array_size=2)
    assert [len(one.table.points) for one in arrays] == [8, 2]
    assert [array_option(one) for one in arrays] == ["0-1", "0"]
