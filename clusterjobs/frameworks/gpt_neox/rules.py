"""What GPT-NeoX refuses or misunderstands in its merged config: names, types and rules.

Source: EleutherAI/gpt-neox 2.0 and later.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import counted
from clusterjobs.frameworks.flags import Table, mapping_findings, table
from clusterjobs.frameworks.gpt_neox.config import Config, report, written_values
from clusterjobs.frameworks.rules import Case, Finding, Rule, findings_of, row, rule
from clusterjobs.spec.experiment import Experiment

# ------------------------------------------------------------------ model, data and launcher


_DERIVED = "neox_arguments/arguments.py, calculate_derived"
_VALUES = "neox_arguments/arguments.py, validate_values"


@rule("no size of the model, in the files and in the spec", "it requires them", _VALUES)
def no_model(config: Config) -> Iterator[Finding]:
    names = ("num_layers", "hidden_size", "num_attention_heads", "max_position_embeddings")
    missing = [name for name in names if config.lacks(name)]
    if missing:
        what = f"{', '.join(missing)} missing in the configs"
        yield Finding((), what, "add them, or `model:` to the spec")


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


@rule("`fp16_lm_cross_entropy` without fp16", "it asserts the precision", _VALUES)
def cross_entropy(config: Config) -> Iterator[Finding]:
    is_known = config.is_complete or config.precision is not None
    if config.value("fp16_lm_cross_entropy") is True and is_known and config.precision != "fp16":
        what = f"the precision is {config.precision or 'fp32'}"
        yield Finding(("fp16_lm_cross_entropy",), what, "precision: fp16, or remove it")


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


@rule("data weights of another number than the data paths", "it asserts both lengths", _VALUES)
def weights_of_data(config: Config) -> Iterator[Finding]:
    for part in _PARTS:
        paths, weights = config.value(f"{part}_data_paths"), config.value(f"{part}_data_weights")
        if isinstance(paths, list) and isinstance(weights, list) and len(paths) != len(weights):
            what = f"{counted(len(weights), 'weight')} for {counted(len(paths), 'path')}"
            yield Finding((f"{part}_data_weights",), what, "a weight for each path")


MODEL_RULES: tuple[Rule[Config], ...] = (
    no_model,
    row(
        "`max_position_embeddings` below `seq_length`",
        "it asserts that it is not",
        _VALUES,
        Case(
            "max_position_embeddings",
            "it < seq_length",
            "{it:g} positions, and sequences of {seq_length:g} tokens",
            "{seq_length:g} or more",
        ),
    ),
    row(
        "`num_kv_heads` that does not divide the heads",
        "it asserts that it does",
        _DERIVED,
        Case(
            "num_kv_heads",
            "num_attention_heads % it",
            "{num_attention_heads:g} heads are not a multiple of {it:g} key-value heads",
            "a divisor of {num_attention_heads:g}",
        ),
        Case(
            "num_kv_heads",
            "it < num_attention_heads, not num_attention_heads % it, it % model_parallel_size",
            "{it:g} key-value heads are not a multiple of model_parallel_size "
            "{model_parallel_size:g}",
            "a multiple of {model_parallel_size:g}",
        ),
    ),
    attention_of_other_layers,
    row(
        "`num_unique_layers` that does not divide `num_layers`",
        "it asserts that it does",
        _VALUES,
        Case(
            "num_unique_layers",
            "num_layers % it",
            "{num_layers:g} layers are not a multiple of {it:g}",
            "a divisor of {num_layers:g}",
        ),
    ),
    row(
        "experts with ZeRO 2 or 3",
        "it asserts a stage below 2",
        _DERIVED,
        Case(
            "moe_num_experts",
            "it > 1, zero_optimization.stage >= 2",
            "experts cannot be combined with ZeRO {zero_optimization[stage]:g}",
            "stage 1 at most, or no experts",
        ),
    ),
    cross_entropy,
    keys_of_the_launcher,
    row(
        "`deepspeed: false`",
        "it runs with DeepSpeed alone, and refuses it",
        _VALUES,
        Case("deepspeed", "it == False", "GPT-NeoX runs with DeepSpeed alone", "remove it"),
    ),
    data_in_part,
    row(
        "`data_path` beside the three lists of data",
        "it asserts one of the two",
        _VALUES,
        Case(
            "data_path",
            "train_data_paths, valid_data_paths, test_data_paths",
            "train_data_paths is given, too",
            "remove one of the two",
        ),
    ),
    weights_of_data,
)


# ------------------------------------------------------------------ numbers, precision and training


_TYPES = "neox_arguments/arguments.py, validate_types"
_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@rule(
    "`train_iters: 1e3` or `lr: 6e-4` in a config file",
    "YAML 1.1 reads both as text; it then expects a number",
    "PyYAML, resolver.py",
)
def numbers_that_are_text(config: Config) -> Iterator[Finding]:
    for path, value in written_values(config):
        kind = table("gpt-neox").types.get(str(path[0])) if len(path) == 1 else None
        if isinstance(value, str) and kind != "text" and _EXPONENT.fullmatch(value):
            what = f"{value} is text in YAML 1.1, which deepy.py reads"
            yield Finding(path, what, f"write {_as_number(value, kind == 'integer')}")


def _as_number(text: str, is_integer: bool) -> str:
    """1e3 -> 1000, 6e-4 -> 6.0e-4."""
    number = float(text)
    if is_integer and number.is_integer():
        return str(int(number))
    digits, _, exponent = text.lower().partition("e")
    exponent = exponent if exponent.startswith(("-", "+")) else f"+{exponent}"
    return f"{digits if '.' in digits else f'{digits}.0'}e{exponent}"


@rule(
    "bf16 without `zero_optimization`, or `zero_optimization` without `stage`",
    "it reads zero_optimization's stage, and fails",
    _DERIVED,
)
def no_stage(config: Config) -> Iterator[Finding]:
    if config.lacks("zero_optimization") and config.precision == "bfloat16":
        name = "precision" if "precision" in config.keys else "bf16"
        what = "zero_optimization is missing: with bf16, deepy.py reads its stage"
        yield Finding((name,), what, "add `zero: {stage: 1}` to the spec; 0 is possible, too")
    elif config.section("zero_optimization") and config.value("zero_optimization", "stage") is None:
        yield Finding(("zero_optimization",), "stage is missing", "add `stage: 1`")


@rule(
    "`precision` against `fp16` or `bf16`, or both of them", "it asserts that they agree", _DERIVED
)
def precisions_that_contradict(config: Config) -> Iterator[Finding]:
    for key, name in (("fp16", "fp16"), ("bf16", "bfloat16")):
        if config.value(key, "enabled") is True and config.precision != name:
            what = f"{key} is enabled, and the precision is {config.precision}"
            yield Finding((key,), what, "remove one of the two")


@rule(
    "`fp16`, `amp` or `flops_profiler` without `enabled`",
    "it refuses the mapping",
    _TYPES,
)
def not_said_whether_enabled(config: Config) -> Iterator[Finding]:
    for key in ("fp16", "amp", "flops_profiler"):
        if config.section(key) and "enabled" not in config.section(key):
            yield Finding((key,), "enabled is missing", "add `enabled: true`")


@rule(
    "`fp16: {type: bfloat16}`, as before GPT-NeoX 2.0",
    "it trains in fp16",
    _DERIVED,
    warning=True,
)
def bfloat16_as_a_type(config: Config) -> Iterator[Finding]:
    if _is_bfloat16(config) and config.precision == "fp16":
        what = "GPT-NeoX 2.0 does not read the type, and trains in fp16"
        yield Finding(("fp16", "type"), what, "write `bf16: {enabled: true}` instead of fp16")


def _is_bfloat16(config: Config) -> bool:
    return str(config.value("fp16", "type")).lower().startswith("bf")


@rule(
    "`fp16.fp16` or `fp16.type`, as in GPT-NeoX's own configs; `precision: fp16` without `fp16`",
    "DeeperSpeed 0.16.5 ignores the keys; DeepSpeed 0.19 refuses them when the ranks start",
    "DeepSpeed runtime/precision_config.py",
    warning=True,
)
def keys_of_deeperspeed(config: Config) -> Iterator[Finding]:
    if _is_old(config.pins.get("deepspeed")):
        return
    hint = "with DeeperSpeed, pin it: software: {requires: {deepspeed: 0.16.5}}, preflight: true"
    for key in ("fp16", "type"):
        if key in config.section("fp16") and not _is_bfloat16(config):
            what = f"DeepSpeed 0.19 refuses fp16.{key}; DeeperSpeed 0.16.5 takes it"
            yield Finding(("fp16", key), what, f"remove it; {hint}")
    if config.precision == "fp16" and config.lacks("fp16"):
        what = "deepy.py adds fp16.type, which DeepSpeed 0.19 refuses; DeeperSpeed 0.16.5 takes it"
        yield Finding(("precision",), what, f"add `fp16: {{enabled: true}}`; {hint}")


def _is_old(version: str | None) -> bool:
    """Whether this DeepSpeed reads fp16 as it is written, as all up to 0.16 do."""
    found = re.match(r"0\.(\d+)", version or "")
    return found is not None and int(found[1]) <= 16


@rule("`optimizer` without `type` or `params`", "it refuses the mapping", _TYPES)
def optimizer_in_part(config: Config) -> Iterator[Finding]:
    optimizer = config.section("optimizer")
    for key, example in (("type", "type: Adam"), ("params", "params: {lr: 6.0e-4}")):
        if optimizer and key not in optimizer:
            yield Finding(("optimizer",), f"{key} is missing", f"add `{example}`")


@rule("no `optimizer.params.lr`", "it trains with 0.001", _DERIVED, warning=True)
def no_learning_rate(config: Config) -> Iterator[Finding]:
    if config.lacks("optimizer"):
        example = "`optimizer: {type: Adam, params: {lr: 6.0e-4}}`"
        yield Finding((), "optimizer is missing: GPT-NeoX uses Adam and lr 0.001", f"add {example}")
    elif (
        "params" in config.section("optimizer")
        and config.value("optimizer", "params", "lr") is None
    ):
        yield Finding(("optimizer",), "params.lr is missing: it is then 0.001", "add `lr: 6.0e-4`")


_OVERWRITTEN = {
    "lr": "optimizer.params.lr",
    "optimizer_type": "optimizer.type",
    "batch_size": "train_micro_batch_size_per_gpu",
    "clip_grad": "gradient_clipping",
    "zero_stage": "zero_optimization.stage",
    "zero_reduce_scatter": "zero_optimization.reduce_scatter",
    "zero_contiguous_gradients": "zero_optimization.contiguous_gradients",
    "zero_reduce_bucket_size": "zero_optimization.reduce_bucket_size",
    "zero_allgather_bucket_size": "zero_optimization.allgather_bucket_size",
    "is_pipe_parallel": "pipe_parallel_size",
}


@rule(
    "`lr`, `clip_grad`, `batch_size` or `zero_stage` beside the key that it follows from",
    "it silently overwrites them: lr by optimizer.params.lr, or 0.001",
    _DERIVED,
    warning=True,
)
def overwritten_keys(config: Config) -> Iterator[Finding]:
    for key in config.keys:
        if key in _OVERWRITTEN:
            instead = _OVERWRITTEN[key]
            yield Finding((key,), f"GPT-NeoX overwrites it by {instead}", f"write {instead}")


TRAINING_RULES: tuple[Rule[Config], ...] = (
    numbers_that_are_text,
    no_stage,
    row(
        "`zero_optimization` with stage 2 or 3 and `pipe_parallel_size: 1`",
        "1 is a pipeline, too; DeepSpeed asserts a stage below 2 for it",
        "neox_arguments/arguments.py, calculate_derived; DeepSpeed runtime/pipe/engine.py",
        Case(
            "pipe_parallel_size",
            "it == 1, zero_optimization.stage >= 2",
            "GPT-NeoX 2.0 makes a pipeline of one stage, which ZeRO {zero_optimization[stage]:g} "
            "does not allow",
            "write 0, which is no pipeline",
        ),
        warning=True,
    ),
    precisions_that_contradict,
    not_said_whether_enabled,
    bfloat16_as_a_type,
    keys_of_deeperspeed,
    optimizer_in_part,
    no_learning_rate,
    overwritten_keys,
    row(
        "`min_lr` above the learning rate",
        "it asserts that it is not",
        _VALUES,
        Case(
            "min_lr",
            "it > optimizer.params.lr",
            "{it:g} is above lr {optimizer[params][lr]:g}",
            "a smaller min_lr",
        ),
    ),
    row(
        "`warmup` as a number of steps",
        "it is a share of the training: with 1 or more, the learning rate never reaches lr",
        "megatron/training.py, get_learning_rate_scheduler",
        Case(
            "warmup",
            "it >= 1",
            "{it:g} is a share of the training: all of it would be warm-up",
            "0.01 is one percent of train_iters",
        ),
        warning=True,
    ),
    row(
        "`rotary_pct` or `rotary_emb_base` without `pos_emb: rotary`",
        "the positions are of another kind: learned ones by default",
        "megatron/model/transformer.py",
        Case(
            "rotary_pct|rotary_emb_base|rotary_save_freqs_buffer",
            "is_complete, pos_emb != rotary",
            "{argument} is not read: the positions are not rotary",
            "add `pos_emb: rotary`",
        ),
        warning=True,
    ),
    row(
        "`moe_top_k` or another key of experts without `moe_num_experts`",
        "the model has no experts",
        "megatron/model/transformer.py",
        Case(
            "moe_top_k|moe_router_type|moe_lbl_in_fp32|moe_jitter_eps|moe_expert_interval",
            "is_complete, not moe_num_experts or moe_num_experts == 1",
            "{argument} has no effect: the model has no experts",
            "add `moe_num_experts: 8`",
        ),
        warning=True,
    ),
    row(
        "`checkpoint_factor`, `eval_interval` or `log_interval` longer than the training",
        "it saves or evaluates at the end alone, or logs nothing",
        "megatron/training.py, train",
        Case(
            "checkpoint_factor|eval_interval|log_interval",
            "it > train_iters, train_iters > 0",
            "{argument} is longer than the training, {train_iters:g} iterations",
            "a smaller {argument}",
        ),
        warning=True,
    ),
    row(
        "`lr_decay_style: Cosine` or `norm: RMSNorm`, in capitals",
        "its check of types takes them; the learning rate stays, and the model has no such norm",
        "megatron/learning_rates.py, model/norms.py",
        Case(
            "lr_decay_style",
            "it == Cosine|COSINE|Linear|LINEAR|Exponential|EXPONENTIAL",
            "the learning rate would stay as it is: the name is compared exactly",
            "write it in small letters",
        ),
        Case(
            "norm",
            "it == RMSNorm|RMSnorm|LayerNorm|Layernorm|ScaleNorm",
            "the name is compared exactly",
            "write it in small letters",
        ),
        warning=True,
    ),
    row(
        "`train_iters` beside `train_epochs`",
        "only one of them may be given",
        "neox_arguments/neox_args.py",
        Case(
            "train_epochs",
            "train_iters",
            "train_iters is given, too",
            "remove one of the two",
        ),
    ),
    row(
        "no `train_iters`",
        "it fails when it counts the samples",
        "megatron/data/data_utils.py",
        Case(
            (),
            "is_complete, not train_iters, not train_epochs, not has_training",
            "train_iters is missing: how long to train",
            "add `training: {{steps: 100000}}`, or `train_iters: 100000` to neox",
        ),
        warning=True,
    ),
)


def check_config(config: Config, spec: Experiment, diagnostics: Diagnostics) -> None:
    """Check all keys that are known, by the rules first: they say more."""
    for finding in findings_of((*TRAINING_RULES, *MODEL_RULES), config):
        report(finding, config, diagnostics)
    for finding in _names_and_types(config, spec):
        report(finding, config, diagnostics)


def _names_and_types(config: Config, spec: Experiment) -> Iterator[Finding]:
    """Unknown keys may be a fork's, and choices may be a newer version's: warnings."""
    known = table("gpt-neox", spec)
    is_tuned = config.value("autotuning") is not None
    given = {
        key: one.value
        for key, one in config.keys.items()
        if one.value is not None and not (is_tuned and one.value == "auto")
    }
    for finding in mapping_findings(given, known):
        kind = known.types.get(str(finding.path[0]))
        is_choice = isinstance(kind, list)
        if is_choice and str(given[str(finding.path[0])]).lower() in map(str.lower, kind or ()):
            continue  # it compares without regard to capitals
        yield finding._replace(warning=kind is None or is_choice)
    yield from _sections(given, table("deepspeed", spec))


_SECTIONS = ("zero_optimization", "bf16", "activation_checkpointing", "flops_profiler", "fp16")
_DEEPERSPEED = (("fp16", "fp16"), ("fp16", "type"))  # another rule is about them


def _sections(given: Mapping[str, Any], known: Table) -> Iterator[Finding]:
    """Keys in the mappings that GPT-NeoX hands to DeepSpeed."""
    sections = {key: given[key] for key in _SECTIONS if isinstance(given.get(key), dict)}
    for finding in mapping_findings(sections, known):
        if finding.path not in _DEEPERSPEED:
            yield finding
