"""What Megatron-LM's arguments say about memory and speed, beside those of both Megatrons.

Source of the flags: megatron/training/arguments.py.
"""

from __future__ import annotations

from clusterjobs.frameworks.base import Foreseen
from clusterjobs.frameworks.megatron.foreseen import (
    VOCAB_MULTIPLE,
    Flags,
    expert_fields,
    layout_fields,
    shape_fields,
)
from clusterjobs.spec.experiment import Experiment

_FULLY_SHARDED = ("use_custom_fsdp", "use_megatron_fsdp")


def foreseen(experiment: Experiment) -> Foreseen:
    """Transformer Engine is the default, and has flash attention."""
    flags = Flags(experiment)
    model = shape_fields(experiment, "num_query_groups")
    hidden = experiment.model.hidden if experiment.model else None
    model |= expert_fields(flags, 4 * hidden if hidden else None)
    layout = {"engine": "megatron-core", **layout_fields(experiment)}
    is_local = flags.text("transformer_impl") == "local"
    layout["flash"] = not is_local or flags.has("use_flash_attn")
    if flags.text("attention_backend") == "unfused":
        layout["flash"] = False
    if flags.has("use_torch_fsdp2"):
        layout |= {"engine": "fsdp", "zero": 3}
    elif any(flags.has(name) for name in _FULLY_SHARDED):
        stages = {"optim": 1, "optim_grads": 2, "optim_grads_params": 3}
        layout["zero"] = stages.get(flags.text("data_parallel_sharding_strategy"), 0)
    elif flags.has("use_distributed_optimizer"):
        layout["zero"] = 1
    if flags.has("grad_reduce_in_bf16"):
        layout["gradient_bytes"] = 2.0
    if flags.has("fp8_format"):
        layout["precision"] = "fp8"
    if tensor := flags.count("expert_tensor_parallel_size"):
        layout["expert_tensor"] = tensor
    multiple = flags.count("make_vocab_size_divisible_by") or VOCAB_MULTIPLE
    return Foreseen(model, layout, multiple)
