"""Jobs on Trainium: ranks from its NeuronCores, Neuron's variables and none of NVIDIA's."""

from __future__ import annotations

from typing import Any

import pytest
from plans import config_of, plan_of, problems_of, queue

from clusterjobs.text import show


def neuron(kind: str = "trn1.32xlarge", efa: bool = True, **more: Any) -> str:
    one = queue("q", ("n", kind, 4), **more)
    one["ComputeResources"][0]["Efa"] = {"Enabled": efa}  # type: ignore[index]
    return config_of(one)


def variables(plan: Any) -> dict[str, str]:
    return {one.name: one.value for one in plan.environment.variables}


@pytest.mark.parametrize(
    ("kind", "ranks", "reason"),
    [
        ("trn1.2xlarge", 2, "one rank per NeuronCore of 1 Trainium"),
        ("trn1.32xlarge", 32, "one rank per NeuronCore of 16 Trainium"),
        ("trn1n.32xlarge", 32, "one rank per NeuronCore of 16 Trainium"),
        ("inf2.48xlarge", 24, "one rank per NeuronCore of 12 Inferentia2"),
        ("trn2.3xlarge", 4, "Neuron makes 4 logical cores of 8: one rank for each"),
        ("trn2.48xlarge", 64, "Neuron makes 64 logical cores of 128: one rank for each"),
    ],
)
def test_there_is_a_rank_for_each_logical_core(kind: str, ranks: int, reason: str) -> None:
    plan = plan_of(config_of(queue("q", ("n", kind, 4))))
    assert plan.placement.shape.ranks_per_node == ranks
    assert plan.placement.shape.gpus_per_node == 0
    (derived,) = [one for one in plan.derived if one.name == "ranks_per_node"]
    assert derived.reason == reason
    assert plan.warnings == ()
    assert plan_of(config_of(queue("q", ("n", kind, 4))), ranks_per_node=1).warnings == ()


def test_the_job_asks_for_no_gpus_and_sets_what_neuron_reads() -> None:
    plan = plan_of(neuron(), nodes=2)
    assert not {one.name for one in plan.job.directives} & {"gpus-per-node", "gres"}
    found = variables(plan)
    wanted = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "FI_EFA_FORK_SAFE": "1"}
    assert {name: found.get(name) for name in wanted} == wanted
    assert "nccl" not in found["LD_LIBRARY_PATH"]
    assert not [name for name in found if "NCCL" in name or "CUDA" in name]
    sources = [one.source for one in plan.environment.variables if one.name in wanted]
    assert all("AWS Neuron" in source for source in sources)


def test_preflight_checks_efa_and_no_gpus() -> None:
    plan = plan_of(neuron(), nodes=2, preflight=True)
    assert plan.preflight is not None
    words = [show(one.word).partition("=")[0] for one in plan.preflight.checks]
    assert "efa" in words
    assert not set(words) & {"gpus", "processes", "imports", "build"}
    assert not plan.preflight.reads_nccl


def test_the_variables_of_aws_examples_are_accepted() -> None:
    env = {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": 1, "FI_EFA_FORK_SAFE": 1}
    assert plan_of(neuron(), nodes=2, env=env).warnings == ()


@pytest.mark.parametrize(
    ("kind", "wanted", "known"),
    [
        ("trn1.32xlarge", 2, "Trainium, only 1"),
        ("trn2.48xlarge", 4, "Trainium2, only 1 and 2"),
    ],
)
def test_logical_cores_that_neuron_lacks_are_refused(kind: str, wanted: int, known: str) -> None:
    env = {"NEURON_LOGICAL_NC_CONFIG": wanted}
    (problem,) = problems_of(neuron(kind), env=env)
    assert problem.what == f"{wanted} cores in a logical core are not supported on {known}"


def test_ranks_follow_the_default_of_logical_cores_and_another_one_is_warned_of() -> None:
    env = {"NEURON_LOGICAL_NC_CONFIG": 1}
    (warning,) = plan_of(neuron("trn2.48xlarge"), env=env).warnings
    assert warning.hint == "add `ranks_per_node: 128`, or remove it"
    assert plan_of(neuron("trn2.48xlarge"), env=env, ranks_per_node=128).warnings == ()
    assert plan_of(neuron("trn2.48xlarge"), env={"NEURON_LOGICAL_NC_CONFIG": 2}).warnings == ()


def test_nodes_without_efa_are_warned_of() -> None:
    (warning,) = plan_of(neuron(efa=False), nodes=2).warnings
    assert warning.what == "Neuron's collectives need EFA between nodes: queue q has none"
    (warning,) = plan_of(neuron("trn1.2xlarge", efa=False), nodes=2).warnings
    assert warning.hint == "nodes: 1, or a larger type: a trn1.2xlarge has no EFA"
    assert plan_of(neuron(efa=False)).warnings == ()


def test_any_command_may_use_neuron_by_any_launcher() -> None:
    keys = {"framework": "command", "script": None, "command": ["./serve"]}
    for launcher in ("srun", "torchrun", "mpirun"):
        assert plan_of(neuron(), launcher=launcher, **keys).warnings == ()
