"""What programs on plain PyTorch say about memory: FSDP, DeepSpeed or a copy on every rank.

Reads the arguments of Hugging Face's Trainer, of Lightning and of torchtitan.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import Foreseen, Task
from clusterjobs.frameworks.ds_config import Zero
from clusterjobs.frameworks.megatron.foreseen import Flags
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import Flag
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.text import Text, show

# ------------------------------------------------------------------ ds foreseen
# What DeepSpeed's config says about memory: ZeRO's stage, and what is offloaded.


def section_of(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a config, which may be anything; {} without it."""
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def offload_of(config: Mapping[str, Any]) -> str:
    """What is kept in the host's memory: `none`, `optimizer` or `parameters`."""
    section = section_of(config, "zero_optimization")
    for key, name in (("offload_param", "parameters"), ("offload_optimizer", "optimizer")):
        found = section.get(key)
        if isinstance(found, Mapping) and found.get("device") in ("cpu", "nvme"):
            return name
    return "none"


def stage_of(zero: Zero | None, config: Mapping[str, Any]) -> int:
    """ZeRO's stage: that of the spec, else of the config; 0 without one."""
    if zero:
        return zero.stage
    stage = section_of(config, "zero_optimization").get("stage")
    return stage if stage in (0, 1, 2, 3) else 0


# ------------------------------------------------------------------ fsdp
# FSDP for Hugging Face's Trainer and Accelerate: `fsdp: {...}` of a spec as their options.
# Sources: accelerate 1.15, utils/launch.py and FullyShardedDataParallelPlugin; transformers 5.23,
# TrainingArguments._process_fsdp_args.


def _shown(value: Any) -> Any:
    """A value with references is refused later, as every name with other characters."""
    return show(value) if isinstance(value, Text) else value


class Fsdp(SpecModel):
    """Fully sharded data parallelism."""

    version: Annotated[Literal[1, 2], Key("2, or 1 for older versions of transformers", "1")] = 2
    reshard_after_forward: Annotated[
        Flag,
        Key(
            "`false` keeps the gathered parameters until the backward pass: more memory, less "
            "communication",
            "false",
        ),
    ] = True
    wrap: Annotated[
        tuple[Annotated[str, BeforeValidator(_shown)], ...],
        Key(
            "classes of the layers",
            "[LlamaDecoderLayer]",
            default_is="those that the model names",
        ),
    ] = Field((), max_length=50)
    offload: Annotated[Flag, Key("keep parameters in the host's memory", "true")] = False
    activation_checkpointing: Annotated[
        Flag, Key("compute activations again in the backward pass", "true")
    ] = False
    state_dict: Annotated[
        Literal["sharded", "full"],
        Key(
            "`sharded`: one piece per rank in a checkpoint; `full`: the whole model, "
            "gathered on rank 0",
            "full",
        ),
    ] = "sharded"
    backward_prefetch: Annotated[
        Literal["pre", "post"] | None,
        Key(
            "gather the next parameters before (`pre`) or after (`post`) the present gradients are "
            "computed (only with `version: 1`)",
            "pre",
            default_is="Accelerate's own, none",
        ),
    ] = None

    @property
    def strategy(self) -> str:
        """FSDP 1's name for it."""
        return "full_shard" if self.reshard_after_forward else "shard_grad_op"


def check_fsdp(fsdp: Fsdp | None, zero: object, task: Task, diagnostics: Diagnostics) -> None:
    """FSDP beside DeepSpeed, and without GPUs."""
    if fsdp is None:
        return
    if zero:
        diagnostics.problem(
            ("fsdp",),
            "FSDP and DeepSpeed cannot be used together: both divide the model among the ranks",
            "keep fsdp, or zero and ds_config",
        )
    if fsdp.backward_prefetch and fsdp.version != 1:
        diagnostics.problem(
            ("fsdp", "backward_prefetch"),
            "FSDP 2 chooses itself when it gathers parameters",
            "remove it, or write version: 1",
        )
    for index, name in enumerate(fsdp.wrap):
        if not name.isidentifier():
            diagnostics.problem(
                ("fsdp", "wrap", index),
                f"{name!r} is not the name of a class",
                "write the class of the layers: wrap: [LlamaDecoderLayer]",
            )
    if not task.shape.gpus_per_node:
        warn_of_cpus("fsdp", diagnostics)


def check_zero_devices(zero: object, task: Task, diagnostics: Diagnostics) -> None:
    """Accelerate starts DeepSpeed only on GPUs and the like."""
    if zero and not task.shape.gpus_per_node:
        warn_of_cpus("zero", diagnostics)


def warn_of_cpus(key: str, diagnostics: Diagnostics) -> None:
    """Warn that `key` needs GPUs."""
    diagnostics.problem(
        (key,),
        "Accelerate uses it only on GPUs: on CPUs the training fails, or every rank trains alone",
        "use a queue with GPUs, or remove it",
        warning=True,
    )


def accelerate_config(fsdp: Fsdp) -> dict[str, Any]:
    """The section `fsdp_config` of a config file of Accelerate."""
    by_class = {"fsdp_transformer_layer_cls_to_wrap": ",".join(fsdp.wrap)} if fsdp.wrap else {}
    return {
        "fsdp_version": fsdp.version,
        "fsdp_reshard_after_forward": fsdp.reshard_after_forward
        if fsdp.version == 2
        else fsdp.strategy,
        **_only_version_1(fsdp),
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        **by_class,
        "fsdp_offload_params": fsdp.offload,
        "fsdp_activation_checkpointing": fsdp.activation_checkpointing,
        "fsdp_state_dict_type": f"{fsdp.state_dict.upper()}_STATE_DICT",
    }


def _only_version_1(fsdp: Fsdp) -> dict[str, Any]:
    if fsdp.version == 2:
        return {}
    config = {"fsdp_sharding_strategy": fsdp.strategy.upper(), "fsdp_use_orig_params": True}
    if fsdp.backward_prefetch:
        config["fsdp_backward_prefetch"] = f"BACKWARD_{fsdp.backward_prefetch.upper()}"
    return config


_OTHER_NAMES = {"fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP"}


def accelerate_variables(fsdp: Fsdp) -> dict[str, str]:
    """The settings as the environment variables that `accelerate launch` would set."""
    return {"ACCELERATE_USE_FSDP": "true"} | {
        _OTHER_NAMES.get(key, key.upper()): str(value).lower()
        if isinstance(value, bool)
        else str(value)
        for key, value in accelerate_config(fsdp).items()
    }


def trainer_config(fsdp: Fsdp) -> dict[str, Any]:
    """The file of the Trainer's `--fsdp_config`."""
    config: dict[str, Any] = {
        "version": fsdp.version,
        "reshard_after_forward": fsdp.reshard_after_forward if fsdp.version == 2 else fsdp.strategy,
        "state_dict_type": f"{fsdp.state_dict.upper()}_STATE_DICT",
        "activation_checkpointing": fsdp.activation_checkpointing,
        "cpu_offload": fsdp.offload,
    }
    if fsdp.wrap:
        config["transformer_layer_cls_to_wrap"] = list(fsdp.wrap)
    if fsdp.backward_prefetch:
        config["backward_prefetch"] = f"backward_{fsdp.backward_prefetch}"
    return config


def trainer_option(fsdp: Fsdp) -> str:
    """The value of the Trainer's `--fsdp`, which older versions need."""
    return " ".join((fsdp.strategy, *(["offload"] if fsdp.offload else []), "auto_wrap"))


FUSED_LOGITS = 4.0  # bytes per logit, with Liger's or flash-attention's loss
# Keys of DeepSpeed's config by which ranks share the work of a sample: that is not predicted.
_DIVIDED = ("sequence_parallel_size", "tensor_parallel", "autotp_size")
_RECOMPUTE = ("gradient_checkpointing", "activation_checkpointing")
_SEQUENCE = (
    *("max_length", "max_seq_length", "block_size", "model_max_length", "cutoff_len"),
    *("seq_length", "sequence_length", "seq_len", "max_seq_len"),
)
_OPTIMIZER = re.compile(
    r"|(?!.*(?:galore|apollo|lomo|4bit)).*(?:adam|adafactor|sgd|lion|muon|lamb).*"
)
_OPTIMIZERS = {"adafactor": "adafactor", "sgd": "sgd", "lion": "lion", "muon": "muon"}


def foreseen(
    spec: Experiment,
    zero: Zero | None = None,
    config: Mapping[str, Any] | None = None,
    fsdp: Fsdp | None = None,
    engine: str = "ddp",
) -> Foreseen:
    """`config`: DeepSpeed's; None if the program does not use it.

    `engine`: without any of them, "" if only the script knows it.
    """
    layout: dict[str, Any] = {"engine": engine, **of_arguments(spec)}
    if config is not None:
        if any(config.get(name, 1) != 1 for name in _DIVIDED):
            return Foreseen(is_own_script=True)
        layout |= {"engine": "deepspeed", "zero": stage_of(zero, config)}
        layout["offload"] = offload_of(config)
    elif fsdp is not None:
        layout |= {"engine": "fsdp", "zero": 3, "gradient_sync": "last"}
        if fsdp.activation_checkpointing:
            layout["recompute"] = "full"
        if fsdp.offload:
            layout["offload"] = "parameters"
    return Foreseen(_sequence(spec), layout, is_own_script=True)


def foreseen_by_accelerate(spec: Experiment, kind: str, own: Mapping[str, Any]) -> Foreseen:
    """What a config of Accelerate says about memory and time; `kind`: its distributed_type."""
    found = foreseen(spec, engine="ddp" if kind == "MULTI_GPU" else "")
    zero, given = section_of(own, "deepspeed_config"), section_of(own, "fsdp_config")
    sharding = {str(name).removeprefix("fsdp_"): value for name, value in given.items()}
    strategy = sharding.get("sharding_strategy", sharding.get("reshard_after_forward", True))
    if kind == "DEEPSPEED" and "deepspeed_config_file" not in zero:
        devices = {
            f"offload_{name}": {"device": zero.get(f"offload_{name}_device")}
            for name in ("param", "optimizer")
        }
        stage = {"stage": zero.get("zero_stage", 2), **devices}  # Accelerate's own default
        found = foreseen(spec, config={"zero_optimization": stage})
    elif kind == "FSDP" and strategy in _WHOLLY_SHARDED:
        fsdp = Fsdp(
            wrap=(),
            offload=sharding.get("offload_params") is True,
            activation_checkpointing=sharding.get("activation_checkpointing") is True,
        )
        found = foreseen(spec, fsdp=fsdp)
    precision = own.get("mixed_precision")
    known = {"precision": precision} if precision in ("bf16", "fp16") else {}
    return found._replace(layout={**found.layout, **known})


_WHOLLY_SHARDED = ("FULL_SHARD", 1, "1", True)


def of_script(spec: Experiment) -> Foreseen:
    """A script of the user's own: its arguments may say how it shards the model."""
    found = foreseen(spec, engine="")
    return found._replace(layout={**found.layout, **_sharding(Flags(spec))})


_FSDP = ("fsdp", "use_fsdp", "enable_fsdp", "fsdp2", "sharding_strategy", "fsdp_config")
_STAGES = ("zero_stage", "ds_stage", "deepspeed_stage")


def _sharding(flags: Flags) -> dict[str, Any]:
    """What arguments of scripts say of it, as most of them name it."""
    stage = next(filter(None, map(flags.count, _STAGES)), None)
    if stage in (1, 2, 3):
        return {"engine": "deepspeed", "zero": stage}
    strategy = (flags.text("strategy") or flags.text("parallel_strategy")).lower()
    if _is_on(flags, _FSDP) or strategy.startswith("fsdp"):
        return {"engine": "fsdp", "zero": 3}
    if _is_on(flags, ("ddp", "use_ddp")) or strategy.startswith("ddp"):
        return {"engine": "ddp"}
    return {}


def _is_on(flags: Flags, names: Sequence[str]) -> bool:
    return any(flags.has(one) and flags.text(one).lower() not in _OFF for one in names)


# Words of arguments whose effect on memory and speed is not read, unless a key of `model` says it.
_FROZEN = re.compile(r"(?:.*_)?(?:q?lora|dora|peft|adapters?|freeze|frozen)(?:_.*)?")
_BITS = ("bits", "quant_bits", "quantization", "quant_method", "quant_type")
_PARALLEL = re.compile(r"(?!data)(?:.*_)?(?:parallel|[cstpe]p|ulysses|ring_attn)_(?:size|degree)")
_NO_SHARDS = re.compile(r"hybrid|hsdp|grad_op|no_shard")
_SECOND = re.compile(r"(?:.*_)?(?:ref|reference|teacher|actor|critic|reward|draft)_model(?:_.*)?")
_OFF = ("false", "0", "none", "no")


def unread_arguments(spec: Experiment, layout: Mapping[str, Any]) -> Iterator[str]:
    """Arguments of a script that change what it trains, or how, in a way that `layout` lacks."""
    flags, model = Flags(spec), spec.model
    for name in flags.names():
        text = flags.text(name).lower()
        is_frozen = _FROZEN.fullmatch(name) or _FROZEN.fullmatch(text)
        is_trainable_known = "adapter_rank" in layout or (model and model.trainable)
        is_bits = name in _BITS and flags.count(name) != 16
        is_shards = name in _FSDP and (layout["engine"] != "fsdp" or _NO_SHARDS.search(text))
        is_parallel = _PARALLEL.fullmatch(name) and (flags.count(name) or 1) > 1
        if text not in _OFF and (
            (is_frozen and not is_trainable_known)
            or (is_bits and not (model and model.quantized))
            or (is_shards and not (model and model.sharding))
            or is_parallel
            or _SECOND.fullmatch(name)
            or (name in ("optim", "optimizer") and not _OPTIMIZER.fullmatch(text))
        ):
            yield name


_ADAPTERS = ("use_peft", "use_lora", "lora", "use_qlora", "qlora", "use_peft_lora", "enable_lora")
_RANKS = ("lora_r", "lora_rank", "lora_dim", "peft_lora_r", "r")
_IN_4_BITS = ("load_in_4bit", "use_4bit_quantization", "use_qlora", "qlora", "use_4bit")
_IN_8_BITS = ("load_in_8bit", "use_8bit_quantization", "use_8bit")
USUAL_RANK = 16  # TRL's default of lora_r


def _adapter(flags: Flags) -> dict[str, Any]:
    """LoRA, and its frozen weights, as TRL, LLaMA-Factory and many scripts name them."""
    kind = (flags.text("finetuning_type") or flags.text("peft_method")).lower()
    if not _is_on(flags, _ADAPTERS) and kind not in ("lora", "qlora"):
        return {"adapter_rank": 0} if kind == "full" else {}
    rank = next(filter(None, map(flags.count, _RANKS)), USUAL_RANK)
    said = flags.count("quantization_bit")
    is_in_4 = said == 4 or kind == "qlora" or _is_on(flags, _IN_4_BITS)
    bits = 4 if is_in_4 else 8 if said == 8 or _is_on(flags, _IN_8_BITS) else 16
    return {"adapter_rank": rank, "weight_bits": bits}


def _sequence(spec: Experiment) -> dict[str, int]:
    """The length of the samples, as TRL, run_clm.py and many scripts name it."""
    flags = Flags(spec)
    found = next(filter(None, map(flags.count, _SEQUENCE)), None)
    return {"sequence": found} if found else {}


def of_arguments(spec: Experiment) -> dict[str, Any]:
    """What common arguments say: recomputation, attention, optimizer, fused loss."""
    flags = Flags(spec)
    found: dict[str, Any] = {}
    if _is_on(flags, _RECOMPUTE):
        found["recompute"] = "full"
    if flags.text("attn_implementation") == "eager":
        found["flash"] = False
    if _is_on(flags, ("use_liger_kernel",)):
        found["logit_bytes"] = FUSED_LOGITS
    optimizer = (flags.text("optim") or flags.text("optimizer")).lower()
    known = (name for start, name in _OPTIMIZERS.items() if optimizer.startswith(start))
    found["optimizer"] = "adam8bit" if "8bit" in optimizer else next(known, "adam")
    return found | _adapter(flags)


def of_lightning(spec: Experiment) -> Foreseen:
    """Lightning's strategy, as LightningCLI and most scripts name it."""
    flags = Flags(spec)
    strategy = (flags.text("trainer.strategy") or flags.text("strategy")).lower()
    layout: dict[str, Any] = {"engine": "ddp", **of_arguments(spec)}
    if strategy.startswith("deepspeed"):
        stage = strategy.removeprefix("deepspeed_stage_")[:1]
        layout |= {"engine": "deepspeed", "zero": int(stage) if stage in ("1", "2", "3") else 2}
        if strategy.endswith("offload"):
            layout["offload"] = "optimizer"
    elif strategy.startswith("fsdp"):
        layout |= {"engine": "fsdp", "zero": 3}
    return Foreseen(layout=layout, is_own_script=True)


# ------------------------------------------------------------------ torchtitan

# layers, hidden, heads, kv_heads, ffn, vocab of torchtitan's llama3 (models/llama3/__init__.py)
_LLAMA3 = {
    "8b": (32, 4096, 32, 8, 14_336, 128_256),
    "70b": (80, 8192, 64, 8, 28_672, 128_256),
    "405b": (126, 16_384, 128, 8, 53_248, 128_256),
}
_SIZES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab")
_MODES = {"none": "none", "full": "full", "selective": "selective_ops"}


def of_torchtitan(spec: Experiment, config: str) -> Foreseen:
    """`config`: the name of torchtitan's config, as llama3_8b."""
    flags = Flags(spec)
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
        "sequence_parallel": spec.parallel.tensor > 1,
        "compiled": flags.has("compile.enable") or flags.has("training.compile"),
        "precision": spec.precision or "bf16",
    }
    return Foreseen(model, layout)
