"""Where a job runs: queues, instance types, nodes, GPUs, tasks and CPUs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from plans import config_of, plan_of, problems_of, queue

GPU = queue("gpu", ("a100", "p4d.24xlarge", 4))
CPU = queue("cpu", ("c5", "c5.xlarge", 10))
MIXED = queue("mixed", ("v100", "p3.16xlarge", 4), ("a100", "p4d.24xlarge", 2))


def derived(plan: Any) -> dict[str, Any]:
    return {one.name: one.value for one in plan.derived}


def directives(plan: Any) -> dict[str, Any]:
    return {one.name: one.value for one in plan.job.directives}


def test_the_only_gpu_queue_is_chosen_and_said() -> None:
    plan = plan_of(config_of(CPU, GPU))
    assert plan.placement.partition == "gpu"
    assert derived(plan)["queue"] == "gpu"


def test_the_only_queue_is_chosen_also_without_gpus() -> None:
    assert plan_of(config_of(CPU)).placement.partition == "cpu"


def test_among_several_queues_the_spec_must_choose() -> None:
    (problem,) = problems_of(config_of(GPU, MIXED))
    assert problem.path == "queue"
    assert "gpu, mixed" in problem.hint
    assert plan_of(config_of(GPU, MIXED), queue="gpu").placement.partition == "gpu"


def test_an_unknown_queue_is_answered_with_the_nearest() -> None:
    (problem,) = problems_of(config_of(GPU, CPU), queue="gpus")
    assert problem.hint == "did you mean gpu?"


def test_a_mixed_queue_needs_an_instance_type_and_gets_a_constraint() -> None:
    (problem,) = problems_of(config_of(MIXED))
    assert problem.path == "instance_type"
    plan = plan_of(config_of(MIXED), instance_type="p4d.24xlarge", nodes=2)
    assert directives(plan)["constraint"] == "p4d.24xlarge"
    assert plan.placement.shape.gpus_per_node == 8


def test_nodes_of_a_mixed_queue_are_counted_per_instance_type() -> None:
    (problem,) = problems_of(config_of(MIXED), instance_type="p4d.24xlarge", nodes=3)
    assert problem.path == "nodes"
    assert "MaxCount 2" in problem.what
    assert problem.hint.startswith("nodes: 2 at most")


def test_a_queue_of_one_instance_type_needs_no_constraint() -> None:
    two = queue("q", ("a", "p4d.24xlarge", 1), ("b", "p4d.24xlarge", 2))
    plan = plan_of(config_of(two), nodes=3)
    assert "constraint" not in directives(plan)


def test_own_constraint_of_the_spec_replaces_ours() -> None:
    plan = plan_of(
        config_of(MIXED), instance_type="p4d.24xlarge", sbatch={"constraint": "a100&efa"}
    )
    assert [one.value for one in plan.job.directives if one.name == "constraint"] == ["a100&efa"]


def test_an_unknown_instance_type_asks_only_for_what_is_needed() -> None:
    config = config_of(queue("q", ("x", "p9x.96xlarge", 4)))
    (problem,) = problems_of(config)
    assert problem.path == "gpus_per_node"
    plan = plan_of(config, gpus_per_node=16)
    assert plan.placement.shape.world_size == 16
    assert "cpus-per-task" not in directives(plan)
    assert plan_of(config, gpus_per_node=16, cpus_per_task=6).placement.cpus_per_task == 6


def test_a_placeholder_for_max_count_limits_nothing() -> None:
    unknown = {"Name": "q", "ComputeResources": [
        {"Name": "r", "InstanceType": "p4d.24xlarge", "MaxCount": "<count>"}
    ]}  # fmt: skip
    assert plan_of(config_of(unknown), nodes=500).placement.shape.nodes == 500


@pytest.mark.parametrize(
    ("launcher", "tasks", "cpus", "threads"),
    [("srun", 8, 12, "12"), ("torchrun", 1, 96, "12")],
)
def test_tasks_and_cpus_follow_from_the_launcher(
    launcher: str, tasks: int, cpus: int, threads: str
) -> None:
    plan = plan_of(launcher=launcher, nodes=2)
    found = directives(plan)
    assert (found["ntasks-per-node"], found["cpus-per-task"]) == (tasks, cpus)
    assert {v.name: v.value for v in plan.environment.variables}["OMP_NUM_THREADS"] == threads
    assert {o.name: o.value for o in plan.launch.srun_options}["cpus-per-task"] == cpus


def test_whole_nodes_are_asked_for_unless_the_spec_shares() -> None:
    whole, shared = plan_of(), plan_of(sbatch={"exclusive": False}, gpus_per_node=4)
    assert directives(whole)["exclusive"] is True
    assert directives(whole)["mem"] == 0
    assert not {"exclusive", "mem"} & set(directives(shared))
    assert shared.placement.cpus_per_task == 48  # its GPUs' half of the 96


def test_no_time_limit_is_legal() -> None:
    assert "time" not in directives(plan_of())
    assert directives(plan_of(time_limit="2-00"))["time"] == "2-00"


def test_a_directive_of_the_spec_replaces_a_default_and_false_removes_it() -> None:
    plan = plan_of(sbatch={"output": "/fsx/%j.log", "open-mode": False, "requeue": True})
    found = directives(plan)
    assert found["output"] == "/fsx/%j.log"
    assert "open-mode" not in found
    assert found["requeue"] is True


@pytest.mark.parametrize("name", ["nodes", "ntasks", "gres", "partition", "time", "wrap", "chdir"])
def test_a_directive_that_another_key_decides_is_refused(name: str) -> None:
    (problem,) = problems_of(sbatch={name: "1"})
    assert problem.path == f"sbatch.{name}"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"gpus_per_node": 16}, "gpus_per_node"),
        ({"ranks_per_node": 9}, "ranks_per_node"),
        ({"cpus_per_task": 97}, "cpus_per_task"),
        ({"nodes": 17}, "nodes"),
        ({"launcher": "deepspeed"}, "launcher"),
        ({"launcher": "mpirun"}, "launcher"),
        ({"framework": "horovd"}, "framework"),
        ({"cluster": "p3dn-v100", "precision": "bf16"}, "precision"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_stands(keys: dict[str, Any], path: str) -> None:
    (problem,) = problems_of(**keys)
    assert problem.path == path
    assert problem.hint


CPUS = {"framework": "command", "command": "./run", "script": None}  # a task for each rank


def test_as_many_tasks_as_cpus_get_one_each_and_one_more_is_refused() -> None:
    config = config_of(CPU)  # of 4 CPUs
    plan = plan_of(config, **CPUS, ranks_per_node=4)
    assert plan.placement.cpus_per_task == 1
    (problem,) = problems_of(config, **CPUS, ranks_per_node=5)
    assert (problem.path, problem.what) == ("ranks_per_node", "5 tasks on a node of 4 CPUs")
    assert problem.hint == "ranks_per_node: 4 at most"


def test_cpus_per_task_may_take_the_whole_node_and_no_more() -> None:
    keys = {**CPUS, "ranks_per_node": 2}
    assert plan_of(config_of(CPU), **keys).placement.cpus_per_task == 2
    assert plan_of(config_of(CPU), **keys, cpus_per_task=2).placement.cpus_per_task == 2
    (problem,) = problems_of(config_of(CPU), **keys, cpus_per_task=3)
    assert (problem.path, problem.hint) == ("cpus_per_task", "cpus_per_task: 2 at most")


def test_cpus_that_do_not_divide_are_rounded_down() -> None:
    plan = plan_of(config_of(CPU), **CPUS, ranks_per_node=3)
    assert (plan.placement.cpus_per_task, plan.placement.cpus_per_rank) == (1, 1)
    assert not plan.placement.shares_cpus


def test_tasks_of_a_shared_node_get_their_gpus_share_of_the_cpus() -> None:
    keys = {"launcher": "srun", "sbatch": {"exclusive": False}}
    for gpus, cpus in ((1, 12), (8, 12), (3, 12)):
        assert plan_of(config_of(GPU), **keys, gpus_per_node=gpus).placement.cpus_per_task == cpus


def test_of_several_instance_types_the_smallest_numbers_count() -> None:
    types = [{"InstanceType": name} for name in ("p4d.24xlarge", "p3.16xlarge")]
    either = {
        "Name": "either",
        "ComputeResources": [{"Name": "r", "Instances": types, "MaxCount": 2}],
    }
    plan = plan_of(config_of(either), launcher="srun")
    assert plan.placement.node_type.name == "p4d.24xlarge or p3.16xlarge"
    assert plan.placement.cpus_per_task == 64 // 8
    assert plan.placement.node_type.gpus == 8


# ------------------------------------------------------------------ nodes without NVIDIA's GPUs


@pytest.mark.parametrize("kind", ["t2.micro", "c5a.24xlarge", "m7g.medium", "c6a.large"])
def test_a_type_without_gpus_gets_no_gpu_directive(kind: str) -> None:
    plan = plan_of(config_of(queue("q", ("n", kind, 4))), nodes=2)
    assert "gpus-per-node" not in directives(plan)
    assert plan.placement.shape.world_size == 2


def test_a_type_that_is_not_known_needs_its_gpus_and_may_have_none() -> None:
    config = config_of(queue("q", ("n", "c99.large", 4)))
    (problem,) = problems_of(config)
    assert "does not know c99.large, so its GPUs are unknown" in problem.what
    assert re.search(r"EC2's types of 20\d\d-\d\d-\d\d", problem.what)
    assert "0 if it has none" in problem.hint
    plan = plan_of(config, gpus_per_node=0, nodes=2)
    assert "gpus-per-node" not in directives(plan)
    assert plan.placement.shape.world_size == 2


def test_of_several_types_with_one_that_is_not_known_nothing_is_known() -> None:
    one = {"Name": "n", "Instances": [{"InstanceType": t} for t in ("p4d.24xlarge", "p99.2xlarge")]}
    config = config_of({"Name": "q", "ComputeResources": [one]})
    (problem,) = problems_of(config)
    assert "does not know p4d.24xlarge or p99.2xlarge" in problem.what
    assert plan_of(config, gpus_per_node=8).placement.node_type.cpus is None


def test_no_gpus_on_a_shared_gpu_node_leaves_cpus_to_the_job() -> None:
    plan = plan_of(config_of(GPU), gpus_per_node=0, sbatch={"exclusive": False})
    assert directives(plan)["cpus-per-task"] == 96


def test_the_first_inferentia_has_one_rank_per_node_and_a_warning() -> None:
    config = config_of(queue("q", ("n", "inf1.24xlarge", 4)))
    (warning,) = plan_of(config, nodes=2).warnings
    assert warning.what == "one rank per node, where a inf1.24xlarge has 16 Inferentia"
    assert "`ranks_per_node: 64`" in warning.hint
    assert plan_of(config, nodes=2, ranks_per_node=64).warnings == ()
    assert plan_of(config, nodes=2, ranks_per_node=1).warnings == ()
