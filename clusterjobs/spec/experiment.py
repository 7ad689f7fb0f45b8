"""The experiment spec: what a person may write, key by key.

Only shapes and what can be judged of one value alone. Whether values fit each other, the
cluster and the framework is the plan's to say; where they stood in the file is `load.py`'s.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from clusterjobs.spec import words
from clusterjobs.spec.part import BeforeValidator, Field, Part
from clusterjobs.spec.words import Count


class Software(Part):
    """How the environment of the job is prepared: module files first, then conda or a venv."""

    venv: words.SearchPath | None = None
    conda: words.Path | None = None
    modules: tuple[words.ModuleName, ...] = ()
    setup: words.Code = ()


class Parallel(Part):
    """How many GPUs share one copy of the model."""

    tensor: Count = 1
    pipeline: Count = 1


class Model(Part):
    """A transformer's size. `sequence` in tokens; `vocab` before it is padded."""

    layers: Count
    hidden: Count
    heads: Count
    sequence: Count
    vocab: Count | None = None


class Batch(Part):
    """Samples: `micro` for one GPU in one step, `global` for one optimizer step of all."""

    micro: Count | None = None
    global_: Count | None = Field(None, alias="global")
    accumulation: Count | None = None


class Checkpoints(Part):
    """The folder where the training keeps its checkpoints, made before it starts.

    `export` is a prefix of a bucket to which FSx for Lustre copies what is written there.
    """

    path: words.Path
    export: words.Bucket | None = None


class Data(Part):
    """A prefix of a bucket, shown by FSx for Lustre as the folder `target`."""

    source: words.Bucket
    target: words.Path


class Secret(Part):
    """Where a secret's value comes from when the job runs; from the environment, if not said."""

    file: words.Path | None = None
    command: words.CommandWords | None = None


def _secrets(value: Any) -> Any:
    """A list of names, or a map; a name with nothing behind it is one of the list."""
    if isinstance(value, dict):
        return {name: {} if item is None else item for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if any(isinstance(name, (dict, list)) for name in value):
        raise ValueError("a list of names belongs here: [A_KEY], or a map, {A_KEY: {file: ...}}")
    return {name: {} for name in value}


def _step(value: Any) -> Any:
    return value if isinstance(value, dict) else {"command": value}


class Step(Part):
    """A command before, after or beside the training: once for the job, or on every node."""

    command: words.CommandWords
    per: Literal["job", "node"] = "job"


def _parameter(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


class Parameter(Part):
    """A value that can be changed at submission: `NAME=value sbatch job.sh`."""

    default: words.Word
    type: Literal["text", "integer", "number"] | None = None
    choices: tuple[words.Word, ...] = ()


Steps = tuple[Annotated[Step, BeforeValidator(_step)], ...]


class Experiment(Part):
    """One experiment: where it runs, what it runs, with which numbers.

    The keys that only some frameworks know (`zero`) are in the framework's own model.
    """

    name: words.JobName
    cluster: words.Plain
    queue: words.Plain | None = None
    instance_type: words.Plain | None = None
    nodes: Count = 1
    gpus_per_node: Count | None = None
    ranks_per_node: Count | None = None
    cpus_per_task: Count | None = None
    time_limit: words.TimeLimit | None = None

    framework: words.Plain
    launcher: words.Plain | None = None
    workdir: words.Path | None = None
    script: words.Path | None = None
    command: words.CommandWords | None = None
    args: words.Arguments = {}
    software: Software = Software()

    model: Model | None = None
    parallel: Parallel = Parallel()
    batch: Batch | None = None
    precision: Literal["fp32", "fp16", "bf16"] | None = None

    data: tuple[Data, ...] = ()
    checkpoints: Checkpoints | None = None
    logs: words.Path | None = None
    env: dict[words.EnvironmentName, words.Word] = {}
    parameters: dict[words.ParameterName, Annotated[Parameter, BeforeValidator(_parameter)]] = {}

    secrets: Annotated[dict[words.EnvironmentName, Secret], BeforeValidator(_secrets)] = {}

    sbatch: dict[words.OptionName, words.OptionValue] = {}
    srun: dict[words.OptionName, words.OptionValue] = {}
    setup: words.Code = ()
    before: Steps = ()
    after: Steps = ()
    sidecars: Steps = ()
    prefix: words.CommandWords = ()
