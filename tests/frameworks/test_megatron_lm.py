"""Megatron-LM: what the ranks get beside the command line, and what depends on the GPUs."""

from __future__ import annotations

from typing import Any

import pytest
from plans import config_of, plan_of, problems_of, queue

SMALL: dict[str, Any] = {
    "framework": "megatron-lm",
    "model": {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 1024},
    "batch": {"micro": 2, "accumulation": 8},
    "precision": "bf16",
}
ARGS = {"train-iters": 1000, "lr": "1e-4"}
NAME = "CUDA_DEVICE_MAX_CONNECTIONS"
TENSOR = {"tensor": 2, "sequence": True}


def connections(
    instance_type: str = "p5.48xlarge", args: dict[str, Any] | None = None, **keys: Any
) -> str | None:
    """CUDA_DEVICE_MAX_CONNECTIONS of the ranks."""
    cluster = config_of(queue("q", ("r", instance_type, 4)))
    plan = plan_of(cluster, **{**SMALL, "args": {**ARGS, **(args or {})}, **keys})
    return {one.name: one.value for one in plan.environment.variables}.get(NAME)


@pytest.mark.parametrize("parallel", [{"tensor": 2}, TENSOR, {"context": 2}])
def test_tensor_and_context_ranks_get_one_connection(parallel: dict[str, Any]) -> None:
    assert connections(parallel=parallel) == "1"
    assert connections("p4d.24xlarge", parallel=parallel) == "1"


@pytest.mark.parametrize("parallel", [{}, {"pipeline": 2}, {"pipeline": 2, "virtual_pipeline": 2}])
def test_other_ranks_do_not(parallel: dict[str, Any]) -> None:
    assert connections(parallel=parallel) is None


@pytest.mark.parametrize(
    "instance_type", ["p6-b200.48xlarge", "p6-b300.48xlarge", "p6e-gb200.36xlarge"]
)
def test_blackwell_needs_no_single_connection(instance_type: str) -> None:
    assert connections(instance_type, parallel=TENSOR) is None
    assert connections(instance_type, parallel=TENSOR, env={NAME: "32"}) == "32"


@pytest.mark.parametrize(
    "args",
    [
        {"use-megatron-fsdp": True, "ckpt-format": "fsdp_dtensor"},
        {"overlap-moe-expert-parallel-comm": True},
    ],
)
def test_what_works_with_more_connections_gets_no_single_one(args: dict[str, Any]) -> None:
    assert connections(args=args, parallel=TENSOR) is None
    assert connections(args=args, parallel=TENSOR, env={NAME: "8"}) == "8"


def test_the_sequence_flag_is_given_to_tensor_ranks_alone() -> None:
    cluster = config_of(queue("q", ("r", "p5.48xlarge", 4)))
    for tensor in (1, 2):
        parallel = {"tensor": tensor, "sequence": True}
        words = plan_of(cluster, **SMALL, args=ARGS, parallel=parallel).launch.words
        assert ("--sequence-parallel" in words) is (tensor > 1)


def test_a_schedule_of_batches_stands_in_place_of_the_global_batch() -> None:
    """Megatron-LM takes only one of the two (megatron/training/arguments.py)."""
    cluster = config_of(queue("q", ("r", "p5.48xlarge", 4)))
    for schedule in ({}, {"step-batch-size-schedule": "0:768 250B:1536"}):
        words = plan_of(cluster, **SMALL, args={**ARGS, **schedule}).launch.words
        assert ("--global-batch-size" in words) is not bool(schedule)
        assert "--micro-batch-size" in words


def test_a_size_in_args_alone_is_refused_with_its_place_in_the_spec() -> None:
    args = {**ARGS, "context-parallel-size": 2, "sequence-parallel": True, "lr": "1e-4"}
    found = {one.path: one.hint for one in problems_of(**SMALL, args=args, parallel={"tensor": 2})}
    assert found == {
        "args.context-parallel-size": "remove it, and write parallel: {context: 2}",
        "args.sequence-parallel": "remove it, and write parallel: {sequence: true}",
    }


def test_a_model_may_come_from_a_checkpoint() -> None:
    keys = {**SMALL, "model": None, "args": {**ARGS, "use-checkpoint-args": True}}
    assert "--num-layers" not in plan_of(**keys).launch.words
    assert [one.path for one in problems_of(**{**keys, "args": ARGS})] == ["model"]


@pytest.mark.parametrize(
    ("args", "padded"),
    [
        ({}, 50432),  # 50257 up to a multiple of 128 x tensor 2
        ({"make-vocab-size-divisible-by": 512}, 51200),
        ({"make-vocab-size-divisible-by": 1}, 50258),
        ({"no-pad-vocab-size": True}, None),
        ({"padded-vocab-size": 50304}, None),
    ],
)
@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-deepspeed"])
def test_the_plan_shows_the_vocabulary_as_it_is_padded(
    framework: str, args: dict[str, Any], padded: int | None
) -> None:
    if framework == "megatron-deepspeed" and padded is None:
        pytest.skip("Megatron-DeepSpeed has no such flag")
    model = {**SMALL["model"], "vocab": 50257}
    keys = {**SMALL, "framework": framework, "model": model, "args": {**ARGS, **args}}
    keys["parallel"] = {"tensor": 2}
    derived = {one.name: one.value for one in plan_of(**keys).derived}
    assert derived.get("model.vocab_padded") == padded
