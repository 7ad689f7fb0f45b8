"""What a spec for GPT-NeoX may not say, whatever the user's files contain."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import given_arguments, refuse_arguments
from clusterjobs.frameworks.ds_config import check_json, leaves
from clusterjobs.frameworks.flags import table
from clusterjobs.frameworks.gpt_neox.launch_config import ORIGINS, OURS, Options
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model_keys import Model, ModelOfConfig
from clusterjobs.spec.references import has_variable

NODES = {
    **dict.fromkeys(
        ("hostfile", "include", "exclude", "num_nodes", "num_gpus"),
        "the job, which writes its own host file (DLTS_HOSTFILE)",
    ),
    **dict.fromkeys(
        ("master_addr", "master_port"), "the job, which sets MASTER_ADDR and MASTER_PORT"
    ),
}


def check_spec(experiment: Experiment, options: Options, diagnostics: Diagnostics) -> None:
    """Check the keys of the spec that need no config file."""
    _check_neox(options, diagnostics)
    _check_model(experiment.model, diagnostics)
    _check_checkpoints(experiment, diagnostics)
    names = ("conf_dir", "d", "conf_file", "hostfile", "H")
    refuse_arguments(
        experiment, diagnostics, dict.fromkeys(names, "config_dir, configs and the job")
    )
    _check_arguments(experiment, diagnostics)
    if experiment.prefix:
        hint = "remove it: DeepSpeed starts the ranks with its own srun"
        diagnostics.problem(("prefix",), "prefix does not reach the ranks of gpt-neox", hint)
    if "WANDB_API_KEY" in experiment.secrets:
        hint = "keep it in ~/.netrc on the cluster, or use whole nodes"
        what = "deepy.py writes WANDB_API_KEY on srun's command line, where `ps` shows it"
        diagnostics.problem(("secrets", "WANDB_API_KEY"), what, hint, warning=True)


_FLAGS_OF_DEEPY = (
    *("autotuning", "eval_results_prefix", "eval_tasks", "hostfile", "iteration"),
    *("memory_profiling", "memory_profiling_path", "sample_input_file", "sample_output_file"),
)


def _check_arguments(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """deepy.py has a few flags; the keys of its configs are none of them."""
    for argument in given_arguments(experiment):
        key = argument.key
        is_flag = key in _FLAGS_OF_DEEPY or key.startswith("wandb_")
        if key in table("gpt-neox").types and not is_flag:
            what = f"deepy.py has no flag {argument.name}: {key} is a key of its configs"
            value = " ".join(argument.values) or "true"
            diagnostics.problem(argument.path, what, f"write neox: {{{key}: {value}}}")


def _check_checkpoints(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """The path is written into a config file, in which nothing is expanded."""
    path = experiment.checkpoints.path if experiment.checkpoints else "/"
    if not path.startswith("/") or "${" in path or has_variable(path):
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
