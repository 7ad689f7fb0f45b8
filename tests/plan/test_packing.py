"""Packing: the share of the node that each point gets, and what points cannot share."""

from __future__ import annotations

import pytest
from plans import plan_of, problems_of

from clusterjobs.plan.packing import tasks_of_points
from clusterjobs.plan.plan import Plan

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


def test_points_are_put_into_tasks_in_their_order() -> None:
    assert tasks_of_points(5, 2) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
