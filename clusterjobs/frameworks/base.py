"""What a framework is told and what it answers: the contract each of them stands behind.

A framework knows its own options, its own arguments and config files. It knows nothing of
clusters, Slurm or shell text: words are given as plain text and quoted by those who print them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import expanding, variable

JOB_DIR = variable("job_dir")  # the job's own folder on the shared storage, made by the script

EXIT_MINUTES = variable("exit_minutes")  # from the launch to where a training told by "clock" ends


class Shape(NamedTuple):
    """How many processes train, and where."""

    nodes: int
    ranks_per_node: int
    gpus_per_node: int
    world_size: int
    data_parallel: int


class Samples(NamedTuple):
    """micro x accumulation x data_parallel = global_, always."""

    micro: int
    accumulation: int
    global_: int


class Task(NamedTuple):
    """All that a framework may look at."""

    experiment: Experiment
    options: SpecModel | None
    shape: Shape
    samples: Samples | None


class ConfigFile(NamedTuple):
    """A file that the framework reads: written into the job's folder, and shown to the user."""

    name: str
    text: str


class Variable(NamedTuple):
    """An environment variable of the ranks, and why it is set.

    `expand`: `${NAME}` in the value is the node's to expand. `append`: the value goes behind
    what the variable has already, as in a search path.
    """

    name: str
    value: str
    reason: str
    source: str = ""
    expand: bool = False
    append: bool = False


class Program(NamedTuple):
    """What one rank runs. `words` start with the script (Python) or with the command.

    `interface` is the network interface over which the launcher is to let the ranks talk.
    """

    words: tuple[str, ...]
    is_python: bool
    files: tuple[ConfigFile, ...] = ()
    environment: tuple[Variable, ...] = ()
    interface: str | None = None


class LogLine(NamedTuple):
    """A kind of line in the framework's log that says how fast it trains.

    `pattern` is a regular expression to search a line for, with a named field for each number;
    `sample` is a real line, in which it is found.
    """

    pattern: str
    sample: str
    source: str


class Saving(NamedTuple):
    """How a training is told to save and end, and where it says which checkpoint is its newest.

    `told`: "file", it looks for the file that CLUSTERJOBS_STOP_FILE names; "clock", it is started
    with the minute in which it has to end; "never", it saves when it would anyway.
    `marker`: a file in the checkpoints' folder, written after each complete checkpoint.
    """

    told: Literal["file", "clock", "never"]
    reason: str
    marker: str | None = None


OWN_SCRIPT = Saving("file", "the script is yours, and can look for a file at every step")


class Framework(Protocol):
    """One framework. `launchers[0]` is its default; `options` its own keys of the spec."""

    name: str
    saving: Saving
    launchers: tuple[str, ...]
    options: type[SpecModel] | None
    log_lines: tuple[LogLine, ...]

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        """What a rank runs; problems go into `diagnostics`; None if there is nothing to run."""


@runtime_checkable
class ConfigReader(Protocol):
    """A framework whose own config files say what the plan needs to know.

    They lie on the cluster; those that are on this machine too are read and handed in, name ->
    text. What is rendered does not depend on them: they are checked.
    """

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        """The files' paths, as they are seen from `workdir`."""

    def completed(
        self,
        experiment: Experiment,
        options: SpecModel | None,
        texts: Mapping[str, str],
        diagnostics: Diagnostics,
    ) -> Experiment:
        """The experiment with `model`, `parallel` and `batch` of those files, where it has none."""


def script_of(experiment: Experiment, diagnostics: Diagnostics) -> str | None:
    """The spec's script, without which a Python framework has nothing to run."""
    if experiment.command is not None:
        diagnostics.problem(
            ("command",),
            f"{experiment.framework} runs a script, not a command",
            "write script: train.py, or framework: command",
        )
    if experiment.script is None:
        diagnostics.missing("script", "script is missing", "add `script: train.py`")
    return experiment.script and expanding(experiment.script)


def folder_on_the_node(path: str) -> str:
    """A path of the spec as a word: a relative one counts from where sbatch was called."""
    is_absolute = path.startswith(("/", "${", "\0"))
    return expanding(path if is_absolute else f"${{SLURM_SUBMIT_DIR}}/{path}")


def argument_words(experiment: Experiment) -> tuple[str, ...]:
    """`args` as words: `{lr: 1e-4, flag: true, off: false, data: [a, b]}` -> --lr 1e-4 --flag ...

    A list is passed on as it is. A name that starts with a dash keeps its own dashes.
    """
    arguments = experiment.args
    if not isinstance(arguments, Mapping):
        return tuple(arguments)
    words: list[str] = []
    for name, value in arguments.items():
        flag = name if name.startswith("-") else f"--{name}"
        if value is True:
            words.append(flag)
        elif isinstance(value, tuple):
            words += [flag, *value]
        elif value is not False:
            words += [flag, str(value)]
    return tuple(words)


def refuse_arguments(
    experiment: Experiment, diagnostics: Diagnostics, derived: Mapping[str, str]
) -> None:
    """Refuse `args` that say again, or otherwise, what is derived: {argument: where it is said}."""
    for position, name in argument_names(experiment):
        key = name.lstrip("-").partition("=")[0].replace("-", "_")
        if key in derived:
            diagnostics.problem(
                ("args", position),
                f"{name} is derived from {derived[key]}",
                "remove it here: two places that must agree are one too many",
            )


def argument_names(experiment: Experiment) -> list[tuple[str | int, str]]:
    """The names in `args`, as they are written, each with its place there."""
    if isinstance(experiment.args, Mapping):
        return [(name, name) for name in experiment.args]
    return [(i, item) for i, item in enumerate(experiment.args) if item.startswith("-")]
