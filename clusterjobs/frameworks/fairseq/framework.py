"""fairseq's two programs, `fairseq-train` and `fairseq-hydra-train`, from one spec.

The world size is always given: if fairseq infers it, each rank may train a model of its own and
exit with 0. Source: fairseq 0.12, fairseq/distributed/utils.py and fairseq_cli/train.py.
"""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import refuse_derived
from clusterjobs.frameworks.base import Framework, LogLine, Program, Saving, Task, Variable
from clusterjobs.frameworks.fairseq.command_line import (
    argument_keys,
    flag_of,
    hydra_command,
    override_of,
    train_command,
)
from clusterjobs.frameworks.fairseq.settings import (
    OF_THE_LAUNCHER,
    Setting,
    Settings,
    derived_settings,
    half_of,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel


class Options(SpecModel):
    """`fairseq`: its keys beside the common ones of a spec."""

    fairseq: Settings = Settings()


_INNER = LogLine(
    r"epoch (?P<epoch>\d+): +(?P<step_of_epoch>\d+) / (?P<steps_of_epoch>\d+) "
    r"loss=(?P<loss>[^,]+), .*?wps=(?P<words_per_second>[\d.]+), "
    r"ups=(?P<steps_per_second>[\d.]+), .*?num_updates=(?P<step>\d+)",
    "2026-11-21 06:49:36 | INFO | train_inner | epoch 001:      6 / 9 loss=7.687, ppl=206.07, "
    "wps=1551.4, ups=1.62, wpb=960, bsz=15, num_updates=6, lr=0.001, gnorm=0.946, train_wall=1, "
    "wall=10",
    "fairseq-fixed 0.12.3.1; hydra's begin with [date][train_inner][INFO] - ",
)


class Fairseq(Framework):
    """`framework: fairseq`."""

    name = "fairseq"
    saving = Saving(
        "never",
        "it saves every save-interval-updates; --stop-time-hours counts the hours of all attempts",
    )
    launchers = ("srun", "torchrun")
    options = Options
    log_lines = (_INNER,)
    reads_precision = True

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        fairseq, experiment = options.fairseq, task.experiment
        given = frozenset(key for _, _, key in argument_keys(experiment))
        settings = derived_settings(task, fairseq, given)
        _check_program(experiment, fairseq, diagnostics)
        _check_kind(experiment, fairseq, diagnostics)
        _check_parallel(experiment, diagnostics)
        _check_batch(experiment, fairseq, given, diagnostics)
        _check_bucket(experiment, fairseq, diagnostics)
        _refuse_arguments(experiment, settings, diagnostics)
        _derive(task, provenance)
        on_cpus = not task.shape.gpus_per_node and task.shape.world_size > 1
        command = hydra_command if fairseq.cli == "fairseq-hydra-train" else train_command
        return Program(
            command(experiment, fairseq, settings, on_cpus),
            is_python=False,
            environment=_environment(experiment),
            origins=_origins(settings, diagnostics),
        )


_OF_FAIRSEQ = {"--config-dir": "config_dir", "--config-name": "config_name", "task.data": "data"}


def _origins(settings: list[Setting], diagnostics: Diagnostics) -> dict[str, str]:
    """The key of the spec for each derived flag or override."""
    keys = {name: ("fairseq", key) for name, key in _OF_FAIRSEQ.items()}
    origins = {name: diagnostics.describe_key(path) for name, path in keys.items()}
    for setting in settings:
        for name in (flag_of(setting), override_of(setting).partition("=")[0]):
            origins[name] = diagnostics.describe_key(setting.origin)
    return origins


def _environment(experiment: Experiment) -> tuple[Variable, ...]:
    """Unless the spec sets the opposite variable: with both, torch loads nothing."""
    if "TORCH_FORCE_WEIGHTS_ONLY_LOAD" in experiment.env:
        return ()
    return (
        Variable(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD",
            "1",
            "torch 2.6 and later need it for fairseq's checkpoints",
            "fairseq checkpoint_utils.py; torch, Miscellaneous Environment Variables",
        ),
    )


def _check_program(experiment: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    for key in ("script", "command"):
        if getattr(experiment, key) is not None:
            diagnostics.problem(
                (key,),
                f"fairseq runs {fairseq.cli}, not a {key} of yours",
                "remove it; your own models: args: {user-dir: ...}",
            )


def _check_kind(experiment: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    is_hydra = fairseq.cli == "fairseq-hydra-train"
    if fairseq.arch is None and not (is_hydra and fairseq.config_name):
        diagnostics.problem(
            ("fairseq", "arch") if "fairseq" in experiment.model_fields_set else ("fairseq",),
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
    if experiment.model and fairseq.arch and half_of(fairseq.arch) is None:
        diagnostics.problem(
            ("model",),
            f"not supported for {fairseq.arch}, only for roberta* and transformer_lm*",
            "remove it, and use fairseq's own arguments: args: {encoder-layers: 24}",
        )


def _check_parallel(experiment: Experiment, diagnostics: Diagnostics) -> None:
    for key in ("tensor", "pipeline"):
        if (size := getattr(experiment.parallel, key)) > 1:
            diagnostics.problem(
                ("parallel", key),
                f"{key}: {size}, but fairseq trains data parallel: each rank holds the whole model",
                f"remove it, or framework: megatron-deepspeed, which has {key} parallelism",
            )


def _check_batch(
    experiment: Experiment, fairseq: Settings, given: frozenset[str], diagnostics: Diagnostics
) -> None:
    """fairseq does not start without a batch size (fairseq_cli/train.py asserts it)."""
    sizes = {"batch_size", "max_sentences", "max_tokens"}
    if experiment.batch is None and not given & sizes and not fairseq.config_name:
        diagnostics.missing(
            "batch",
            "batch is missing: fairseq needs a batch size",
            "add `batch: {micro: 16, global: 2048}`, or args: {max-tokens: 4096}",
        )


_READ_BUCKETS = ("pytorch_ddp", "c10d")


def _check_bucket(experiment: Experiment, fairseq: Settings, diagnostics: Diagnostics) -> None:
    arguments = experiment.args if isinstance(experiment.args, dict) else {}
    for name in ("ddp-backend", "distributed_training.ddp_backend"):
        backend = arguments.get(name)
        if fairseq.bucket_cap_mb and backend is not None and backend not in _READ_BUCKETS:
            diagnostics.problem(
                ("fairseq", "bucket_cap_mb"),
                f"{backend} ({diagnostics.line_of(('args', name))}) ignores it",
                "ddp-backend: pytorch_ddp, which is the default",
                warning=True,
            )


def _refuse_arguments(
    experiment: Experiment, settings: list[Setting], diagnostics: Diagnostics
) -> None:
    origins = {_name_of(setting): diagnostics.describe_key(setting.origin) for setting in settings}
    if "batch_size" in origins:
        origins["max_sentences"] = origins["batch_size"]  # its older name
    ranks = f"{diagnostics.describe_key(('nodes',))} and the launcher"
    origins.update(dict.fromkeys(OF_THE_LAUNCHER, ranks))
    for position, name, key in argument_keys(experiment):
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


def _derive(task: Task, provenance: Provenance) -> None:
    provenance.record(
        "fairseq.distributed_world_size",
        task.shape.world_size,
        "always given: without it fairseq counts one node's GPUs, and with 1 every rank "
        "trains a model of its own",
        "fairseq dataclass/configs.py, distributed/utils.py",
    )
    if samples := task.samples:
        provenance.record(
            "fairseq.update_freq",
            samples.accumulation,
            f"global {samples.global_} / (micro {samples.micro} x data parallel "
            f"{task.parallelism.data})",
            "fairseq trainer.py",
        )
