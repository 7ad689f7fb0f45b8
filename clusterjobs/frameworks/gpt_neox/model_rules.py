"""Rules about GPT-NeoX's keys: model, batch, data, and what the launcher decides.

Source: EleutherAI/gpt-neox 2.0 and later, megatron/neox_arguments/arguments.py, where none is
named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterjobs.counted import counted
from clusterjobs.frameworks.gpt_neox.config import Config
from clusterjobs.frameworks.rules import Finding, rule

_DERIVED = "neox_arguments/arguments.py, calculate_derived"
_VALUES = "neox_arguments/arguments.py, validate_values"


@rule("no size of the model, in the files and in the spec", "it requires them", _VALUES)
def no_model(config: Config) -> Iterator[Finding]:
    names = ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings")
    missing = [name for name in names if config.lacks(name)]
    if missing:
        what = f"{', '.join(missing)} missing in the configs"
        yield Finding((), what, "add them, or `model:` to the spec")


@rule("`max_position_embeddings` below `seq_length`", "it asserts that it is not", _VALUES)
def positions(config: Config) -> Iterator[Finding]:
    most, sequence = config.number("max_position_embeddings"), config.number("seq_length")
    if most is not None and sequence is not None and most < sequence:
        what = f"{most:g} positions, and sequences of {sequence:g} tokens"
        yield Finding(("max_position_embeddings",), what, f"{sequence:g} or more")


@rule("`num_kv_heads` that does not divide the heads", "it asserts that it does", _DERIVED)
def key_value_heads(config: Config) -> Iterator[Finding]:
    heads, fewer = config.number("num_attention_heads"), config.number("num_kv_heads")
    tensor = config.number("model_parallel_size") or 1
    if heads and fewer and heads % fewer:
        what = f"{heads:g} heads are not a multiple of {fewer:g} key-value heads"
        yield Finding(("num_kv_heads",), what, f"a divisor of {heads:g}")
    elif heads and fewer and fewer < heads and fewer % tensor:
        what = f"{fewer:g} key-value heads are not a multiple of model_parallel_size {tensor:g}"
        yield Finding(("num_kv_heads",), what, f"a multiple of {tensor:g}")


@rule(
    "`attention_config` of another number of layers",
    "it asserts that both are equal",
    _DERIVED,
)
def attention_of_other_layers(config: Config) -> Iterator[Finding]:
    layers, described = config.number("num_layers"), _described(config.value("attention_config"))
    if layers is not None and described is not None and described != layers:
        what = f"describes {described} layers, and num_layers is {layers:g}"
        yield Finding(("attention_config",), what, f'write [[["flash"], {layers:g}]], or "all"')


def _described(attention: Any) -> int | None:
    """The layers of `[[["global", "flash"], 12]]`: 24; None where it fits any number."""
    if not isinstance(attention, list) or not attention:
        return None
    if all(isinstance(item, str) for item in attention):
        return len(attention)
    total = 0
    for item in attention:
        is_pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], list)
        if not is_pair or not isinstance(item[1], int):
            return None
        total += len(item[0]) * item[1]
    return total


@rule("`num_unique_layers` that does not divide `num_layers`", "it asserts that it does", _VALUES)
def unique_layers(config: Config) -> Iterator[Finding]:
    layers, unique = config.number("num_layers"), config.number("num_unique_layers")
    if layers and unique and layers % unique:
        what = f"{layers:g} layers are not a multiple of {unique:g}"
        yield Finding(("num_unique_layers",), what, f"a divisor of {layers:g}")


@rule("experts with ZeRO 2 or 3", "it asserts a stage below 2", _DERIVED)
def experts_with_zero(config: Config) -> Iterator[Finding]:
    stage = config.number("zero_optimization", "stage") or 0
    if (config.number("moe_num_experts") or 1) > 1 and stage >= 2:
        what = f"experts cannot be combined with ZeRO {stage:g}"
        yield Finding(("moe_num_experts",), what, "stage 1 at most, or no experts")


@rule("`fp16_lm_cross_entropy` without fp16", "it asserts the precision", _VALUES)
def cross_entropy(config: Config) -> Iterator[Finding]:
    is_known = config.is_complete or config.precision is not None
    if config.value("fp16_lm_cross_entropy") is True and is_known and config.precision != "fp16":
        what = f"the precision is {config.precision or 'fp32'}"
        yield Finding(("fp16_lm_cross_entropy",), what, "precision: fp16, or remove it")


# ------------------------------------------------------------------ ranks


_OF_THE_LAUNCHER = ("global_num_gpus", "world_size", "rank", "local_rank", "user_script")


@rule(
    "`global_num_gpus`, `world_size` or `rank` in a config",
    "it does not count the GPUs, and computes another batch",
    _DERIVED,
)
def keys_of_the_launcher(config: Config) -> Iterator[Finding]:
    for key in _OF_THE_LAUNCHER:
        if key in config.keys:
            yield Finding((key,), "is set when the job runs", "remove it")


@rule("`deepspeed: false`", "it runs with DeepSpeed alone, and refuses it", _VALUES)
def without_deepspeed(config: Config) -> Iterator[Finding]:
    if config.value("deepspeed") is False:
        yield Finding(("deepspeed",), "GPT-NeoX runs with DeepSpeed alone", "remove it")


# ------------------------------------------------------------------ data

_PARTS = ("train", "valid", "test")


@rule(
    "only one or two of `train_data_paths`, `valid_data_paths`, `test_data_paths`",
    "it asserts all or none",
    _VALUES,
)
def data_in_part(config: Config) -> Iterator[Finding]:
    given = [part for part in _PARTS if config.value(f"{part}_data_paths") is not None]
    missing = [f"{part}_data_paths" for part in _PARTS if config.lacks(f"{part}_data_paths")]
    if given and missing:
        what = f"{' and '.join(missing)} missing: all three, or data_path"
        yield Finding((f"{given[0]}_data_paths",), what, "add them")


@rule("`data_path` beside the three lists of data", "it asserts one of the two", _VALUES)
def data_twice(config: Config) -> Iterator[Finding]:
    is_split = all(config.value(f"{part}_data_paths") is not None for part in _PARTS)
    if is_split and config.value("data_path") is not None:
        yield Finding(("data_path",), "train_data_paths is given, too", "remove one of the two")


@rule("data weights of another number than the data paths", "it asserts both lengths", _VALUES)
def weights_of_data(config: Config) -> Iterator[Finding]:
    for part in _PARTS:
        paths, weights = config.value(f"{part}_data_paths"), config.value(f"{part}_data_weights")
        if isinstance(paths, list) and isinstance(weights, list) and len(paths) != len(weights):
            what = f"{counted(len(weights), 'weight')} for {counted(len(paths), 'path')}"
            yield Finding((f"{part}_data_weights",), what, "a weight for each path")


MODEL_RULES = (
    no_model,
    positions,
    key_value_heads,
    attention_of_other_layers,
    unique_layers,
    experts_with_zero,
    cross_entropy,
    keys_of_the_launcher,
    without_deepspeed,
    data_in_part,
    data_twice,
    weights_of_data,
)
