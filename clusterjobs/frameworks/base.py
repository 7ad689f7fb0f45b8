"""What a framework is given and what it returns: the base class of all frameworks.

Commands are values without quotes: they are quoted when the script is rendered.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import argument_key, given_arguments
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import Value, expanding, is_absolute, joined, variable
from clusterjobs.yaml.document import Path

JOB_DIR = variable("job_dir")  # the job's own folder on the shared storage, made by the script
TOKEN = variable("token")  # random: in names of folders on a node that other users cannot guess

EXIT_MINUTES = variable("exit_minutes")  # minutes until a training with stop_channel "clock" ends


class Shape(NamedTuple):
    """How many ranks there are, and where."""

    nodes: int
    ranks_per_node: int
    gpus_per_node: int

    @property
    def world_size(self) -> int:
        """The number of all ranks."""
        return self.nodes * self.ranks_per_node


class Parallelism(NamedTuple):
    """How the ranks share the model: tensor x pipeline x context ranks hold one of `data` copies.

    The others divide none of the ranks further: see spec.keys.model.Parallel.
    """

    tensor: int
    pipeline: int
    data: int
    context: int = 1
    virtual_pipeline: int = 1
    expert: int = 1
    sequence: bool = False


class Samples(NamedTuple):
    """Batch sizes: micro x accumulation x Parallelism.data = global_, always."""

    micro: int
    accumulation: int
    global_: int


class Division(NamedTuple):
    """How a model is divided among ranks.

    `any_head_size`: a head's size is given by itself, and does not follow from the hidden size.
    `beside_layers`: how many other modules a pipeline counts as layers; None: unknown.
    """

    any_head_size: bool = False
    beside_layers: int | None = 0


class DataPath(NamedTuple):
    """A path that every node uses. `key` is its place in the spec.

    `indexed`: the first node writes an index beside it, which the others read.
    """

    key: Path
    path: Value
    indexed: bool = False


class Task(NamedTuple):
    """Everything that a framework may use.

    `gpu_model`: NVIDIA's name (`H100`), if it is known. `texts`: as in `completed`.
    """

    spec: Experiment
    options: SpecModel | None
    shape: Shape
    parallelism: Parallelism
    samples: Samples | None
    gpu_model: str | None = None
    texts: Mapping[str, str] = {}


class ConfigFile(NamedTuple):
    """A file that the framework reads: written into the job's folder, and shown to the user.

    `folder`: a folder in the job's folder that is made for it.
    """

    name: str
    text: Value
    folder: str = ""


class Variable(NamedTuple):
    """An environment variable of the ranks, and why it is set.

    `expand`: shell variables in the value may be unset, and are then empty. `append`: the value is
    appended to the variable's present value, as in a search path. `only_with`: set only if one of
    these variables has a value. `default`: a value that the site has set is kept.
    """

    name: str
    value: Value
    reason: str
    source: str = ""
    expand: bool = False
    append: bool = False
    only_with: tuple[str, ...] = ()
    default: bool = False


class Program(NamedTuple):
    """What one rank runs. `command` begins with the script (Python) or with the program.

    `interface`: the network interface that the launcher must let the ranks use. `origins`: derived
    arguments, as written or as argparse stores them, and the key of the spec that each comes from.
    `programs`: programs for the nodes (clusterjobs/node/) that it needs. `links`: paths below the
    job's folder, where programs are found, too: a folder on PYTHONPATH that holds no others.
    """

    command: tuple[Value, ...]
    is_python: bool
    files: tuple[ConfigFile, ...] = ()
    environment: tuple[Variable, ...] = ()
    interface: str | None = None
    origins: Mapping[str, str] = {}
    programs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class LogLine(NamedTuple):
    """A line of the framework's log that reports the training's step or speed.

    `pattern` is a regular expression to search a line for, with a named group for each number;
    `sample` is a real line that it matches.
    """

    pattern: str
    sample: str
    source: str


class Saving(NamedTuple):
    """How a training is asked to save and stop, and how its newest checkpoint is found.

    `stop_channel`: "file", it looks for the file CLUSTERJOBS_STOP_FILE; "clock", it is started with
    the number of minutes after which it stops; "never", it cannot be asked, and saves at its own
    interval. `marker`: a file in the checkpoints' folder, written after each complete checkpoint.
    `resume_option`: the option with which it resumes from a folder `checkpoint-N` of Hugging Face's
    Trainer; "" for a program that finds its newest checkpoint itself. `overwritten`: the files that
    it resumes from and overwrites in place, so that a kill cuts them, each with the pattern of the
    checkpoints' names: with a group, the file has the group's text; without one, it is a copy.
    """

    stop_channel: Literal["file", "clock", "never"]
    reason: str
    marker: str | None = None
    resume_option: str = ""
    overwritten: tuple[tuple[str, str], ...] = ()


OWN_SCRIPT = Saving("file", "the script is yours, and can look for a file at every step")


class Foreseen(NamedTuple):
    """What a framework's arguments and config files say about memory and speed.

    `model` and `layout`: fields of foresight's records; a field that nothing says is missing.
    `vocab_multiple`: the vocabulary is padded to a multiple of it, times the tensor ranks. `steps`
    of the training, and `save_steps` between two checkpoints, if its own config files say them.
    `is_own_script`: the program is the user's, and can be any model, trained in any way.
    """

    model: Mapping[str, Any] = {}
    layout: Mapping[str, Any] = {}
    vocab_multiple: int | None = None
    steps: int | None = None
    save_steps: int | None = None
    is_own_script: bool = False


class Framework(abc.ABC):
    """One framework; a subclass sets what differs from the defaults.

    `launchers`: those that can start it, its default first.
    `options`: the model of its own keys in the spec.
    `parallel_keys`: the keys of `parallel` that it has; others are refused.
    `log_lines`: empty where only the author of the program knows them.
    `reads_precision`: it passes the spec's `precision` on to the training.
    `packages`: Python packages that preflight looks for.
    `imports`: modules that it imports on GPUs, and that installed packages alone do not promise.
    `compiles_extensions`: it compiles CUDA code when it starts.
    `uses_torch`: it reads PyTorch's variables.
    `reads_variables`: prefixes of variables that it reads as settings, unset if they are inherited.
    `one_rank_uses_all_gpus`: a node's only rank uses all GPUs of the job there.
    `neuron_launchers`: those that can start it on NeuronCores; empty if it does not use them.
    `helpers`: the folder beside its script whose helpers.cpp it compiles with make, "" for none.
    `argument_check`: the program of clusterjobs/node/arguments that asks its parser, "" for none.
    `checks_config_alone`: that program does not read the arguments of the script.
    `length_arguments`: each says how long the training is. The first, which counts steps, is set
    from the key `training` where neither is given: one of them, or an argument that names a file
    of arguments (`files_of_arguments`). `length_key`: the key of the spec that has them.
    """

    name: str
    launchers: tuple[str, ...]
    options: type[SpecModel] | None = None
    parallel_keys: tuple[str, ...] = ("tensor", "pipeline")
    saving: Saving = OWN_SCRIPT
    log_lines: tuple[LogLine, ...] = ()
    reads_precision: bool = False
    packages: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    compiles_extensions: bool = False
    uses_torch: bool = True
    reads_variables: tuple[str, ...] = ()
    one_rank_uses_all_gpus: bool = False
    neuron_launchers: tuple[str, ...] = ()
    helpers: str = ""
    argument_check: str = ""
    checks_config_alone: bool = False
    length_arguments: tuple[str, ...] = ()
    length_key: str = "args"
    files_of_arguments: tuple[str, ...] = ()

    @abc.abstractmethod
    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        """What a rank runs; problems go into `diagnostics`; None if there is nothing to run."""

    def half_precisions(self, spec: Experiment, options: SpecModel | None) -> tuple[str, ...]:
        """The 16-bit precisions, the best first, where it trains in fp32 unless the spec names one.

        Empty where the program or a file decides it.
        """
        return ()

    def division(self, spec: Experiment) -> Division:
        """How a model is divided, if the spec's arguments say so."""
        return Division()

    def data_paths(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Iterable[DataPath]:
        """The paths in the framework's arguments and config files that every node uses.

        By default, arguments with `data` in their names. `texts` as in `completed`, which may have
        moved the keys' positions into those files.
        """
        return [
            DataPath(argument.path, value)
            for argument in given_arguments(spec)
            if "data" in argument.key.split("_")
            for value in argument.values
            if value.startswith("/")
        ]

    def foreseen(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> Foreseen:
        """What predictions of memory and speed need beside the plan. `texts` as in `completed`.

        Without an `engine` in `layout`, nothing can be predicted.
        """
        return Foreseen()

    def has_length(
        self, spec: Experiment, options: SpecModel | None, texts: Mapping[str, str]
    ) -> bool:
        """Whether one of `length_arguments` is given, or may be. `texts` as in `completed`."""
        keys = {argument_key(name) for name in (*self.length_arguments, *self.files_of_arguments)}
        return any(one.key in keys for one in given_arguments(spec))

    def with_length(
        self, spec: Experiment, options: SpecModel | None, steps: int
    ) -> tuple[Experiment, SpecModel | None]:
        """The spec and the framework's options with the first of `length_arguments`."""
        name, args, number = self.length_arguments[0], spec.args, str(steps)
        found: object = (*args, f"--{name}", number)
        if isinstance(args, Mapping):
            found = {**args, name: number}
        return spec.model_copy(update={"args": found}), options

    def config_files(self, options: SpecModel | None) -> tuple[str, ...]:
        """The user's own config files, relative to the spec's folder or to `workdir`.

        Their texts are in `Task.texts`, if the files are on this machine.
        """
        return ()

    def completed(
        self,
        spec: Experiment,
        options: SpecModel | None,
        texts: Mapping[str, str],
        diagnostics: Diagnostics,
    ) -> Experiment:
        """The spec with `model`, `parallel` and `batch` from those files where it has none.

        `texts`: file name -> text of the config files that were found on this machine.
        """
        return spec


def folder_on_the_node(path: Value) -> Value:
    """A path of the spec as it is on the node: a relative one is below SLURM_SUBMIT_DIR."""
    return expanding(path if is_absolute(path) else joined("${SLURM_SUBMIT_DIR}/", path))
