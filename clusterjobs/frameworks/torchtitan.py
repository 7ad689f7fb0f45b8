"""torchtitan's trainer: its config, and the settings that follow from the spec as overrides.

Version 0.3 takes `--module` and `--config`, versions up to 0.2 take `--job.config_file`; the
overrides have the same names in both. Source: torchtitan 0.3.0 and 0.2.2, config/.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import counted
from clusterjobs.frameworks.arguments import arguments_of, given_arguments, refuse_arguments
from clusterjobs.frameworks.base import (
    Foreseen,
    Framework,
    LogLine,
    Program,
    Saving,
    Task,
    folder_on_the_node,
)
from clusterjobs.frameworks.flags import check_arguments, table
from clusterjobs.frameworks.rules import Case, GivenArguments, Rule, check_rules, row
from clusterjobs.frameworks.torch_foreseen import of_torchtitan
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys
from clusterjobs.text import Value, expanding, show
from clusterjobs.yaml.document import Path

_METRICS = LogLine(  # with colours, unless disable_color_printing is set
    r"(?<!validate )step: +(?P<step>\d+) .*?loss: +(?P<loss>\S+) .*?"
    r"grad_norm: +(?P<gradient_norm>\S+) .*?memory: +(?P<gib>[\d.]+)GiB.*?"
    r"tps: (?P<tokens_per_second_per_gpu>[\d,]+) .*?tflops: (?P<tflops_per_gpu>[\d,.]+)",
    "[titan] 2026-11-22 12:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.12345  "
    "\x1b[38;2;180;60;0mgrad_norm:  1.2345  \x1b[38;2;54;234;195mmemory: 42.10GiB(53.20%)  "
    "\x1b[34mtps: 6,123  \x1b[36mtflops: 312.45  \x1b[35mmfu: 31.59%\x1b[39m",
    "torchtitan 0.3.0 components/metrics.py, MetricsProcessor.log",
)


class Settings(SpecModel):
    """The model and its config, or the config file of older versions."""

    module: Annotated[
        field_types.Plain | None, Key("the module of the model, of version 0.3", "llama3")
    ] = None
    config: Annotated[
        field_types.Plain | None, Key("its config function, of version 0.3", "llama3_8b")
    ] = None
    config_file: Annotated[
        field_types.Path | None,
        Key("the TOML file of versions up to 0.2", "/fsx/code/llama3_8b.toml"),
    ] = None


class Options(TopLevelKeys):
    """`torchtitan`: its keys beside the common ones of a spec."""

    torchtitan: Annotated[
        Settings,
        Key(
            "the model and its config",
            "{module: llama3, config: llama3_8b}",
            schedules=False,
            default_is="required",
        ),
    ] = Settings()


class Torchtitan(Framework):
    """`framework: torchtitan`."""

    name = "torchtitan"
    argument_check = "check_torchtitan"
    launchers = ("torchrun", "srun")
    parallel_keys = ("tensor", "pipeline", "context", "expert")
    log_lines = (_METRICS,)
    options = Options
    saving = Saving("never", "it saves every checkpoint.interval steps, and looks for no file")
    reads_precision = True
    packages = ("torch",)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        assert isinstance(options, Options)
        titan = options.torchtitan
        return of_torchtitan(spec, titan.config or show(titan.config_file or ""))

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options, spec = task.options, task.spec
        assert isinstance(options, Options)
        titan = options.torchtitan
        _check_config(titan, diagnostics)
        if spec.command is not None:
            what = "torchtitan runs a script or its own trainer, not a command"
            diagnostics.problem(("command",), what, "remove it, or write script: train.py")
        overrides = list(_overrides(task))
        origins = {name: diagnostics.describe_key(key) for name, _, key in overrides}
        _check_arguments(task, titan, origins, diagnostics)
        script = spec.script
        trainer = expanding(script) if script else "-m torchtitan.train"
        derived = (word for name, value, _ in overrides for word in (f"--{name}", *value))
        return Program(
            (trainer, *_config(titan), *derived, *arguments_of(spec)),
            is_python=True,
            origins={f"--{name}": origin for name, origin in origins.items()},
        )


def _config(titan: Settings) -> Iterator[Value]:
    if titan.config_file:
        yield from ("--job.config_file", expanding(titan.config_file))
    if titan.module:
        yield from ("--module", titan.module)
    if titan.config:
        yield from ("--config", titan.config)


def _overrides(task: Task) -> Iterator[tuple[str, tuple[Value, ...], Path]]:
    """An override, its value, and the key of the spec that it follows from."""
    spec, parallel = task.spec, task.parallelism
    for key in _DEGREES if _has_sizes(task) else ():
        size = str(getattr(parallel, key))
        yield f"parallelism.{key}_parallel_degree", (size,), ("parallel", key)
    if parallel.expert > 1:
        name = "parallelism.expert_parallel_degree"
        yield name, (str(parallel.expert),), ("parallel", "expert")
    if samples := task.samples:
        yield "training.local_batch_size", (str(samples.micro),), ("batch", "micro")
        yield "training.global_batch_size", (str(samples.global_),), ("batch", "global")
    if spec.precision in _PRECISIONS:
        dtype = _PRECISIONS[spec.precision]
        yield "training.mixed_precision_param", (dtype,), ("precision",)
    if spec.checkpoints:
        folder = folder_on_the_node(spec.checkpoints.path)
        yield "checkpoint.enable", (), ("checkpoints",)
        yield "checkpoint.folder", (folder,), ("checkpoints", "path")


def _has_sizes(task: Task) -> bool:
    """Whether the spec decides how the ranks are divided; else the config does."""
    return task.samples is not None or "parallel" in task.spec.model_fields_set


_DEGREES = ("tensor", "pipeline", "context")  # they divide the ranks
_PRECISIONS = {"fp32": "float32", "bf16": "bfloat16"}


# ------------------------------------------------------------------ checks


def _check_config(titan: Settings, diagnostics: Diagnostics) -> None:
    old, new = titan.config_file is not None, bool(titan.module or titan.config)
    example = "{module: llama3, config: llama3_8b} (0.3), or {config_file: llama3_8b.toml} (0.2)"
    if old and new:
        what = "config_file is for torchtitan up to 0.2, module and config are for 0.3"
        diagnostics.problem(("torchtitan", "config_file"), what, f"write one of them: {example}")
    elif new and not (titan.module and titan.config):
        missing = "config" if titan.module else "module"
        what = f"torchtitan 0.3 needs module and config: {missing} is missing"
        diagnostics.problem(("torchtitan",), what, f"write torchtitan: {example}")
    elif not old and not new:
        diagnostics.missing("torchtitan", "torchtitan has no config", f"add torchtitan: {example}")


def _check_arguments(
    task: Task, titan: Settings, origins: dict[str, str], diagnostics: Diagnostics
) -> None:
    spec = task.spec
    keys = {"module": "module", "config": "config", "job.config_file": "config_file"}
    of_config = {name: diagnostics.describe_key(("torchtitan", key)) for name, key in keys.items()}
    refused = {**origins, **of_config}
    refuse_arguments(spec, diagnostics, refused)
    known = table("torchtitan-0.2" if titan.config_file else "torchtitan", spec)
    check_arguments(spec, diagnostics, known, refused, dashes_matter=False)
    given = {one.key: one for one in given_arguments(spec) if one.key not in refused}
    check_rules(RULES, GivenArguments(task, given), diagnostics)
    if spec.precision == "fp16":
        what = "torchtitan trains in bfloat16 or float32"
        diagnostics.problem(("precision",), what, "precision: bf16")
    _check_data_parallel(task, diagnostics)


# What it takes without a word. Source: torchtitan 0.3.0, components/optimizer/lr_scheduler.py,
# components/checkpoint.py and trainer.py.
RULES: tuple[Rule[GivenArguments], ...] = (
    row(
        "`lr_scheduler.warmup_steps` as long as the training",
        "it warns in the log, and shortens the warm-up to the training",
        "components/optimizer/lr_scheduler.py",
        Case(
            "lr_scheduler.warmup_steps",
            "it >= training.steps, training.steps > 0",
            "a warm-up of {it:g} steps, and the training has no more",
            "a shorter warm-up",
        ),
        warning=True,
    ),
    row(
        "`checkpoint.interval` longer than the training",
        "it saves at the end alone",
        "components/checkpoint.py",
        Case(
            "checkpoint.interval",
            "it > training.steps, training.steps > 0",
            "a checkpoint every {it:g} steps, and the training has fewer",
            "a smaller interval",
        ),
        warning=True,
    ),
    row(
        "`comm.mode: fake_backend` or `local_tensor`",
        "it is a dry run: no rank exchanges anything",
        "config/configs.py, CommConfig",
        Case(
            "comm.mode",
            "it == fake_backend|local_tensor",
            "{it} is for dry runs: no gradient is exchanged",
            "remove it",
        ),
        warning=True,
    ),
    row(
        "`metrics.log_freq` longer than the training",
        "it logs the first step alone",
        "components/metrics.py, should_log",
        Case(
            "metrics.log_freq",
            "it > training.steps, training.steps > 0",
            "a line every {it:g} steps, and the training has fewer: it logs the first step alone",
            "a smaller log_freq",
        ),
        warning=True,
    ),
    row(
        "`training.steps: 1`",
        "it ends after one step",
        "trainer.py, train",
        Case("training.steps", "it == 1", "the training ends after one step", "remove it"),
        warning=True,
    ),
)


def _check_data_parallel(task: Task, diagnostics: Diagnostics) -> None:
    """Torchtitan asserts that replicas x shards x the other degrees are the world size."""
    given = {argument.key: argument for argument in given_arguments(task.spec)}
    shards = given.get("parallelism.data_parallel_shard_degree")
    replicas = given.get("parallelism.data_parallel_replicate_degree")
    if not _has_sizes(task):
        return
    copies = _size(replicas.texts if replicas else ("1",))
    parts = _size(shards.texts if shards else ("-1",))
    data = task.parallelism.data
    if copies is None or parts is None:
        return
    fits = data % copies == 0 if parts == -1 else copies * parts == data
    if not fits and (found := shards or replicas):
        product = f"{counted(copies, 'replica')} x " + (
            "any number of shards" if parts == -1 else counted(parts, "shard")
        )
        diagnostics.problem(
            found.path,
            f"{product} is not the number of data parallel ranks, {data}",
            f"parallelism.data_parallel_shard_degree: -1, and replicas that divide {data}",
        )


def _size(values: tuple[str, ...]) -> int | None:
    text = values[0] if len(values) == 1 else ""
    size = int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else 0
    return size if size > 0 or size == -1 else None
