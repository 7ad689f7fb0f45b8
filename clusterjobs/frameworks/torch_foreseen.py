"""What programs on plain PyTorch say about memory: FSDP, DeepSpeed or a copy on every rank.

Knows the arguments of Hugging Face's Trainer, of Lightning and of torchtitan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.frameworks.base import Foreseen
from clusterjobs.frameworks.ds_config import Zero
from clusterjobs.frameworks.ds_foreseen import deepspeed_layout
from clusterjobs.frameworks.fsdp import Fsdp
from clusterjobs.frameworks.megatron.foreseen import Flags
from clusterjobs.spec.experiment import Experiment

FUSED_LOGITS = 4.0  # bytes per logit, with Liger's or flash-attention's loss
_RECOMPUTE = ("gradient_checkpointing", "activation_checkpointing")
_OPTIMIZERS = {"adafactor": "adafactor", "sgd": "sgd", "lion": "lion", "muon": "muon"}


def foreseen(
    experiment: Experiment,
    zero: Zero | None = None,
    config: Mapping[str, Any] | None = None,
    fsdp: Fsdp | None = None,
) -> Foreseen:
    """`config`: DeepSpeed's; None if the program does not use it."""
    layout: dict[str, Any] = {"engine": "ddp", **of_arguments(experiment)}
    if config is not None:
        layout |= deepspeed_layout(zero, config)
    elif fsdp is not None:
        layout |= {"engine": "fsdp", "zero": 3, "gradient_sync": "last"}
        if fsdp.activation_checkpointing:
            layout["recompute"] = "full"
        if fsdp.offload:
            layout["offload"] = "parameters"
    return Foreseen(layout=layout)


def of_arguments(experiment: Experiment) -> dict[str, Any]:
    """What common arguments say: recomputation, attention, optimizer, fused loss."""
    flags = Flags(experiment)
    found: dict[str, Any] = {}
    if any(flags.has(name) and flags.text(name).lower() != "false" for name in _RECOMPUTE):
        found["recompute"] = "full"
    if flags.text("attn_implementation") == "eager":
        found["flash"] = False
    if flags.has("use_liger_kernel") and flags.text("use_liger_kernel").lower() != "false":
        found["logit_bytes"] = FUSED_LOGITS
    optimizer = (flags.text("optim") or flags.text("optimizer")).lower()
    if "8bit" in optimizer:
        found["optimizer"] = "adam8bit"
    else:
        known = (name for start, name in _OPTIMIZERS.items() if optimizer.startswith(start))
        found["optimizer"] = next(known, "adam")
    return found


def of_lightning(experiment: Experiment) -> Foreseen:
    """Lightning's strategy, as LightningCLI and most scripts name it."""
    flags = Flags(experiment)
    strategy = (flags.text("trainer.strategy") or flags.text("strategy")).lower()
    layout: dict[str, Any] = {"engine": "ddp", **of_arguments(experiment)}
    if strategy.startswith("deepspeed"):
        stage = strategy.removeprefix("deepspeed_stage_")[:1]
        layout |= {"engine": "deepspeed", "zero": int(stage) if stage in ("1", "2", "3") else 2}
        if strategy.endswith("offload"):
            layout["offload"] = "optimizer"
    elif strategy.startswith("fsdp"):
        layout |= {"engine": "fsdp", "zero": 3}
    return Foreseen(layout=layout)


# ------------------------------------------------------------------ torchtitan

# layers, hidden, heads, kv_heads, ffn, vocab of torchtitan's llama3 (models/llama3/__init__.py)
_LLAMA3 = {
    "8b": (32, 4096, 32, 8, 14_336, 128_256),
    "70b": (80, 8192, 64, 8, 28_672, 128_256),
    "405b": (126, 16_384, 128, 8, 53_248, 128_256),
}
_SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_MODES = {"none": "none", "full": "full", "selective": "selective_ops"}


def of_torchtitan(experiment: Experiment, config: str) -> Foreseen:
    """`config`: the name of torchtitan's config, as llama3_8b."""
    flags = Flags(experiment)
    mode = flags.text("activation_checkpoint.mode") or "selective"
    name = config.rpartition("/")[2].removesuffix(".toml")
    model: dict[str, Any] = {}
    if name.startswith("llama3_"):
        sizes = _LLAMA3.get(name.removeprefix("llama3_"), ())
        model = dict(zip(_SIZES, sizes, strict=False))
    if model:
        model |= {"gated": True, "untied": True, "positions": "rotary", "norm": "rms"}
        model |= {"unbiased": True, "sequence": flags.count("training.seq_len") or 8192}
    layout = {
        "engine": "fsdp",
        "zero": 3,
        "gradient_sync": "each",
        "recompute": _MODES.get(mode, "selective_ops"),
        "sequence_parallel": experiment.parallel.tensor > 1,
        "compiled": flags.has("compile.enable") or flags.has("training.compile"),
        "precision": experiment.precision or "bf16",
    }
    return Foreseen(model, layout)
