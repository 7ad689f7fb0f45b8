"""What a plan takes from a description of a Slurm cluster."""

from __future__ import annotations

import json

import pytest

from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.sites.policy import load_policy
from clusterjobs.sites.policy_check import JobValues, User, check_policies
from clusterjobs.spec.load import LoadedSpec, load_spec

IMAGE = {"image": "/images/a.sif"}


def planned(
    node_type: dict[str, object], top: dict[str, object], **keys: object
) -> tuple[LoadedSpec, Plan]:
    """A spec with these keys, for two nodes of that type, and its plan."""
    kind = {"cpus": 64, "threads_per_core": 2, "gpus": 4, **node_type}
    described = {"kind": "slurm", "node_types": {"n": kind}, **top}
    described.setdefault("partitions", {"batch": {"nodes": {"n": 8}}})
    base = {"name": "a", "cluster": "c.yaml", "nodes": 2, "framework": "torchrun", "script": "t.py"}
    spec = load_spec(json.dumps({**base, **keys}), "a.yaml", option_models())
    return spec, resolve(spec, DescriptionSource(json.dumps(described), "c.yaml").facts)


def plan_of(node_type: dict[str, object], top: dict[str, object], **keys: object) -> Plan:
    """The plan alone."""
    return planned(node_type, top, **keys)[1]


def broken_by(rule: dict[str, object], loaded: LoadedSpec, plan: Plan) -> list[str]:
    """The keys of the spec that break a site's rule; Slurm's default queue is `other`."""
    policy = {"rules": [{"name": "one", "message": "Do it.", **rule}]}
    rules = load_policy(json.dumps(policy), "policy.yaml", option_models())
    job = JobValues(loaded, plan, "c", User("ann"), "other")
    return [one.path for one in check_policies(rules, job)]


def options_of(node_type: dict[str, object], runtime: str, image: str) -> list[tuple[str, object]]:
    container = {"runtime": runtime, "image": image}
    plan = plan_of(node_type, {}, software={"container": container})
    assert plan.container
    return [(one.name, one.value) for one in plan.container.options]


def test_a_container_without_a_runtime_has_that_of_the_cluster() -> None:
    plan = plan_of({}, {"container_program": "apptainer"}, software={"container": IMAGE})
    assert plan.container
    assert plan.container.runtime == "apptainer"
    (why,) = (one for one in plan.derived if one.name == "container runtime")
    assert (why.value, why.reason) == ("apptainer", "that of c")


def test_the_specs_own_runtime_wins() -> None:
    container = {**IMAGE, "runtime": "singularity"}
    plan = plan_of({}, {"container_program": "apptainer"}, software={"container": container})
    assert plan.container
    assert plan.container.runtime == "singularity"


def test_without_any_runtime_the_problem_names_them() -> None:
    with pytest.raises(InputError) as caught:
        plan_of({}, {}, software={"container": IMAGE})
    (problem,) = caught.value.problems
    assert (problem.path, problem.what) == ("software.container.runtime", "runtime is missing")
    assert "pyxis, apptainer, singularity, docker or shifter" in problem.hint


@pytest.mark.parametrize("model", ["MI250X", "AMD Instinct MI300X", "mi210"])
def test_containers_get_the_devices_of_amd_gpus(model: str) -> None:
    options = options_of({"gpu_model": model}, "singularity", "/images/a.sif")
    assert ("rocm", True) in options
    assert ("nv", True) not in options
    options = options_of({"gpu_model": model}, "docker", "rocm/pytorch:6")
    assert [value for name, value in options if name == "device"] == ["/dev/kfd", "/dev/dri"]
    assert "gpus" not in dict(options)


@pytest.mark.parametrize("model", ["A100", "GH200", "RTX MINI"])
def test_containers_get_the_devices_of_nvidia_gpus(model: str) -> None:
    assert ("nv", True) in options_of({"gpu_model": model}, "singularity", "/images/a.sif")
    assert ("gpus", "all") in options_of({"gpu_model": model}, "docker", "a/b:1")


def test_enroots_variables_are_for_nvidia_gpus_alone() -> None:
    container = {"runtime": "pyxis", "image": "a/b:1"}
    for model, expected in {"A100": True, "MI300X": False}.items():
        plan = plan_of({"gpu_model": model}, {}, software={"container": container})
        names = {one.name for one in plan.environment.variables}
        assert ("NVIDIA_VISIBLE_DEVICES" in names) == expected


def test_nvidias_programs_check_no_amd_gpus() -> None:
    for model, expected in {"A100": True, "MI300X": False}.items():
        plan = plan_of({"gpu_model": model}, {}, preflight=True)
        assert plan.preflight
        assert ("gpus=4" in {one.word for one in plan.preflight.checks}) == expected


def test_nomultithread_leaves_a_job_the_cores() -> None:
    for threads, cpus in {2: 8, 1: 16}.items():
        hint = {"hint": "nomultithread"}
        plan = plan_of({"threads_per_core": threads}, {}, launcher="srun", sbatch=hint)
        assert plan.placement.cpus_per_task == cpus
    assert plan_of({}, {}, launcher="srun").placement.cpus_per_task == 16


def test_with_nomultithread_node_types_are_still_told_apart() -> None:
    plan = plan_of({}, {}, launcher="srun", sbatch={"hint": "nomultithread"})
    assert plan.warnings == ()
    assert plan.placement.constraint == ""


def test_rules_of_a_site_know_the_runtime_of_the_cluster() -> None:
    program = {"container_program": "apptainer"}
    job = planned({}, program, software={"container": IMAGE})
    key = "software.container.runtime"
    assert broken_by({"allow": {key: ["pyxis"]}}, *job) == [key]
    assert broken_by({"allow": {key: ["apptainer"]}}, *job) == []


def test_rules_about_queues_know_that_a_job_names_none() -> None:
    rule: dict[str, object] = {"forbid": {"queue": "other"}}
    assert broken_by(rule, *planned({}, {"write_partition": False})) == ["queue"]
    assert broken_by(rule, *planned({}, {"write_partition": False}, queue="batch")) == []
    assert broken_by(rule, *planned({}, {})) == []
