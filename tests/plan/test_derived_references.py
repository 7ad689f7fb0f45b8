"""`{{ world_size }}` and others: values that the plan derives, in the values that use them."""

from __future__ import annotations

import json

import pytest
from plans import BASE, plan_of, problems_of

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.spec.load import load_points

CONFIG = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text(encoding="utf-8")
FACTS = cluster_facts(read_cluster(CONFIG, "p4d-a100.yaml", {})[0])

ALL = (
    *("nodes", "gpus_per_node", "ranks_per_node", "cpus_per_task", "world_size"),
    *("parallel.tensor", "parallel.pipeline", "data_parallel"),
    *("batch.micro", "batch.accumulation", "batch.global"),
)


def test_every_derived_value_has_its_reference() -> None:
    args = {name: f"{{{{ {name} }}}}" for name in ALL}
    plan = plan_of(nodes=3, batch={"micro": 2, "accumulation": 5}, args=args)
    words = plan.launch.words
    cpus = plan.placement.cpus_per_task
    expected = (3, 8, 8, cpus, 24, 1, 1, 24, 2, 5, 240)
    assert words[1:] == tuple(
        word
        for name, value in zip(ALL, expected, strict=True)
        for word in (f"--{name}", str(value))
    )


def test_a_value_that_the_spec_gives_is_taken_as_it_is_written() -> None:
    plan = plan_of(
        nodes=2, batch={"micro": 4, "global": 128}, args=["{{ batch.global }}/{{ nodes }}"]
    )
    assert plan.launch.words[-1] == "128/2"


def test_they_can_be_used_in_every_command_in_env_and_in_checkpoints() -> None:
    plan = plan_of(
        nodes=2,
        env={"WORLD": "of {{ world_size }}", "SAME": "{{ env.WORLD }}!"},
        before=["./prepare {{ world_size }}"],
        after=[{"command": ["./evaluate", "{{ world_size }}"], "per": "node"}],
        sidecars=["./watch {{ world_size }}"],
        prefix="nsys --ranks={{ world_size }}",
        checkpoints={"path": "/fsx/runs/{{ world_size }}"},
    )
    variables = {one.name: one.value for one in plan.environment.variables}
    assert (variables["WORLD"], variables["SAME"]) == ("of 16", "of 16!")
    steps = (*plan.steps.before, *plan.steps.after, *plan.steps.sidecars)
    assert [one.words[-1] for one in steps] == ["16", "16", "16"]
    assert plan.launch.prefix == ("nsys", "--ranks=16")
    assert plan.checkpoints.path == "/fsx/runs/16"


def test_each_point_of_a_sweep_has_its_own() -> None:
    args = {"steps": "{{ batch.accumulation }}", "of": "{{ world_size }}"}
    keys = {**BASE, "args": args, "batch": {"global": 256}}
    keys["sweep"] = {"grid": {"batch.micro": [2, 4], "nodes": [1, 2]}}
    specs = load_points(json.dumps(keys), "exp.yaml", option_models())
    words = [resolve(one, FACTS).launch.words[1:] for one in specs]
    assert [(steps, of) for _, steps, _, of in words] == [
        ("16", "8"),
        ("8", "16"),
        ("8", "8"),
        ("4", "16"),
    ]


def test_a_value_that_the_plan_does_not_have_is_a_problem_where_it_is_used() -> None:
    (problem,) = problems_of(args={"n": "{{ batch.global }}"})
    assert (problem.path, problem.what) == ("args.n", "batch.global is not known")


def test_a_wrong_shape_is_reported_once() -> None:
    found = problems_of(
        nodes=2, parallel={"tensor": 3}, batch={"micro": 1}, args=["{{ batch.global }}"]
    )
    assert {one.path for one in found if not one.warning} == {"parallel"}


@pytest.mark.parametrize(
    ("keys", "path", "what"),
    [
        (
            {"nodes": "{{ world_size }}"},
            "nodes",
            "circular reference: nodes -> world_size -> nodes",
        ),
        (
            {
                "nodes": "{{ env.N }}",
                "env": {"N": "{{ job.id }}{{ env.M }}", "M": "{{ world_size }}"},
            },
            "nodes",
            "circular reference: nodes -> env.N -> env.M -> world_size -> nodes",
        ),
        (
            {"batch": {"micro": "{{ batch.global }}"}},
            "batch.micro",
            "circular reference: batch -> batch.global -> batch",
        ),
        (
            {"cluster": "{{ data_parallel }}"},
            "cluster",
            "circular reference: cluster -> data_parallel -> cluster",
        ),
        (
            {"name": "a-{{ world_size }}"},
            "name",
            "world_size cannot be used here: it is computed after this key is read",
        ),
        (
            {"sbatch": {"comment": "{{ world_size }}"}},
            "sbatch.comment",
            "world_size cannot be used here: it is computed after this key is read",
        ),
    ],
)
def test_a_key_that_is_read_before_cannot_refer_to_them(
    keys: dict[str, object], path: str, what: str
) -> None:
    assert (path, what) in [(one.path, one.what) for one in problems_of(**keys)]
