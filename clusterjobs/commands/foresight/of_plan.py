"""From a plan to the records of foresight: the model's shape and the layout of its ranks."""

from __future__ import annotations

from typing import Any

from clusterjobs.foresight.records import Engine, Layout, ModelShape, Recompute
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.plan.plan import Plan
from clusterjobs.spec.load import Spec

_ENGINES: dict[str, Engine] = {
    "megatron-lm": "megatron-core",
    "megatron-deepspeed": "megatron-deepspeed",
    "gpt-neox": "megatron-deepspeed",
    "deepspeed": "deepspeed",
    "huggingface": "deepspeed",
    "accelerate": "fsdp",
    "lightning": "fsdp",
    "composer": "fsdp",
    "torchtitan": "fsdp",
    "torchrun": "ddp",
    "horovod": "horovod",
    "fairseq": "fairseq",
    "jax": "jax",
}


def model_and_layout(plan: Plan, spec: Spec) -> tuple[ModelShape, Layout] | str:
    """Both, or why they are unknown."""
    experiment = spec.experiment
    model = experiment.model
    if model is None:
        return "the shape of the model is unknown"
    if plan.batch is None:
        return "the batch size is unknown"
    if experiment.framework not in _ENGINES:
        return f"nothing is known of framework: {experiment.framework}"
    sizes = plan.parallelism
    options: Any = spec.options
    zero = getattr(getattr(options, "zero", None), "stage", 0) or 0
    given = {one.key: one.values for one in given_arguments(experiment)}
    zero = max(zero, "use_distributed_optimizer" in given)
    recompute: Recompute = "none"
    if getattr(options, "activation_checkpointing", False) or "full" in given.get(
        "recompute_granularity", ()
    ):
        recompute = "full"
    elif "selective" in given.get("recompute_granularity", ()):
        recompute = "selective"
    shape = ModelShape(
        model.layers,
        model.hidden,
        model.heads,
        model.heads,
        model.hidden // model.heads,
        4 * model.hidden,
        model.sequence,
        -(-(model.vocab or 50257) // (128 * sizes.tensor)) * 128 * sizes.tensor,
    )
    layout = Layout(
        plan.placement.shape.world_size,
        plan.placement.shape.ranks_per_node,
        plan.batch.micro,
        plan.batch.global_,
        _ENGINES[experiment.framework],
        sizes.tensor,
        sizes.pipeline,
        sizes.virtual_pipeline,
        sizes.context,
        sizes.expert,
        zero=zero,
        recompute=recompute,
        precision=experiment.precision or "bf16",
        sequence_parallel=sizes.sequence,
    )
    return shape, layout
