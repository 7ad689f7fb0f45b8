"""What Megatron-DeepSpeed's arguments and options say about memory and speed.

Source of the flags: megatron/arguments.py of Megatron-DeepSpeed.
"""

from __future__ import annotations

from clusterjobs.frameworks.base import Foreseen
from clusterjobs.frameworks.ds_foreseen import offload_of
from clusterjobs.frameworks.megatron.foreseen import (
    VOCAB_MULTIPLE,
    Flags,
    expert_fields,
    layout_fields,
    shape_fields,
)
from clusterjobs.frameworks.megatron_deepspeed.options import Options
from clusterjobs.spec.experiment import Experiment

_FLASH = ("use_flash_attn", "use_flash_attn_v1", "use_flash_attn_v2", "use_flash_attn_triton")


def foreseen(experiment: Experiment, options: Options) -> Foreseen:
    """Attention is not fused unless a flag says so."""
    flags = Flags(experiment)
    model = shape_fields(experiment, "num_key_value_heads")
    hidden = experiment.model.hidden if experiment.model else None
    model |= expert_fields(flags, 4 * hidden if hidden else None)
    layout = {
        "engine": "megatron-deepspeed",
        **layout_fields(experiment),
        "zero": options.zero.stage,
        "flash": any(flags.has(name) for name in _FLASH),
        "sequence_parallel": flags.has("sequence_parallel"),
        "offload": offload_of(options.ds_config),
    }
    if options.activation_checkpointing:
        layout["recompute"] = "full"
    multiple = flags.count("make_vocab_size_divisible_by") or VOCAB_MULTIPLE
    return Foreseen(model, layout, multiple)
