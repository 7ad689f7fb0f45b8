"""What GPT-NeoX's config says about a model's shape, its memory and its speed.

Source of the keys and defaults: GPT-NeoX 2.0, megatron/neox_arguments/neox_args.py and
megatron/model/transformer.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.errors import Location
from clusterjobs.foresight.records import Experts
from clusterjobs.frameworks.base import Foreseen
from clusterjobs.frameworks.ds_foreseen import offload_of, stage_of
from clusterjobs.frameworks.gpt_neox.config import Config, Given, Givens
from clusterjobs.frameworks.gpt_neox.launch_config import Options, values_of_the_spec
from clusterjobs.spec.experiment import Experiment

# GPT-2's; the tokenizer of GPT-NeoX-20B has 50,277, and both are padded to 50,304 or 50,432.
_VOCABULARY = 50_257
_VOCABULARIES = {"HFTokenizer": 50_277, "HFGPT2Tokenizer": 50_257, "CharLevelTokenizer": 512}
_GATED_MULTIPLE = 256


def foreseen(experiment: Experiment, options: Options, files: Givens) -> Foreseen:
    """The keys of the user's files, of `neox` and of the spec."""
    spec = values_of_the_spec(experiment, options)
    nowhere = Location("", 1, 1)
    own = {key: Given(value, nowhere, (key,)) for key, value in spec.items()}
    config = Config({**files, **own}, True, {})
    zero = {"zero_optimization": config.section("zero_optimization")}
    layout: dict[str, Any] = {
        "engine": "megatron-deepspeed",
        "precision": experiment.precision or "fp16",
        "zero": stage_of(options.zero, zero),
        "offload": offload_of(zero),
        "recompute": "full" if config.value("checkpoint_activations") is True else "none",
        "flash": "flash" in str(config.value("attention_config")),
        "sequence_parallel": config.value("sequence_parallel") is True,
        "attention_dropout": (config.number("attention_dropout") or 0) > 0,
        "hidden_dropout": (config.number("hidden_dropout") or 0) > 0,
        "optimizer": str(config.section("optimizer").get("type", "adam")).lower()[:20],
    }
    multiple = _count(config, "make_vocab_size_divisible_by") or 128
    steps, saves = _count(config, "train_iters"), _count(config, "checkpoint_factor")
    return Foreseen(_shape(config), layout, multiple, steps, saves)


def _shape(config: Config) -> Mapping[str, Any]:
    hidden, gated = _count(config, "hidden_size"), config.value("activation") == "swiglu"
    ffn = _count(config, "intermediate_size") or (4 * hidden if hidden else None)
    if ffn and gated:  # a third for each matrix, in multiples of 256
        ffn = -(-(ffn // 3) // _GATED_MULTIPLE) * _GATED_MULTIPLE
    positions = str(config.value("pos_emb") or "learned")
    found = {
        "kv_heads": _count(config, "num_kv_heads"),
        "ffn": ffn,
        "gated": gated,
        "untied": config.value("no_weight_tying") is True,
        "positions": positions if positions in ("learned", "rotary", "alibi") else "none",
        "unbiased": config.value("use_bias_in_mlp") is False,
        "attention_bias": "none" if config.value("use_bias_in_attn_linear") is False else None,
        "norm": "rms" if str(config.value("norm")).startswith("rms") else None,
        "vocab": _VOCABULARIES.get(str(config.value("tokenizer_type")), _VOCABULARY),
    }
    number = _count(config, "moe_num_experts") or 1
    if number > 1 and ffn:
        found["experts"] = Experts(number, _count(config, "moe_top_k") or 1, ffn)
    return {name: value for name, value in found.items() if value}


def _count(config: Config, name: str) -> int | None:
    found = config.number(name)
    return int(found) if found and found == int(found) and 1 <= found < 1e12 else None
