"""A script with Lightning's Trainer, one Slurm task per rank, as its SLURMEnvironment expects.

The Trainer takes its sizes from variables, a LightningCLI from flags. A callback that Lightning
loads by itself saves at the stop file; Lightning's own requeue is never used.
Source: Lightning 2.6.6, fabric/plugins/environments/slurm.py, pytorch/utilities/argparse.py,
pytorch/trainer/connectors/signal_connector.py and checkpoint_connector.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import (
    Argument,
    arguments_by_key,
    arguments_of,
    check_parallel_arguments,
    given_arguments,
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
    Saving,
    Task,
    Variable,
    folder_on_the_node,
)
from clusterjobs.frameworks.flags import argument_findings, left_out_findings, table
from clusterjobs.frameworks.rules import Case, GivenArguments, Rule, check_rules, row
from clusterjobs.frameworks.torch_foreseen import of_lightning
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys
from clusterjobs.text import Text, Value, joined, show
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ checks
# What Lightning would refuse or misread, found before anything is rendered.
# Source: Lightning 2.6.6, fabric/plugins/environments/slurm.py and
# pytorch/trainer/connectors/signal_connector.py.


_OF_TRAINER = re.compile(r"trainer\.\w+")  # no key of a class, and no `callbacks+`
_CLASS = re.compile(r"(.*\.)?[A-Z]\w*|\{.*\}")  # or a mapping with its class_path


def check_cli_arguments(
    spec: Experiment, derived: Mapping[str, Path], diagnostics: Diagnostics
) -> None:
    """The arguments of a LightningCLI. `derived`: the Trainer's argument -> the spec's key."""
    known = table("lightning", spec)
    refused = {f"trainer.{name}": diagnostics.describe_key(key) for name, key in derived.items()}
    refused |= {
        old: f"{refused[new]}, as {new}" for old, new in known.renamed.items() if new in refused
    }
    refuse_arguments(spec, diagnostics, refused)
    _refuse_files(spec, diagnostics)
    of_trainer = [
        argument
        for argument in given_arguments(spec)
        if _OF_TRAINER.fullmatch(argument.key)
        and argument.key not in refused
        and not (argument.key == "trainer.strategy" and _CLASS.fullmatch(" ".join(argument.texts)))
    ]
    for finding in (*argument_findings(of_trainer, known), *left_out_findings(spec, known)):
        diagnostics.problem(*finding)


def _refuse_files(spec: Experiment, diagnostics: Diagnostics) -> None:
    """Files whose settings would replace the derived flags, which stand before `args`."""
    for argument in given_arguments(spec):
        if argument.key in ("config", "trainer"):
            what = f"{argument.name} in args would replace the derived settings of the Trainer"
            diagnostics.problem(argument.path, what, "write lightning: {config: [FILE]}")


def _given_as_variables(spec: Experiment) -> Mapping[str, Argument]:
    """The Trainer's arguments that the spec's variables give, such as PL_TRAINER_MAX_STEPS."""
    prefix = "PL_TRAINER_"
    return {
        f"trainer.{name.removeprefix(prefix).lower()}": Argument(name, name, (value,), "env")
        for name, value in spec.env.items()
        if name.startswith(prefix) and isinstance(value, (str, Text))
    }


_OFF = "it != false|False|0|0.0"
# What the Trainer takes without a word. Source: Lightning 2.6.6, pytorch/trainer/.
RULES: tuple[Rule[GivenArguments], ...] = (
    row(
        "`trainer.fast_dev_run` or `trainer.overfit_batches`",
        "it trains for one batch, or on the same few, without loggers and checkpoints",
        "pytorch/trainer/connectors/accelerator_connector.py, setup.py",
        Case(
            "trainer.fast_dev_run|trainer.overfit_batches",
            _OFF,
            "{argument} is for debugging: it is no training",
            "remove it",
        ),
        warning=True,
    ),
    row(
        "`trainer.barebones`",
        "it has no checkpoints, no loggers and no progress",
        "pytorch/trainer/trainer.py",
        Case(
            "trainer.barebones",
            _OFF,
            "it saves no checkpoint and logs nothing: it is for measuring Lightning's overhead",
            "remove it",
        ),
        warning=True,
    ),
    row(
        "`trainer.use_distributed_sampler: false` with several ranks",
        "every rank trains on all the data, unless the script divides it",
        "pytorch/trainer/connectors/data_connector.py",
        Case(
            "trainer.use_distributed_sampler",
            "it == false|False, shape.world_size > 1",
            "each of the {shape.world_size} ranks gets all the data, unless the script divides it",
            "remove it, or divide the data in the script",
        ),
        warning=True,
    ),
    row(
        "`trainer.gradient_clip_algorithm` without `trainer.gradient_clip_val`",
        "no gradient is clipped",
        "pytorch/core/module.py, clip_gradients",
        Case(
            "trainer.gradient_clip_algorithm",
            "not trainer.gradient_clip_val",
            "no gradient is clipped without gradient_clip_val",
            "add gradient_clip_val, or remove it",
        ),
        warning=True,
    ),
    row(
        "`trainer.log_every_n_steps` longer than the training",
        "no metric of a step is logged",
        "pytorch/trainer/connectors/logger_connector/logger_connector.py",
        Case(
            "trainer.log_every_n_steps",
            "it > trainer.max_steps, trainer.max_steps > 0",
            "every {it:g} steps, and the training has fewer: no metric of a step is logged",
            "a smaller number",
        ),
        warning=True,
    ),
    row(
        "`trainer.max_steps: 1` or 0, `trainer.max_epochs: 0`",
        "it ends after one step, or before the first",
        "pytorch/loops/fit_loop.py",
        Case("trainer.max_steps", "it == 0|1", "it ends at step {it:g}", "remove it"),
        Case("trainer.max_epochs", "it == 0", "it ends before the first step", "remove it"),
        warning=True,
    ),
    row(
        "`trainer.enable_checkpointing: false` with restarts",
        "Lightning's own callbacks save nothing",
        "pytorch/trainer/connectors/callback_connector.py",
        Case(
            "trainer.enable_checkpointing",
            "spec.restarts, it == false|False",
            "checkpoints are switched off, and restarts resume from one",
            "remove it, or restarts",
        ),
        warning=True,
    ),
    row(
        "`trainer.accelerator: cpu` on nodes with GPUs",
        "it trains on the CPUs",
        "pytorch/trainer/connectors/accelerator_connector.py",
        Case(
            "trainer.accelerator",
            "it == cpu, shape.gpus_per_node",
            "the Trainer uses none of the node's GPUs",
            "remove it, or write gpus_per_node: 0",
        ),
        warning=True,
    ),
    row(
        "`trainer.limit_train_batches: 0`, `trainer.min_steps` above `trainer.max_steps`",
        "it trains nothing; the smaller number wins",
        "pytorch/loops/fit_loop.py",
        Case("trainer.limit_train_batches", "it == 0|0.0", "no batch is trained", "remove it"),
        Case(
            "trainer.min_steps",
            "it > trainer.max_steps, trainer.max_steps > 0",
            "{it:g} steps at least, and fewer at most",
            "a smaller min_steps",
        ),
        warning=True,
    ),
)


def check_sizes(spec: Experiment, sizes: Mapping[str, str], diagnostics: Diagnostics) -> None:
    """Sizes among the arguments of a script's own parser, by the Trainer's names."""
    references = {"num_nodes": "nodes", "devices": "ranks_per_node"}
    for argument in given_arguments(spec):
        key = argument.key.removeprefix("trainer.")
        value = argument.texts[0] if argument.texts else ""
        if key in references and value.isdecimal() and value != sizes[key]:
            diagnostics.problem(
                argument.path,
                f"{argument.name}: {value}, but the job has {references[key]} {sizes[key]}, and "
                "Lightning compares them",
                f'remove it, or write {argument.name}: "{{{{ {references[key]} }}}}"',
            )


def check_requeue(spec: Experiment, diagnostics: Diagnostics) -> None:
    """Refuse signals to Lightning: it would requeue the job, or end in the middle of a step."""
    if spec.restarts and spec.restarts.signal:
        diagnostics.problem(
            ("restarts", "signal"),
            f"{spec.restarts.signal} would end Lightning's ranks before they save",
            "remove it: the callback looks for the stop file after each step",
        )
    signal = str(spec.sbatch.get("signal", ""))
    if signal and not signal.upper().startswith(("B:", "RB:", "BR:")):
        diagnostics.problem(
            ("sbatch", "signal"),
            f"{signal} would reach Lightning, which would requeue the job, as the script does",
            "remove it, and write restarts: {time_limit: 20}",
        )


def check_name(spec: Experiment, diagnostics: Diagnostics) -> None:
    if spec.name in ("bash", "interactive"):
        diagnostics.problem(
            ("name",),
            f"in a job named {spec.name}, Lightning ignores Slurm: every rank would train a "
            "model of its own",
            f"write another name, for example {spec.name}-run",
        )


_PRECISIONS = {"fp32": "32-true", "fp16": "16-mixed", "bf16": "bf16-mixed"}
_ENTRY_POINTS = """\
[lightning.pytorch.callbacks_factory]
clusterjobs = lightning_callback:for_lightning

[pytorch_lightning.callbacks_factory]
clusterjobs = lightning_callback:for_pytorch_lightning
"""
# On PYTHONPATH, so that it holds nothing else: the job's other programs could hide modules.
_FOLDER = "lightning"
_PROGRAM = "lightning_callback.py"


class Settings(SpecModel):
    """Settings of a script that calls LightningCLI."""

    cli: Annotated[
        Literal["fit", "validate", "test", "predict"] | None,
        Key("the subcommand of LightningCLI: `fit`, `validate`, `test` or `predict`", "fit"),
    ] = None
    config: Annotated[
        tuple[field_types.Path, ...], Key("the config files of LightningCLI", "[config.yaml]")
    ] = ()


class Options(TopLevelKeys):
    """`lightning`: its keys beside the common ones of a spec."""

    lightning: Annotated[
        Settings, Key("for a script that calls LightningCLI", "{cli: fit}", schedules=False)
    ] = Settings()


class Lightning(Framework):
    """`framework: lightning`."""

    name = "lightning"
    argument_check = "check_lightning"
    launchers = ("srun",)
    parallel_keys = ("tensor", "pipeline", "context")
    options = Options
    saving = Saving(
        "file",
        "a callback that Lightning loads by itself saves after a step and ends the ranks",
        "latest.txt",
    )
    reads_precision = True
    reads_variables = ("PL_TRAINER_",)
    packages = ("torch",)

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        return of_lightning(spec)

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options, spec = task.options, task.spec
        assert isinstance(options, Options)
        settings = options.lightning
        script = script_of(spec, diagnostics)
        check_parallel_arguments(spec, diagnostics)
        derived = list(_settings(task))
        if settings.cli:
            keys = {name: key for name, _, key in derived}
            check_cli_arguments(spec, keys, diagnostics)
        else:
            check_sizes(spec, {name: show(value) for name, value, _ in derived}, diagnostics)
        given = arguments_by_key(spec) if settings.cli else _given_as_variables(spec)
        check_rules(RULES, GivenArguments(task, given), diagnostics)
        origins = {_variable(name): diagnostics.describe_key(path) for name, _, path in derived}
        refuse_variables(spec, origins, diagnostics)
        check_requeue(spec, diagnostics)
        check_name(spec, diagnostics)
        if settings.config and not settings.cli:
            what = "only a LightningCLI reads config files"
            diagnostics.problem(("lightning", "config"), what, "add cli: fit, or remove it")
        if script is None:
            return None
        words = (script, *_cli_words(settings, derived), *arguments_of(spec))
        origins = {_flag(name): diagnostics.describe_key(path) for name, _, path in derived}
        return Program(
            words,
            is_python=True,
            files=tuple(_files(spec)),
            programs=(_PROGRAM,) if spec.checkpoints else (),
            links=(f"{_FOLDER}/{_PROGRAM}",) if spec.checkpoints else (),
            environment=(*_variables(settings, derived), *_of_the_callback(spec)),
            origins=origins if settings.cli else {},
        )


# ------------------------------------------------------------------ what the Trainer gets

_Derived = list[tuple[str, Value, Path]]  # an argument of the Trainer, its value, the spec's key


def _settings(task: Task) -> Iterator[tuple[str, Value, Path]]:
    spec, shape = task.spec, task.shape
    given = {argument.key for argument in given_arguments(spec)}
    yield "num_nodes", str(shape.nodes), ("nodes",)
    yield "devices", str(shape.ranks_per_node), ("ranks_per_node",)
    if "trainer.accelerator" not in given:  # the user may name another one, such as hpu
        yield "accelerator", "gpu" if shape.gpus_per_node else "cpu", ("gpus_per_node",)
    if spec.precision:
        yield "precision", _PRECISIONS[spec.precision], ("precision",)
    if task.samples:
        yield "accumulate_grad_batches", str(task.samples.accumulation), ("batch",)
    if spec.checkpoints:
        folder = folder_on_the_node(spec.checkpoints.path)
        yield "default_root_dir", folder, ("checkpoints", "path")


def _flag(name: str) -> str:
    return f"--trainer.{name}"


def _variable(name: str) -> str:
    return f"PL_TRAINER_{name.upper()}"


def _cli_words(settings: Settings, derived: _Derived) -> Iterator[Value]:
    if settings.cli is None:
        return
    yield settings.cli
    for file in settings.config:
        yield from ("--config", folder_on_the_node(file) if file.startswith("/") else file)
    for name, value, _ in derived:
        yield from (_flag(name), value)


def _variables(settings: Settings, derived: _Derived) -> Iterator[Variable]:
    """A LightningCLI gives its Trainer every argument, so that it reads no variable."""
    if settings.cli:
        return
    for name, value, _ in derived:
        yield Variable(
            _variable(name),
            value,
            f"the Trainer's {name}, if the script gives none",
            "Lightning pytorch/utilities/argparse.py",
        )


# ------------------------------------------------------------------ the callback


def _files(spec: Experiment) -> Iterator[ConfigFile]:
    if spec.checkpoints:
        yield ConfigFile("entry_points.txt", _ENTRY_POINTS, f"{_FOLDER}/clusterjobs.dist-info")


def _of_the_callback(spec: Experiment) -> Iterator[Variable]:
    if spec.checkpoints:
        yield Variable(
            "CLUSTERJOBS_CHECKPOINTS",
            folder_on_the_node(spec.checkpoints.path),
            "where the callback saves, and looks for the newest checkpoint",
        )
        yield Variable(
            "PYTHONPATH",
            joined(JOB_DIR, "/", _FOLDER),
            "Lightning loads the callback from here, by its entry point",
            "Lightning fabric/utilities/registry.py",
            append=True,
        )
