"""Keys of ds_config that DeepSpeed refuses, ignores or overrides, beside those that are unknown.

Source: DeepSpeed 0.19.8.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.flags import Table, mapping_findings
from clusterjobs.frameworks.rules import Finding, Rule, check_rules, rule


class DsConfig(NamedTuple):
    """The spec's own keys of the config, and what the spec says elsewhere: ZeRO's stage, if any."""

    own: Mapping[str, Any]
    stage: int | None
    precision: str | None

    def section(self, *names: str) -> Mapping[str, Any]:
        """The mapping at a path of the config; empty where it is missing or no mapping."""
        found: Any = self.own
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def check_keys(config: DsConfig, known: Table, diagnostics: Diagnostics) -> None:
    """Compare all keys with DeepSpeed's, and check those that do not fit one another."""
    check_rules(RULES, config, diagnostics)
    for finding in mapping_findings(config.own, known, ("ds_config",)):
        diagnostics.problem(*finding)


_REMOVED = {
    "amp": "precision: fp16, or bf16",
    "compression_training": "",
    "curriculum_learning": "data_efficiency.data_sampling.curriculum_learning",
    "eigenvalue": "",
    "elasticity": "batch: {micro: ..., global: ...}",
    "graph_harvesting": "",
    "nebula": "",
    "progressive_layer_drop": "",
    "quantize_training": "",
    "sparse_attention": "",
    "sparse_gradients": "",
}
_REMOVED_OF_ZERO = ("mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param")


@rule(
    "ds_config has a feature that DeepSpeed removed: amp, elasticity, sparse_gradients ...",
    "DeepSpeed 0.19.8 raises DeepSpeedConfigError; older versions still have them",
    "DeepSpeed runtime/config.py, _reject_removed_config_keys",
    warning=True,
)
def removed_features(config: DsConfig) -> Iterator[Finding]:
    zero = config.section("zero_optimization")
    keys = [(key,) for key in config.own if key in _REMOVED]
    for key in (*keys, *(("zero_optimization", key) for key in zero if key in _REMOVED_OF_ZERO)):
        instead = _REMOVED.get(key[0], "")
        yield Finding(
            ("ds_config", *key),
            f"DeepSpeed has removed {'.'.join(key)}: 0.19.8 does not start with it",
            f"write {instead} instead" if instead else "remove it, or use an older DeepSpeed",
        )


@rule(
    "fp16's loss scale in ds_config, without precision: fp16",
    "DeepSpeed does not read it",
    "DeepSpeed runtime/engine.py",
    warning=True,
)
def loss_scale_without_fp16(config: DsConfig) -> Iterator[Finding]:
    if set(config.section("fp16")) - {"enabled"} and config.precision != "fp16":
        what = f"not read: the precision is {config.precision or 'not set'}"
        yield Finding(("ds_config", "fp16"), what, "write precision: fp16, or remove it")


@rule(
    "offload_optimizer without ZeRO",
    "DeepSpeed keeps the optimizer on the GPU",
    "DeepSpeed runtime/engine.py, _do_optimizer_sanity_check",
    warning=True,
)
def offload_without_zero(config: DsConfig) -> Iterator[Finding]:
    if offloads(config, "offload_optimizer") and not config.stage:
        yield Finding(
            ("ds_config", "zero_optimization", "offload_optimizer"),
            "has no effect without ZeRO",
            "write zero: {stage: 1} or a higher stage",
        )


@rule(
    "offload_param, or a stage3_ key, with a ZeRO stage below 3",
    "DeepSpeed does not read it",
    "DeepSpeed runtime/zero/config.py",
    warning=True,
)
def parameters_below_stage_3(config: DsConfig) -> Iterator[Finding]:
    for key in config.section("zero_optimization"):
        if (key.startswith("stage3_") or key == "offload_param") and (config.stage or 0) < 3:
            yield Finding(
                ("ds_config", "zero_optimization", key),
                f"only ZeRO stage 3 reads it, and the stage is {config.stage or 0}",
                "write zero: {stage: 3}, or remove it",
            )


def offloads(config: DsConfig, key: str) -> bool:
    """Whether the config moves something to the host's memory or a disk."""
    zero = config.section("zero_optimization")
    device = config.section("zero_optimization", key).get("device", "none")
    return device != "none" or (key == "offload_optimizer" and zero.get("cpu_offload") is True)


@rule(
    "max_grad_norm among the parameters of ds_config's optimizer",
    "DeepSpeed raises ValueError, or warns where the script brings its own optimizer",
    "DeepSpeed runtime/engine.py, _configure_basic_optimizer",
    warning=True,
)
def clipping_in_the_optimizer(config: DsConfig) -> Iterator[Finding]:
    params = config.section("optimizer", "params")
    if "max_grad_norm" in params:
        yield Finding(
            ("ds_config", "optimizer", "params", "max_grad_norm"),
            "is not a parameter of DeepSpeed's optimizers",
            f"ds_config: {{gradient_clipping: {params['max_grad_norm']}}}",
        )


@rule(
    "offload to nvme without nvme_path",
    "DeepSpeed stops when it makes the file names (TypeError: NoneType)",
    "DeepSpeed runtime/swap_tensor/optimizer_utils.py, partitioned_param_swapper.py",
)
def nvme_without_a_path(config: DsConfig) -> Iterator[Finding]:
    for key in ("offload_optimizer", "offload_param"):
        section = config.section("zero_optimization", key)
        if section.get("device") == "nvme" and not section.get("nvme_path"):
            path = ("ds_config", "zero_optimization", key, "device")
            yield Finding(path, "nvme needs a folder", "add nvme_path: /scratch/offload")


@rule(
    "settings of wandb, tensorboard, the profiler or another section without `enabled: true`",
    "DeepSpeed leaves it out",
    "DeepSpeed monitor/config.py, profiling/config.py, comm/config.py",
    warning=True,
)
def sections_that_are_off(config: DsConfig) -> Iterator[Finding]:
    for name in _OFF_BY_DEFAULT:
        section = config.section(name)
        if section and "enabled" not in section:
            yield Finding(("ds_config", name), "is off by default", "add enabled: true to it")


_OFF_BY_DEFAULT = (
    *("comet", "comms_logger", "csv_monitor", "data_efficiency", "flops_profiler"),
    *("hybrid_engine", "tensorboard", "wandb"),
)


@rule(
    "`warmup_num_steps` that is not below `total_num_steps` of DeepSpeed's scheduler",
    "the learning rate falls to its minimum right after the warm-up",
    "DeepSpeed runtime/lr_schedules.py, WarmupDecayLR",
    warning=True,
)
def warm_up_without_a_decay(config: DsConfig) -> Iterator[Finding]:
    params = config.section("scheduler", "params")
    warm_up, total = params.get("warmup_num_steps"), params.get("total_num_steps")
    if isinstance(warm_up, (int, float)) and isinstance(total, (int, float)) and warm_up >= total:
        path = ("ds_config", "scheduler", "params", "warmup_num_steps")
        what = f"a warm-up of {warm_up} steps, and total_num_steps is {total}"
        yield Finding(path, what, f"fewer than {total}, or more in total_num_steps")


@rule(
    "keys of `zero_optimization` without ZeRO",
    "DeepSpeed does not read them",
    "DeepSpeed runtime/engine.py, _configure_optimizer",
    warning=True,
)
def keys_without_zero(config: DsConfig) -> Iterator[Finding]:
    zero = config.section("zero_optimization")
    if config.stage or zero.get("stage"):
        return
    for key in _OF_ANY_STAGE:
        if key in zero:
            path = ("ds_config", "zero_optimization", key)
            yield Finding(
                path, "has no effect without ZeRO", "write zero: {stage: 1}, or remove it"
            )


_OF_ANY_STAGE = ("overlap_comm", "reduce_bucket_size", "allgather_bucket_size", "reduce_scatter")


RULES: tuple[Rule[DsConfig], ...] = (
    sections_that_are_off,
    warm_up_without_a_decay,
    keys_without_zero,
    nvme_without_a_path,
    removed_features,
    loss_scale_without_fp16,
    offload_without_zero,
    parameters_below_stage_3,
    clipping_in_the_optimizer,
)
