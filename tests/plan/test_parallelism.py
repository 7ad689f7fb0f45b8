"""Batches and parallelism: what divides what, for any numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import config_of, plan_of, problems_of, queue

from clusterjobs.errors import Problem

CONFIG = config_of(queue("q", ("r", "p4d.24xlarge", 1000)))
COUNTS = st.integers(1, 64)
BATCHES = st.fixed_dictionaries(
    {}, optional={"micro": COUNTS, "global": st.integers(1, 8192), "accumulation": COUNTS}
)


def errors_of(**keys: Any) -> list[Problem]:
    return [problem for problem in problems_of(CONFIG, **keys) if not problem.warning]


@settings(max_examples=400, deadline=None)
@given(
    batch=BATCHES,
    nodes=st.integers(1, 16),
    tensor=st.sampled_from([1, 2, 3, 4, 8, 16]),
    pipeline=st.sampled_from([1, 2, 5, 8]),
)
def test_micro_x_accumulation_x_data_parallel_is_global_or_there_is_a_problem(
    batch: dict[str, int], nodes: int, tensor: int, pipeline: int
) -> None:
    keys: dict[str, Any] = {
        "framework": "deepspeed",
        "nodes": nodes,
        "batch": batch,
        "parallel": {"tensor": tensor, "pipeline": pipeline},
        "args": {"tensor-parallel": tensor},
    }
    problems = [problem for problem in problems_of(CONFIG, **keys) if not problem.warning]
    if problems:
        assert all(problem.path.startswith(("batch", "parallel")) for problem in problems)
        assert all(problem.where and problem.hint for problem in problems)
        return
    plan = plan_of(CONFIG, **keys)
    assert plan.batch
    micro, accumulation = plan.batch.micro, plan.batch.accumulation
    assert plan.parallelism.data * tensor * pipeline == plan.placement.shape.world_size == nodes * 8
    assert micro * accumulation * plan.parallelism.data == plan.batch.global_
    for key, value in (("micro", micro), ("accumulation", accumulation)):
        assert batch.get(key, value) == value
    assert batch.get("global", plan.batch.global_) == plan.batch.global_
    config = json.loads(plan.files.configs[0].text)
    assert config["train_batch_size"] == plan.batch.global_
    assert config["train_micro_batch_size_per_gpu"] == micro
    assert config["gradient_accumulation_steps"] == accumulation


@settings(max_examples=200, deadline=None)
@given(total=st.integers(1, 5000), micro=COUNTS, nodes=st.integers(1, 9))
def test_the_hint_of_a_batch_that_does_not_divide_is_right(
    total: int, micro: int, nodes: int
) -> None:
    keys: dict[str, Any] = {"framework": "deepspeed", "nodes": nodes}
    problems = errors_of(**keys, batch={"micro": micro, "global": total})
    for problem in problems:
        for better in problem.hint.removeprefix("global: ").split(" or "):
            assert not errors_of(**keys, batch={"micro": micro, "global": int(better)})
    assert bool(problems) is bool(total % (micro * nodes * 8))


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ({"micro": 4}, (4, 1, 64)),
        ({"micro": 4, "accumulation": 3}, (4, 3, 192)),
        ({"global": 64}, (4, 1, 64)),
        ({"global": 128, "accumulation": 2}, (4, 2, 128)),
        ({"micro": 4, "global": 128}, (4, 2, 128)),
        ({"micro": 4, "global": 128, "accumulation": 2}, (4, 2, 128)),
    ],
)
def test_what_the_spec_leaves_out_follows(
    batch: dict[str, int], samples: tuple[int, int, int]
) -> None:
    found = plan_of(CONFIG, nodes=2, batch=batch).batch
    assert found
    assert (found.micro, found.accumulation, found.global_) == samples


def test_wrong_numbers_of_ranks_are_not_held_against_the_batch() -> None:
    problems = problems_of(CONFIG, nodes=2000, gpus_per_node=9, batch={"micro": 7, "global": 1})
    assert {problem.path for problem in problems} == {"gpus_per_node", "nodes"}


MEGATRON: dict[str, Any] = {
    "framework": "megatron-deepspeed",
    "model": {"layers": 24, "hidden": 1536, "heads": 48, "sequence": 1024},
    "batch": {"micro": 1},
    "args": {"train-iters": 10, "lr": "1e-4"},
}


@pytest.mark.parametrize(
    ("nodes", "tensor", "what"),
    [
        (2, 16, "tensor: 16 needs more ranks than one node has (8)"),
        (3, 6, "tensor: 6 does not divide the 8 ranks of a node: groups span nodes"),
        (3, 12, "tensor: 12 needs more ranks than one node has (8)"),
    ],
)
def test_tensor_groups_on_several_nodes_are_a_warning(nodes: int, tensor: int, what: str) -> None:
    found = plan_of(CONFIG, nodes=nodes, parallel={"tensor": tensor}, **MEGATRON).warnings
    assert [one.what for one in found if one.path == "parallel.tensor"] == [what]


@pytest.mark.parametrize(("nodes", "tensor"), [(2, 8), (2, 4), (1, 8), (3, 2)])
def test_tensor_groups_within_nodes_are_not(nodes: int, tensor: int) -> None:
    found = plan_of(CONFIG, nodes=nodes, parallel={"tensor": tensor}, **MEGATRON).warnings
    assert [one.path for one in found if one.path == "parallel.tensor"] == []


def about_parallel(**keys: object) -> list[Problem]:
    """The errors, or else the warnings, about `parallel`."""
    found = problems_of(CONFIG, **keys) or plan_of(CONFIG, **keys).warnings
    return [one for one in found if one.path.startswith("parallel.")]


@pytest.mark.parametrize("framework", ["deepspeed", "torchrun", "command"])
def test_tensor_ranks_that_no_program_is_told_of_are_refused(framework: str) -> None:
    program = {"command": "./train", "script": None} if framework == "command" else {}
    keys = {"framework": framework, "nodes": 2, "batch": {"micro": 2}, **program}
    (problem,) = about_parallel(**keys, parallel={"tensor": 2})
    assert (problem.path, problem.warning) == ("parallel.tensor", framework != "deepspeed")
    assert "{tensor-parallel: " in problem.hint
    for useless in ({"epochs": 2}, {"zero-stage": 2}, {"sequence-parallel": 2}):
        assert about_parallel(**keys, parallel={"tensor": 2}, args=useless)
    assert not about_parallel(**keys, parallel={"tensor": 2}, args={"tp-size": 2})
    assert not about_parallel(**keys, parallel={"tensor": 2}, args=["--tensor-parallel=2"])
    late = {"parameters": {"TP": 2}, "args": {"tp": "{{ parameters.TP }}"}}
    assert not about_parallel(**keys, parallel={"tensor": 2}, **late)
    assert bool(about_parallel(**keys, parallel={"pipeline": 2})) is (framework != "deepspeed")


def test_a_command_that_names_its_tensor_ranks_is_accepted() -> None:
    keys = {"framework": "command", "script": None, "parallel": {"tensor": 4}}
    assert not about_parallel(**keys, command=["./train", "--tp", "4"])
    (problem,) = problems_of(CONFIG, **keys, command=["./train", "--tp", "8"])
    assert problem.path == "command[1]"
    assert problem.what == "tp: 8, but parallel.tensor (exp.yaml:1) is 4"


@pytest.mark.parametrize(
    ("parallel", "args", "contradicted"),
    [
        ({"tensor": 8}, {"tensor-model-parallel-size": 4}, "args.tensor-model-parallel-size"),
        ({"tensor": 8}, ["--tp_size=4"], "args[0]"),
        ({"pipeline": 2}, {"pp": 4}, "args.pp"),
        ({"context": 2}, {"context-parallel-size": 1}, "args.context-parallel-size"),
        ({"tensor": 1}, {"tp": 2}, "args.tp"),
        ({"tensor": 8}, {"tp": 8, "tensorboard-interval": 10}, ""),
        ({"context": 2}, {"context-parallel": 2, "context-size": 4096, "cp": 100}, ""),
        ({"tensor": 2}, {"tp": "{{ parameters.TP }}"}, ""),
    ],
)
def test_an_argument_with_another_size_than_parallel_is_refused(
    parallel: dict[str, int], args: Any, contradicted: str
) -> None:
    found = errors_of(nodes=2, parallel=parallel, args=args, parameters={"TP": 2})
    assert [one.path for one in found] == [contradicted] * bool(contradicted)
    assert all("{{ parallel." in one.hint for one in found)


def test_an_argument_without_parallel_is_compared_where_the_batch_counts_copies() -> None:
    args = {"tensor-model-parallel-size": 4}
    assert not errors_of(args=args)
    (problem,) = errors_of(args=args, batch={"micro": 1})
    assert problem.what == "tensor-model-parallel-size: 4, but parallel.tensor is 1"


@pytest.mark.parametrize(
    ("framework", "key"),
    [
        ("torchrun", "expert"),
        ("deepspeed", "context"),
        ("megatron-deepspeed", "virtual_pipeline"),
        ("gpt-neox", "sequence"),
        ("fairseq", "tensor"),
        ("horovod", "pipeline"),
    ],
)
def test_a_key_of_parallel_that_the_framework_does_not_have_is_refused(
    framework: str, key: str
) -> None:
    files = {"configs": ["a.yml"]} if framework == "gpt-neox" else {}
    found = errors_of(
        framework=framework, parallel={key: True if key == "sequence" else 2}, **files
    )
    (problem,) = [one for one in found if one.path == f"parallel.{key}"]
    assert problem.what == f"{key} is not supported with framework: {framework}"
    assert problem.hint.startswith("remove it, or choose a framework that has it: ")


def test_context_ranks_share_a_copy_of_the_model() -> None:
    keys: dict[str, Any] = {
        "nodes": 2,
        "batch": {"micro": 4},
        "args": {"cp": "{{ parallel.context }}"},
    }
    plan = plan_of(CONFIG, parallel={"context": 4}, **keys)
    assert (plan.parallelism.data, plan.batch and plan.batch.global_) == (4, 16)
    assert plan.launch.words[-2:] == ("--cp", "4")
    (problem,) = errors_of(parallel={"context": 5}, args={"cp-size": 5})
    assert problem.what.startswith("8 ranks cannot be divided by tensor 1 x pipeline 1 x context 5")


@pytest.mark.parametrize(
    ("layers", "pipeline", "args", "what"),
    [
        (70, 4, {}, "70 layers are not a multiple of pipeline 4: 2 stages have 18"),
        (4, 8, {}, "4 stages have 1, the others 0 and wait"),
        (72, 4, {}, ""),
        (70, 4, {"pp-partition-method": "type:transformer|embedding"}, ""),
        (72, 4, {"pp-partition-method": "type:transformer|embedding"}, "72 layers"),
        (70, 4, {"pp-partition-method": "parameters"}, ""),
    ],
)
def test_stages_with_unequal_numbers_of_layers_are_a_warning(
    layers: int, pipeline: int, args: dict[str, str], what: str
) -> None:
    model = {**MEGATRON["model"], "layers": layers}
    keys = {**MEGATRON, "model": model, "args": {**MEGATRON["args"], **args}}
    found = plan_of(CONFIG, nodes=2, parallel={"pipeline": pipeline}, **keys).warnings
    said = [one.what for one in found if one.path == "model.layers"]
    assert len(said) == bool(what)
    assert all(what in one for one in said)
