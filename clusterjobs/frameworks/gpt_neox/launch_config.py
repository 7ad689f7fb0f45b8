"""The config file that clusterjobs adds to the user's GPT-NeoX configs, and its keys.

A key that the spec does not set is left to the user's files: deepy.py refuses a key that is in two.
Source: GPT-NeoX 2.0, megatron/neox_arguments.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import given_arguments, refuse_arguments
from clusterjobs.frameworks.base import JOB_DIR, LogLine, Task
from clusterjobs.frameworks.ds_config import ZERO, Zero, check_json, leaves
from clusterjobs.frameworks.flags import table
from clusterjobs.frameworks.gpt_neox.config import Given
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Model, ModelOfConfig
from clusterjobs.spec.model import Key, TopLevelKeys
from clusterjobs.text import Text, joined

LAUNCH_NAME = "clusterjobs_launch.yml"
MASTER_NAME = "clusterjobs_master.yml"  # templates/launch/deepy.sh.j2 writes it in the job

ITERATION = LogLine(
    r"samples/sec: (?P<samples_per_second>[\d.]+) \| iteration +(?P<step>\d+)/ *(?P<steps>\d+) \| "
    r"elapsed time per iteration \(ms\): (?P<milliseconds>[\d.]+) \| .*?"
    r"approx flops per GPU: (?P<tflops_per_gpu>[\d.]+)TFLOPS \| "
    r"(?:.*?lm_loss: (?P<loss>\S+) \|)?",
    " samples/sec: 51.234 | iteration       10/      50 | elapsed time per iteration (ms): 624.6 "
    "| learning rate: 1.234E-04 | approx flops per GPU: 112.3TFLOPS | lm_loss: 7.123456E+00 "
    "| number of skipped iterations:   0 | number of nan iterations:   0 |",
    "GPT-NeoX 2.0, megatron/logging.py; composed from its code, not from a run",
)


class Options(TopLevelKeys):
    """The user's own YAML files, `zero`, and further keys of a config in `neox`."""

    writes_files: ClassVar[bool] = True

    configs: Annotated[
        tuple[field_types.Path, ...],
        Field(min_length=1),
        Key(
            "your own YAML files",
            "[configs/1-3B.yml]",
            schedules=False,
            adds_to="items",
            belongs_with=("size",),
        ),
    ]
    config_dir: Annotated[
        field_types.Path | None,
        Key(
            "the folder of `configs`, relative to `workdir`",
            "configs",
            schedules=False,
            belongs_with=("size",),
        ),
    ] = None
    zero: Annotated[Zero | None, ZERO] = None
    neox: Annotated[
        dict[str, Any],
        Key(
            "further keys of a config",
            "{checkpoint_factor: 500}",
            schedules=False,
            writes_file=True,
        ),
    ] = Field(default_factory=dict)


def launch_config(task: Task, options: Options) -> dict[str, Any]:
    """The launch file: how the ranks are started, the spec's values, and `neox`."""
    own = {key.replace("-", "_"): value for key, value in options.neox.items()}
    return {**_launch(task), **_of_the_spec(task, options), **own}


def _launch(task: Task) -> dict[str, Any]:
    """How DeepSpeed starts the ranks."""
    if task.spec.software.container:  # there is no srun inside
        return {"launcher": "pdsh", "no_ssh_check": True}
    launch: dict[str, Any] = {"launcher": "slurm", "deepspeed_slurm": True, "no_ssh_check": True}
    if task.shape.nodes == 1:
        launch["force_multi"] = True  # else DeepSpeed starts every rank as rank 0 (issue 849)
    return launch


def _of_the_spec(task: Task, options: Options) -> dict[str, Any]:
    """The keys that the spec sets; the user's files set the others."""
    found = dict[str, Any]()
    if (samples := task.samples) and task.spec.batch:
        found["train_batch_size"] = samples.global_
        found["train_micro_batch_size_per_gpu"] = samples.micro
        found["gradient_accumulation_steps"] = samples.accumulation
    return {**found, **_beside_the_batch(task.spec, options)}


def _beside_the_batch(spec: Experiment, options: Options) -> dict[str, Any]:
    found = dict[str, Any]()
    if "parallel" in spec.model_fields_set:
        pipeline = spec.parallel.pipeline
        found["pipe_parallel_size"] = pipeline if pipeline > 1 else 0  # 0: no pipeline module
        found["model_parallel_size"] = spec.parallel.tensor
    if model := spec.model:
        found["num_layers"], found["hidden_size"] = model.layers, model.hidden
        found["num_attention_heads"] = model.heads
        found["seq_length"] = found["max_position_embeddings"] = model.sequence
    found.update(_PRECISION.get(spec.precision or "", {}))
    if options.zero:
        found["zero_optimization"] = {"stage": options.zero.stage}
    if spec.checkpoints:
        found["save"] = found["load"] = spec.checkpoints.path
    return found


def values_of_the_spec(spec: Experiment, options: Options) -> dict[str, Any]:
    """The keys that the spec sets, except the batch, and those of `neox`."""
    own = {key.replace("-", "_"): value for key, value in options.neox.items()}
    return {**_beside_the_batch(spec, options), **own}


def keys_of_the_spec(
    spec: Experiment, options: Options, diagnostics: Diagnostics
) -> dict[str, Given]:
    """The keys that the spec sets, except the batch, and those of `neox`."""
    derived = {
        key: Given(value, diagnostics.where(ORIGINS[key]), ORIGINS[key])
        for key, value in _beside_the_batch(spec, options).items()
    }
    own = {
        key.replace("-", "_"): Given(value, diagnostics.where(("neox", key)), ("neox", key))
        for key, value in options.neox.items()
    }
    return {**derived, **own}


_PRECISION: dict[str, dict[str, Any]] = {
    "fp32": {"precision": "fp32"},
    "fp16": {"precision": "fp16", "fp16": {"enabled": True}},
    "bf16": {"precision": "bfloat16", "bf16": {"enabled": True}},
}

OURS = ("launcher", "deepspeed_slurm", "no_ssh_check", "force_multi")
ORIGINS: dict[str, tuple[str, ...]] = {
    "train_batch_size": ("batch",),
    "train_micro_batch_size_per_gpu": ("batch",),
    "gradient_accumulation_steps": ("batch",),
    "pipe_parallel_size": ("parallel",),
    "model_parallel_size": ("parallel",),
    "num_layers": ("model",),
    "hidden_size": ("model",),
    "num_attention_heads": ("model",),
    "seq_length": ("model",),
    "max_position_embeddings": ("model",),
    "precision": ("precision",),
    "fp16": ("precision",),
    "bf16": ("precision",),
    "zero_optimization": ("zero",),
    "save": ("checkpoints",),
    "load": ("checkpoints",),
}


def written(spec: Experiment, options: Options, diagnostics: Diagnostics) -> dict[str, str]:
    """The keys of the launch file, each with the key of the spec that sets it."""
    given = {*spec.model_fields_set, *options.model_fields_set}
    said = {
        key: diagnostics.describe_key(path) for key, path in ORIGINS.items() if path[0] in given
    }
    own = {key.replace("-", "_"): diagnostics.describe_key(("neox", key)) for key in options.neox}
    return {**own, **said, **dict.fromkeys(OURS, "framework: gpt-neox")}


# ------------------------------------------------------------------ config names
# The names of GPT-NeoX's config files, the user's and ours, as deepy.py takes them.


OUR_FILES = (joined(JOB_DIR, "/", LAUNCH_NAME), joined(JOB_DIR, "/", MASTER_NAME))


def with_suffix(name: str) -> str:
    """deepy.py takes `small` for `small.yml`."""
    return name if name.endswith((".yml", ".json")) else f"{name}.yml"


def check_names(files: tuple[str, ...], diagnostics: Diagnostics) -> None:
    """deepy.py copies each file beside the checkpoints, under its name without the folder."""
    names = [LAUNCH_NAME, MASTER_NAME, *(file.rpartition("/")[2] for file in files)]
    for index, name in enumerate(names[2:]):
        if name.endswith(".yaml.yml"):
            what = f"deepy.py would look for {name}"
            diagnostics.problem(
                ("configs", index), what, "rename the file: its name must end in .yml"
            )
        if name in names[: index + 2]:
            diagnostics.problem(
                ("configs", index),
                f"two configs have the name {name}: deepy.py refuses that",
                "rename one of them",
            )


def warn_of_unread(
    files: tuple[str, ...], texts: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    """Warn of files whose content was not checked."""
    for index, file in enumerate(files):
        if file not in texts:
            diagnostics.problem(
                ("configs", index),
                f"{file} is not on this machine and was not checked",
                "put a copy next to the spec, under the same path",
                warning=True,
            )


# ------------------------------------------------------------------ spec checks
# What a spec for GPT-NeoX may not say, whatever the user's files contain.


NODES = {
    **dict.fromkeys(
        ("hostfile", "include", "exclude", "num_nodes", "num_gpus"),
        "the job, which writes its own host file (DLTS_HOSTFILE)",
    ),
    **dict.fromkeys(
        ("master_addr", "master_port"), "the job, which sets MASTER_ADDR and MASTER_PORT"
    ),
}


def check_spec(spec: Experiment, options: Options, diagnostics: Diagnostics) -> None:
    """Check the keys of the spec that need no config file."""
    _check_neox(options, diagnostics)
    _check_model(spec.model, diagnostics)
    _check_checkpoints(spec, diagnostics)
    names = ("conf_dir", "d", "conf_file", "hostfile", "H")
    refuse_arguments(spec, diagnostics, dict.fromkeys(names, "config_dir, configs and the job"))
    _check_arguments(spec, diagnostics)
    if spec.prefix:
        hint = "remove it: DeepSpeed starts the ranks with its own srun"
        diagnostics.problem(("prefix",), "prefix does not reach the ranks of gpt-neox", hint)
    if "WANDB_API_KEY" in spec.secrets:
        hint = "keep it in ~/.netrc on the cluster, or use whole nodes"
        what = "deepy.py writes WANDB_API_KEY on srun's command line, where `ps` shows it"
        diagnostics.problem(("secrets", "WANDB_API_KEY"), what, hint, warning=True)


_FLAGS_OF_DEEPY = (
    *("autotuning", "eval_results_prefix", "eval_tasks", "hostfile", "iteration"),
    *("memory_profiling", "memory_profiling_path", "sample_input_file", "sample_output_file"),
)


def _check_arguments(spec: Experiment, diagnostics: Diagnostics) -> None:
    """deepy.py has a few flags; the keys of its configs are none of them."""
    for argument in given_arguments(spec):
        key = argument.key
        is_flag = key in _FLAGS_OF_DEEPY or key.startswith("wandb_")
        if key in table("gpt-neox").types and not is_flag:
            what = f"deepy.py has no flag {argument.name}: {key} is a key of its configs"
            value = " ".join(argument.texts) or "true"
            diagnostics.problem(argument.path, what, f"write neox: {{{key}: {value}}}")


def _check_checkpoints(spec: Experiment, diagnostics: Diagnostics) -> None:
    """The path is written into a config file, in which nothing is expanded."""
    path = spec.checkpoints.path if spec.checkpoints else "/"
    if isinstance(path, Text) or not path.startswith("/") or "${" in path:
        diagnostics.problem(
            ("checkpoints", "path"),
            "the path is written into a config file, where variables are not expanded",
            "write an absolute path without variables: /fsx/checkpoints/my-run",
        )


_KEYS_OF_NEOX = {
    "kv_heads": "num_kv_heads: {}",
    "ffn": "intermediate_size: {}",
    "glu": "activation: swiglu",
    "tied": "no_weight_tying: true",
    "experts": "moe_num_experts: {}",
    "experts_per_token": "moe_top_k: {}",
}


def _check_model(model: Model | None, diagnostics: Diagnostics) -> None:
    """Optional keys of `model` are read from the configs, where GPT-NeoX has names of its own."""
    if isinstance(model, ModelOfConfig):
        what = "GPT-NeoX does not read it: its own configs say what the model is"
        diagnostics.problem(("model", "config"), what, "remove model, and write num_layers: ...")
    if model is None or isinstance(model, ModelOfConfig):
        return
    for key, neox in _KEYS_OF_NEOX.items():
        value = getattr(model, key)
        if value is not None and key in model.model_fields_set and value != _DEFAULTS.get(key):
            what = f"{key} is not passed to GPT-NeoX"
            hint = f"write neox: {{{neox.format(value)}}}, or put it into a file of configs"
            diagnostics.problem(("model", key), what, hint)


_DEFAULTS = {"glu": False, "tied": True}


def _check_neox(options: Options, diagnostics: Diagnostics) -> None:
    for key in options.neox:
        known = key.replace("-", "_")
        if known == "max_position_embeddings":
            continue  # the sequence length is only its default
        if known in ORIGINS or known in NODES or known in OURS:
            by = f"{ORIGINS[known][0]}:" if known in ORIGINS else "the job"
            hint = "remove it here, so that the plan can check it"
            diagnostics.problem(("neox", key), f"{key} is set by {by}", hint)
    for path, value in leaves(options.neox, ()):
        check_json("neox", path, value, diagnostics)
