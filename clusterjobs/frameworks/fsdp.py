"""FSDP for Hugging Face's Trainer and Accelerate: `fsdp: {...}` of a spec as their options.

Sources: accelerate 1.15, utils/launch.py and FullyShardedDataParallelPlugin; transformers 5.23,
TrainingArguments._process_fsdp_args.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import Task
from clusterjobs.spec.field_types import Flag
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import show


class Fsdp(SpecModel):
    """Fully sharded data parallelism.

    `reshard_after_forward`: free the gathered parameters after the forward pass, which takes less
    memory and more communication. `wrap`: names of the layers' classes, by default those that the
    model of transformers names itself. `offload`: parameters in the host's memory. `state_dict`:
    checkpoints as one piece per rank, or whole.
    """

    version: Literal[1, 2] = 2
    reshard_after_forward: Flag = True
    wrap: tuple[str, ...] = Field((), max_length=50)
    offload: Flag = False
    activation_checkpointing: Flag = False
    state_dict: Literal["sharded", "full"] = "sharded"

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
    for index, name in enumerate(fsdp.wrap):
        if not name.isidentifier():
            diagnostics.problem(
                ("fsdp", "wrap", index),
                f"{show(name)!r} is not the name of a class",
                "write the class of the layers: wrap: [LlamaDecoderLayer]",
            )
    if not task.shape.gpus_per_node:
        _warn_of_cpus("fsdp", diagnostics)


def check_zero_devices(zero: object, task: Task, diagnostics: Diagnostics) -> None:
    """Accelerate starts DeepSpeed only on GPUs and the like."""
    if zero and not task.shape.gpus_per_node:
        _warn_of_cpus("zero", diagnostics)


def _warn_of_cpus(key: str, diagnostics: Diagnostics) -> None:
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
    return {"fsdp_sharding_strategy": fsdp.strategy.upper(), "fsdp_use_orig_params": True}


_OTHER_NAMES = {"fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP"}


def accelerate_variables(fsdp: Fsdp) -> dict[str, str]:
    """The same as the environment variables that `accelerate launch` would set."""
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
    return config


def trainer_option(fsdp: Fsdp) -> str:
    """The value of the Trainer's `--fsdp`, which older versions need."""
    return " ".join((fsdp.strategy, *(["offload"] if fsdp.offload else []), "auto_wrap"))
