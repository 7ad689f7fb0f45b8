"""What fairseq cannot run, found before it starts.

Source: fairseq 0.12, fairseq/options.py, fairseq/trainer.py and fairseq_cli/train.py.
"""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import argument_key, refuse_derived
from clusterjobs.frameworks.fairseq.rules import (
    ARGUMENT_RULES,
    TRAINING_RULES,
    Given,
    override_findings,
)
from clusterjobs.frameworks.fairseq.settings import (
    OF_THE_LAUNCHER,
    Setting,
    Settings,
    argument_keys,
    flag_of,
    half_of,
)
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.rules import check_rules
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import show


def check_spec(
    spec: Experiment, fairseq: Settings, given: frozenset[str], diagnostics: Diagnostics
) -> None:
    """Check everything but the single arguments. `given`: fairseq's keys that are in `args`."""
    _check_program(spec, fairseq, diagnostics)
    _check_kind(spec, fairseq, diagnostics)
    _check_batch(spec, fairseq, given, diagnostics)
    _check_bucket(spec, fairseq, diagnostics)
    _check_precision(spec, fairseq, diagnostics)


def check_values(given: Given, diagnostics: Diagnostics) -> None:
    """Check the arguments, by the rules first: they say more than the tables of flags."""
    check_rules((*ARGUMENT_RULES, *TRAINING_RULES), given, diagnostics)
    if not given.is_hydra:
        known = table("fairseq-train", given.task.spec)
        choices = (name for name, kind in known.types.items() if isinstance(kind, list))
        extended = set(map(argument_key, choices)) if given.has("user_dir") else ()
        check_arguments(given.task.spec, diagnostics, known, extended)
        return
    for finding in override_findings(given):
        diagnostics.problem(*finding)


def _check_program(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    for key in ("script", "command"):
        if getattr(spec, key) is not None:
            diagnostics.problem(
                (key,),
                f"fairseq runs {fairseq.cli}, not a {key} of yours",
                "remove it; your own models: args: {user-dir: ...}",
            )


def _check_kind(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    is_hydra = fairseq.cli == "fairseq-hydra-train"
    if fairseq.arch is None and not (is_hydra and fairseq.config_name):
        diagnostics.problem(
            ("fairseq", "arch") if "fairseq" in spec.model_fields_set else ("fairseq",),
            "arch is missing: fairseq would train its default architecture or none",
            "add `fairseq: {arch: roberta_large}`"
            + (", or config_name: of a config with a model" if is_hydra else ""),
        )
    if fairseq.data is None and not (is_hydra and fairseq.config_name):
        diagnostics.problem(
            ("fairseq",),
            "data is missing: the folder written by fairseq-preprocess",
            "add `fairseq: {data: /fsx/data/wiki-bin}`",
        )
    for key in ("config_dir", "config_name"):
        if getattr(fairseq, key) is not None and not is_hydra:
            diagnostics.problem(
                ("fairseq", key),
                "fairseq-train reads no config file",
                "cli: fairseq-hydra-train, or remove it",
            )
    if spec.model and fairseq.arch and half_of(fairseq.arch) is None:
        diagnostics.problem(
            ("model",),
            f"not supported for {fairseq.arch}, only for roberta* and transformer_lm*",
            "remove it, and use fairseq's own arguments: args: {encoder-layers: 24}",
        )


def _check_batch(
    spec: Experiment, fairseq: Settings, given: frozenset[str], diagnostics: Diagnostics
) -> None:
    """fairseq does not start without a batch size (fairseq_cli/train.py asserts it)."""
    sizes = {"batch_size", "max_sentences", "max_tokens"}
    if spec.batch is None and not given & sizes and not fairseq.config_name:
        diagnostics.missing(
            "batch",
            "batch is missing: fairseq needs a batch size",
            "add `batch: {micro: 16, global: 2048}`, or args: {max-tokens: 4096}",
        )


_READ_BUCKETS = ("pytorch_ddp", "c10d")


def _check_bucket(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    arguments = spec.args if isinstance(spec.args, dict) else {}
    for name in ("ddp-backend", "distributed_training.ddp_backend"):
        backend = arguments.get(name)
        if fairseq.bucket_cap_mb and backend is not None and backend not in _READ_BUCKETS:
            shown = str(backend) if isinstance(backend, tuple) else show(backend)
            diagnostics.problem(
                ("fairseq", "bucket_cap_mb"),
                f"{shown} ({diagnostics.line_of(('args', name))}) ignores it",
                "ddp-backend: pytorch_ddp, which is the default",
                warning=True,
            )


def refuse_settings(spec: Experiment, settings: list[Setting], diagnostics: Diagnostics) -> None:
    """Refuse `args` that are derived or that the launcher decides."""
    origins = {
        _name_of(setting): diagnostics.describe_key(setting.origin)
        for setting in settings
        if setting.value is not None
    }
    if "batch_size" in origins:
        origins["max_sentences"] = origins["batch_size"]  # its older name
    ranks = f"{diagnostics.describe_key(('nodes',))} and the launcher"
    origins.update(dict.fromkeys(OF_THE_LAUNCHER, ranks))
    for position, name, key in argument_keys(spec):
        if key in origins:
            refuse_derived(position, name, origins[key], diagnostics)
        elif key in ("arch", "task", "criterion"):
            diagnostics.problem(
                ("args", position),
                f"{name} is a key of the spec",
                f"remove it, and write fairseq: {{{key}: ...}}",
            )


def _name_of(setting: Setting) -> str:
    return flag_of(setting).lstrip("-").replace("-", "_")


def _check_precision(spec: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    """Refuse bf16 with fairseq-train, which then uses a TPU; fairseq-hydra-train can use GPUs."""
    if fairseq.cli == "fairseq-hydra-train":
        return
    hint = "fairseq: {cli: fairseq-hydra-train}, which trains in bf16 on GPUs"
    if spec.precision == "bf16":
        what = "fairseq-train cannot use bf16 on a GPU: --bf16 selects a TPU (fairseq/options.py)"
        diagnostics.problem(("precision",), what, hint)
    for position, name, key in argument_keys(spec):
        if key == "memory_efficient_bf16" or (key == "bf16" and spec.precision is None):
            what = f"{name} selects a TPU in fairseq-train (fairseq/options.py)"
            diagnostics.problem(("args", position), what, hint)
        if key == "memory_efficient_fp16" and spec.precision in ("fp32", "bf16"):
            where = diagnostics.describe_key(("precision",))
            what = f"{name} trains in fp16, and {where} is {spec.precision}"
            diagnostics.problem(("args", position), what, "precision: fp16, or remove it")
