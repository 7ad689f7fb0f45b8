"""SageMaker HyperPod restarts the ranks; the job does not do so a second time."""

from __future__ import annotations

import json

import pytest

from clusterjobs.clusters.described.read import read_description
from clusterjobs.clusters.described.source import cluster_facts
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec

CLUSTER = {
    "kind": "slurm",
    "node_types": {"p5": {"cpus": 192, "gpus": 8, "gpu_type": "h100", "fabric": "efa"}},
    "partitions": {"dev": {"nodes": {"p5": 4}}},
    "shared": {"/fsx": "lustre"},
    "slurm_commands": "/opt/slurm/bin",
    "auto_resume": True,
}
JOB = {
    "name": "a",
    "cluster": "c",
    "framework": "torchrun",
    "script": "t.py",
    "nodes": 2,
    "time_limit": "1-0",
    "checkpoints": {"path": "/fsx/saved"},
    "restarts": {"time_limit": 5},
}


def plan_of(auto_resume: bool = True, **keys: object) -> Plan:
    cluster = json.dumps({**CLUSTER, "auto_resume": auto_resume})
    job = {key: value for key, value in {**JOB, **keys}.items() if value is not None}
    spec = load_spec(json.dumps(job), "exp.yaml", option_models())
    return resolve(spec, cluster_facts(read_description(cluster, "c.yaml")[0], "c.yaml"))


def resumed(plan: Plan) -> list[object]:
    return [one.value for one in plan.launch.srun_options if one.name == "auto-resume"]


def test_hyperpod_restarts_the_ranks_and_the_job_only_at_its_time_limit() -> None:
    plan = plan_of()
    assert resumed(plan) == [1]
    assert plan.restarts is not None
    assert (plan.restarts.time_limit, plan.restarts.failure, plan.restarts.stalled) == (5, 0, 0)
    assert plan.restarts.node_failure == 3  # HyperPod's requeues are counted as such
    assert "requeue" in [one.name for one in plan.job.directives]  # it requeues jobs with GRES
    assert not plan.warnings


def test_a_budget_for_failures_that_the_spec_gives_is_a_warning() -> None:
    plan = plan_of(restarts={"failure": 2, "stall_seconds": 1800})
    assert [one.path for one in plan.warnings] == ["restarts.failure", "restarts.stall_seconds"]
    assert plan.warnings[0].what == (
        "not used: HyperPod restarts the ranks after a failure (srun --auto-resume=1), and the job "
        "would restart twice"
    )
    assert plan.restarts is not None
    assert plan.restarts.failure == 0


@pytest.mark.parametrize(
    "keys", [{"restarts": None, "time_limit": None}, {"srun": {"auto-resume": False}}]
)
def test_without_restarts_or_if_refused_it_is_not_asked_for(keys: dict[str, object]) -> None:
    plan = plan_of(**keys)
    assert resumed(plan) == []
    assert plan.restarts is None or plan.restarts.stalled == 3
    assert not plan.warnings


def test_other_clusters_restart_the_job_as_before() -> None:
    plan = plan_of(auto_resume=False, restarts={"failure": 2})
    assert resumed(plan) == []
    assert plan.restarts is not None
    assert plan.restarts.failure == 2


def test_an_option_that_the_spec_gives_is_written_once() -> None:
    assert resumed(plan_of(auto_resume=False, srun={"auto-resume": 1})) == ["1"]
