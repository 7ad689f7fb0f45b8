"""A user's own training loop with Hugging Face's Accelerator: `framework: accelerate`.

Accelerate takes its settings from variables, which `accelerate launch` sets from a config file.
Source: accelerate 1.15, utils/launch.py, state.py, accelerator.py, commands/config/config_args.py.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    arguments_of,
    refuse_arguments,
    refuse_variables,
    script_of,
)
from clusterjobs.frameworks.base import (
    JOB_DIR,
    ConfigFile,
    Foreseen,
    Framework,
    Program,
    Task,
    Variable,
)
from clusterjobs.frameworks.ds_config import (
    CONFIG_NAME,
    DS_CONFIG,
    ZERO,
    DsConfigKeys,
    Further,
    Zero,
    config_file,
    config_text,
    derived_config,
    extensions_folder,
    keys_of,
    own_keys,
)
from clusterjobs.frameworks.torch_foreseen import (
    Fsdp,
    accelerate_config,
    accelerate_variables,
    check_fsdp,
    check_zero_devices,
    foreseen,
)
from clusterjobs.launchers import accelerate as launcher
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys
from clusterjobs.text import joined

_SOURCE = "accelerate: utils/launch.py"
_OURS = {
    "ACCELERATE_MIXED_PRECISION": "precision",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "batch",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": "zero and ds_config",
    "ACCELERATE_USE_DEEPSPEED": "zero and ds_config",
    "ACCELERATE_USE_FSDP": "the key fsdp",
}


class Options(TopLevelKeys):
    """`zero` and `ds_config` for DeepSpeed, or `fsdp`; without them, every rank has the model."""

    zero: Annotated[Zero | None, ZERO] = None
    ds_config: Annotated[DsConfigKeys, DS_CONFIG] = Field(default_factory=dict)
    fsdp: Annotated[
        Fsdp | None,
        Key(
            "fully sharded data parallelism",
            "{wrap: [LlamaDecoderLayer]}",
            schedules=False,
            see="frameworks/huggingface.md#fsdp",
        ),
    ] = None

    @property
    def uses_deepspeed(self) -> bool:
        """Whether the ranks use DeepSpeed."""
        return self.zero is not None or bool(self.ds_config)


class Accelerate(Framework):
    """`framework: accelerate`."""

    name = "accelerate"
    launchers = ("accelerate", "torchrun", "srun")
    options = Options
    reads_precision = True
    reads_variables = ("ACCELERATE_", "FSDP_")
    parallel_keys = ()
    packages: tuple[str, ...] = ("torch", "accelerate")

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        return config_file(options.ds_config)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        assert isinstance(options, Options)
        config = keys_of(options.ds_config, texts) if options.uses_deepspeed else None
        return foreseen(spec, options.zero, config, options.fsdp)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics)
        refuse_arguments(task.spec, diagnostics, {"local_rank": "the launcher"})
        refuse_variables(task.spec, _OURS, diagnostics)
        check_division(task, options, diagnostics)
        files = list(deepspeed_file(task, options, diagnostics, provenance))
        if script is None:
            return None
        by_file = (task.spec.launcher or self.launchers[0]) == launcher.ACCELERATE.name
        if by_file:
            files.append(launch_file(task, options))
        return Program(
            (script, *arguments_of(task.spec)),
            is_python=True,
            files=tuple(files),
            environment=tuple(_environment(task, options, by_file)),
        )


def check_division(task: Task, options: Options, diagnostics: Diagnostics) -> None:
    """Refuse combinations of `fsdp`, `zero` and devices that Accelerate does not have."""
    check_fsdp(options.fsdp, options.uses_deepspeed, task, diagnostics)
    check_zero_devices(options.uses_deepspeed, task, diagnostics)


def deepspeed_file(
    task: Task, options: Options, diagnostics: Diagnostics, provenance: Provenance
) -> Iterator[ConfigFile]:
    """ds_config.json, if the spec has `zero` or `ds_config`."""
    if not options.uses_deepspeed:
        return
    own = own_keys(options.ds_config, task.texts, diagnostics)
    zero = options.zero or (None if own.get("zero_optimization") else Zero(stage=0))
    derived = derived_config(task, zero)
    if task.samples is None:
        derived = {**_AUTO_BATCH, **derived}
    further = Further(isinstance(options.ds_config, str), keeps_auto=True, has_own_batch=True)
    text = config_text(task, derived, own, diagnostics, provenance, further)
    yield ConfigFile(CONFIG_NAME, text)


_AUTO_BATCH = dict.fromkeys(
    ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto"
)


def launch_file(task: Task, options: Options | None) -> ConfigFile:
    """accelerate.json, for `accelerate launch`. `options`: None if the program gets them itself."""
    config: dict[str, Any] = {"compute_environment": "LOCAL_MACHINE"}
    if options and options.uses_deepspeed:
        # The precision is in ds_config.json; in both, accelerate refuses it.
        config["distributed_type"] = "DEEPSPEED"
        config["deepspeed_config"] = {"deepspeed_multinode_launcher": "standard"}
    elif options and options.fsdp:
        config |= {"distributed_type": "FSDP", "mixed_precision": _precision(task)}
        config["fsdp_config"] = accelerate_config(options.fsdp)
    else:
        config |= {"distributed_type": "MULTI_GPU", "mixed_precision": _precision(task)}
    return ConfigFile(launcher.CONFIG_NAME, json.dumps(config, indent=2) + "\n")


def _precision(task: Task) -> str:
    """Accelerate's name for the precision."""
    return {"fp16": "fp16", "bf16": "bf16"}.get(str(task.spec.precision), "no")


def _environment(task: Task, options: Options, by_file: bool) -> Iterator[Variable]:
    """The variables that an Accelerator reads; `by_file`: accelerate launch sets some of them."""
    if not by_file and not options.uses_deepspeed:
        reason = "precision, as accelerate launch passes it on"
        yield Variable("ACCELERATE_MIXED_PRECISION", _precision(task), reason, _SOURCE)
    if task.samples:
        steps, reason = str(task.samples.accumulation), "batch: Accelerator accumulates as often"
        yield Variable("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", steps, reason, _SOURCE)
    if options.uses_deepspeed:
        yield extensions_folder()
        file, reason = joined(JOB_DIR, "/", CONFIG_NAME), "batch, precision, zero and ds_config"
        yield Variable("ACCELERATE_DEEPSPEED_CONFIG_FILE", file, reason, _SOURCE)
        if not by_file:
            yield Variable("ACCELERATE_USE_DEEPSPEED", "true", "zero, or ds_config", _SOURCE)
    elif options.fsdp:
        for name, value in accelerate_variables(options.fsdp).items() if not by_file else ():
            yield Variable(name, value, "fsdp, as accelerate launch passes it on", _SOURCE)
    elif not task.shape.gpus_per_node:
        reason = "no GPUs; without it, every rank would train alone"
        yield Variable("ACCELERATE_USE_CPU", "true", reason, "accelerate: state.py")
