"""What fairseq's architecture and arguments say about memory and speed.

Source: fairseq 0.12, models/roberta/model.py and models/transformer_lm.py (the architectures).
"""

from __future__ import annotations

from typing import Any

from clusterjobs.frameworks.base import Foreseen
from clusterjobs.frameworks.fairseq.settings import Settings, half_of
from clusterjobs.frameworks.megatron.foreseen import Flags
from clusterjobs.spec.experiment import Experiment

# layers, hidden, heads, ffn
_ARCHITECTURES = {
    "roberta": (12, 768, 12, 3072),
    "roberta_base": (12, 768, 12, 3072),
    "roberta_large": (24, 1024, 16, 4096),
    "transformer_lm_big": (12, 1024, 16, 4096),
    "transformer_lm_gpt": (12, 768, 12, 3072),
    "transformer_lm_gpt2_small": (24, 1024, 16, 4096),
    "transformer_lm_gpt2_medium": (36, 1280, 20, 5120),
    "transformer_lm_gpt2_big": (48, 1600, 25, 6400),
    "transformer_lm_gpt3_small": (12, 768, 12, 3072),
    "transformer_lm_gpt3_medium": (24, 1024, 16, 4096),
    "transformer_lm_gpt3_large": (24, 1536, 16, 6144),
    "transformer_lm_gpt3_xl": (24, 2048, 32, 8192),
    "transformer_lm_gpt3_2_7": (32, 2560, 32, 10240),
    "transformer_lm_gpt3_6_7": (32, 4096, 32, 16384),
    "transformer_lm_gpt3_13": (40, 5120, 40, 20480),
    "transformer_lm_gpt3_175": (96, 12288, 96, 49152),
}
_NAMES = {
    "layers": "layers",
    "embed_dim": "hidden",
    "attention_heads": "heads",
    "ffn_embed_dim": "ffn",
}
_VOCABULARY = 50_265  # of GPT-2's byte pairs as fairseq counts them
_MASKED = 0.15  # --mask-prob
_SEQUENCE = {"encoder": 512, "decoder": 2048}


def foreseen(experiment: Experiment, fairseq: Settings) -> Foreseen:
    """The sizes of the architecture, replaced by the arguments."""
    flags, half = Flags(experiment), half_of(fairseq.arch or "")
    is_gpt3 = (fairseq.arch or "").startswith("transformer_lm_gpt3")
    dropout = 0.0 if is_gpt3 else 0.1
    model: dict[str, Any] = {}
    if fairseq.arch in _ARCHITECTURES:
        model = dict(zip(_NAMES.values(), _ARCHITECTURES[fairseq.arch], strict=True))
    for name, field in _NAMES.items():
        if found := flags.count(f"{half}_{name}"):
            model[field] = found
    if half:
        sequence = flags.count("tokens_per_sample") or _SEQUENCE[half]
        model |= {"sequence": sequence, "vocab": _VOCABULARY, "encoder": half == "encoder"}
        model["position_rows"] = sequence + 2
        if half == "encoder":  # its head sees the masked tokens alone
            model["predicted_share"] = _MASKED
        elif not is_gpt3 and not flags.has("share_decoder_input_output_embed"):
            model["untied"] = True
        if half == "decoder" and not is_gpt3:  # sinusoidal, which are no parameters
            model["positions"] = "none"
    sharded = flags.text("ddp_backend") == "fully_sharded"
    layout = {
        "engine": "fairscale" if sharded else "fairseq",
        "zero": 3 if sharded else 0,
        "recompute": "full" if flags.has("checkpoint_activations") else "none",
        "flash": False,
        "precision": experiment.precision or "fp32",
        "attention_dropout": flags.number("attention_dropout", dropout) > 0,
        "hidden_dropout": flags.number("dropout", dropout) > 0,
    }
    return Foreseen({name: value for name, value in model.items() if value}, layout)
