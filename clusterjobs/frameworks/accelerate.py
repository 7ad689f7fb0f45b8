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
    OwnConfig,
    Zero,
    check_json,
    config_file,
    config_text,
    derived_config,
    extensions_folder,
    keys_of,
    keys_or_file,
    leaves,
    own_keys,
)
from clusterjobs.frameworks.torch_foreseen import (
    Fsdp,
    accelerate_config,
    accelerate_variables,
    check_fsdp,
    check_zero_devices,
    foreseen,
    foreseen_by_accelerate,
    section_of,
    warn_of_cpus,
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


_OWN = OwnConfig("accelerate_config", "Accelerate", "{dynamo_config: {dynamo_backend: INDUCTOR}}")
_OWN_FILE = "accelerate_config: fsdp.yaml"


class Options(TopLevelKeys):
    """`zero` and `ds_config` for DeepSpeed, or `fsdp`; without them, every rank has the model.

    Or all of it in Accelerate's own config, `accelerate_config`.
    """

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
    accelerate_config: Annotated[
        Annotated[dict[str, Any] | str, keys_or_file(_OWN_FILE)],
        Key(
            "a config file of `accelerate launch` beside the spec, or its keys",
            "fsdp.yaml",
            schedules=False,
            writes_file=True,
            allows_null=True,
            see="frameworks/accelerate.md#a-config-file-of-your-own",
        ),
    ] = Field(default_factory=dict)

    @property
    def uses_deepspeed(self) -> bool:
        """Whether the ranks use DeepSpeed."""
        return self.zero is not None or bool(self.ds_config)


class Accelerate(Framework):
    """`framework: accelerate`."""

    name = "accelerate"
    argument_check = "check_accelerate"
    checks_config_alone = True
    launchers = ("accelerate", "torchrun", "srun")
    options = Options
    reads_precision = True
    reads_variables = ("ACCELERATE_", "FSDP_")
    parallel_keys = ()
    packages: tuple[str, ...] = ("torch", "accelerate")

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        assert isinstance(options, Options)
        return (*config_file(options.ds_config), *config_file(options.accelerate_config))

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        assert isinstance(options, Options)
        if divides(own := keys_of(options.accelerate_config, texts)):
            return foreseen_by_accelerate(spec, distributed_type(own), own)
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
        own = own_launch_config(task, options, by_file, diagnostics)
        if by_file:
            files.append(launch_file(task, options, own))
        return Program(
            (script, *arguments_of(task.spec)),
            is_python=True,
            files=tuple(files),
            environment=tuple(_environment(task, options, by_file, divides(own))),
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


# ------------------------------------------------------------------ accelerate launch

# What the job says on the command line of `accelerate launch`, or does not have.
_OF_THE_JOB = (
    *("compute_environment", "num_machines", "num_processes", "machine_rank", "same_network"),
    *("main_process_ip", "main_process_port", "rdzv_backend", "main_training_function"),
    *("gpu_ids", "use_cpu", "commands", "command_file"),
    *("tpu_env", "tpu_name", "tpu_zone", "tpu_vm", "tpu_use_cluster", "tpu_use_sudo"),
)
_OF_TYPES = {"fsdp_config": "FSDP", "deepspeed_config": "DEEPSPEED"}
_SHARED = (*_OF_TYPES.values(), "MEGATRON_LM")
# The name before Accelerate 0.26; later ones ignore it without a word.
_OLD_PREFETCH = "fsdp_backward_prefetch_policy"


def distributed_type(own: Mapping[str, Any]) -> str:
    """How `accelerate launch` starts the ranks; where the config does not say, by its sections."""
    found = next((kind for section, kind in _OF_TYPES.items() if own.get(section)), "MULTI_GPU")
    return str(own.get("distributed_type") or found)


def divides(own: Mapping[str, Any]) -> bool:
    """Whether a config says how the ranks share the model."""
    return distributed_type(own) in _SHARED


def own_launch_config(
    task: Task, options: Options, by_file: bool, diagnostics: Diagnostics
) -> Mapping[str, Any]:
    """The keys of `accelerate_config` that the job leaves as they are."""
    own = own_keys(options.accelerate_config, task.texts, diagnostics, _OWN)
    if not own:
        return {}
    key = _OWN.key
    for path, value in leaves(own, ()):
        check_json(key, path, value, diagnostics)
    if not by_file:
        what = "only accelerate launch reads such a config"
        diagnostics.problem((key,), what, "add launcher: accelerate")
    is_said = divides(own) or "distributed_type" in own
    if is_said and (options.uses_deepspeed or options.fsdp):
        what = "it says how the ranks share the model, and so does another key of the spec"
        diagnostics.problem((key,), what, "keep accelerate_config, or fsdp, zero and ds_config")
    _compare_with_the_job(task, own, diagnostics)
    kept = {name: value for name, value in own.items() if name not in _OF_THE_JOB}
    if _OLD_PREFETCH in (fsdp := section_of(own, "fsdp_config")):  # each Accelerate reads its own
        kept["fsdp_config"] = {"fsdp_backward_prefetch": fsdp[_OLD_PREFETCH], **fsdp}
    for section, unread in _unread(own):
        for name, (what, hint) in unread.items():
            if section_of(own, section).get(name) not in (None, False):
                diagnostics.problem((key, section, name), what, hint, warning=True)
    if not divides(own):
        return kept
    kept["distributed_type"] = distributed_type(own)
    if task.spec.precision is None:  # a config of DeepSpeed may have it
        kept.setdefault("mixed_precision", None)
    if kept["distributed_type"] == "DEEPSPEED":
        # Accelerate's default on several nodes is pdsh.
        kept["deepspeed_config"] = {
            **section_of(own, "deepspeed_config"),
            "deepspeed_multinode_launcher": "standard",
        }
    return kept


_OF_FSDP_1 = (
    *("fsdp_forward_prefetch", "fsdp_backward_prefetch", "fsdp_sharding_strategy"),
    *("fsdp_sync_module_states", "fsdp_use_orig_params"),
)


def _unread(own: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, tuple[str, str]]]]:
    """Keys of each section that Accelerate does not read beside others: why, and what to write.

    Source: accelerate utils/dataclasses.py (FullyShardedDataParallelPlugin, DeepSpeedPlugin,
    TorchDynamoPlugin), utils/launch.py.
    """
    fsdp, deepspeed = section_of(own, "fsdp_config"), section_of(own, "deepspeed_config")
    if str(fsdp.get("fsdp_version")) == "2":
        what = "not read with FSDP2"
        yield "fsdp_config", dict.fromkeys(_OF_FSDP_1, (what, "remove it, or fsdp_version: 1"))
    policy = str(fsdp.get("fsdp_auto_wrap_policy", ""))
    if policy == "TRANSFORMER_BASED_WRAP":
        hint = (f"not read with {policy}", "fsdp_auto_wrap_policy: SIZE_BASED_WRAP")
        yield "fsdp_config", {"fsdp_min_num_params": hint}
    if policy == "SIZE_BASED_WRAP":
        hint = (f"not read with {policy}", "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP")
        yield "fsdp_config", {"fsdp_transformer_layer_cls_to_wrap": hint}
    if deepspeed.get("zero_stage") in (0, 1, 2):
        hint = ("only ZeRO stage 3 reads it", "zero_stage: 3, or remove it")
        names = ("zero3_init_flag", "zero3_save_16bit_model", "offload_param_nvme_path")
        yield "deepspeed_config", dict.fromkeys(names, hint)
    dynamo = section_of(own, "dynamo_config")
    if str(dynamo.get("dynamo_backend", "NO")).upper() == "NO":
        hint = ("nothing is compiled", "add dynamo_backend: INDUCTOR")
        yield "dynamo_config", {"dynamo_mode": hint, "dynamo_use_fullgraph": hint}


def _compare_with_the_job(task: Task, own: Mapping[str, Any], diagnostics: Diagnostics) -> None:
    """Refuse values of `accelerate_config` that differ from what the job gets by other keys."""
    spec, shape = task.spec, task.shape
    sections = [value for value in own.values() if isinstance(value, Mapping)]
    steps = [one["gradient_accumulation_steps"] for one in sections if _ACCUMULATES in one]
    accumulation = task.samples.accumulation if task.samples else None
    precision = _precision(task) if spec.precision else own.get("mixed_precision")
    given = (
        ("mixed_precision", precision, "precision"),
        ("gpu_ids", "all", "gpus_per_node"),
        ("use_cpu", not shape.gpus_per_node, "gpus_per_node"),
    )
    for name, wanted, instead in given:
        here, there = str(own.get(name)).lower(), str(wanted).lower()
        if own.get(name) and here != there:
            what = f"{name} is {here} here, and {there} in this job"
            hint = f"remove it; {instead} in the spec decides it"
            diagnostics.problem((_OWN.key, name), what, hint)
    if accumulation and steps and str(steps[0]) not in (str(accumulation), "auto"):
        what = f"{_ACCUMULATES} is {steps[0]} here, and {accumulation} according to batch"
        path = (_OWN.key, "deepspeed_config", _ACCUMULATES)
        diagnostics.problem(path, what, "remove it, or change batch")
    if distributed_type(own) == "NO" and shape.ranks_per_node * shape.nodes > 1:
        what = "accelerate launch starts one process on each node, which trains alone"
        diagnostics.problem((_OWN.key, "distributed_type"), what, "write MULTI_GPU")
    if divides(own) and not shape.gpus_per_node:
        warn_of_cpus(_OWN.key, diagnostics)


_ACCUMULATES = "gradient_accumulation_steps"


def launch_file(task: Task, options: Options | None, own: Mapping[str, Any]) -> ConfigFile:
    """accelerate.json, for `accelerate launch`: the derived keys, and those of the spec.

    `options`: None if the program gets them itself.
    """
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
    return ConfigFile(launcher.CONFIG_NAME, json.dumps({**config, **own}, indent=2) + "\n")


def _precision(task: Task) -> str:
    """Accelerate's name for the precision."""
    return {"fp16": "fp16", "bf16": "bf16"}.get(str(task.spec.precision), "no")


def _environment(
    task: Task, options: Options, by_file: bool, is_divided: bool
) -> Iterator[Variable]:
    """The variables that an Accelerator reads; `by_file`: accelerate launch sets some of them.

    `is_divided`: the spec's accelerate_config says how the ranks share the model.
    """
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
    elif not task.shape.gpus_per_node and not is_divided:
        reason = "no GPUs; without it, every rank would train alone"
        yield Variable("ACCELERATE_USE_CPU", "true", reason, "accelerate: state.py")
