"""The experiment spec: what a person may write, key by key.

Only shapes and what can be judged of one value alone. Whether values fit each other, the
cluster and the framework is the plan's to say; where they stood in the file is `load.py`'s.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.spec import commands, field_types, images
from clusterjobs.spec.field_types import Budget, Count
from clusterjobs.spec.model import SpecModel


class Mount(SpecModel):
    """A folder of the node, seen inside the container as `target`."""

    source: images.MountPath
    target: images.MountTarget
    read_only: bool = False


class Container(SpecModel):
    """The image that the ranks run in, and by what; `efa`: whose libraries of EFA they use.

    `shm`: the size of /dev/shm, where the runtime does not share the node's own.
    """

    runtime: Literal["pyxis", "apptainer", "docker"]
    image: images.Image
    mounts: tuple[Annotated[Mount, BeforeValidator(images.mount)], ...] = ()
    efa: Literal["image", "host"] = "image"
    shm: images.Size | None = None
    writable: bool = False
    home: bool = False


class Software(SpecModel):
    """How the environment of the job is prepared: module files first, then conda or a venv.

    `requires` are Python packages with the version that the preflight is to find, or its start.
    With a container, `venv` is a folder inside of it.
    """

    venv: field_types.SearchPath | None = None
    conda: field_types.Path | None = None
    modules: tuple[field_types.ModuleName, ...] = ()
    setup: commands.Code = ()
    requires: dict[field_types.PackageName, field_types.PackageVersion] = {}
    container: Container | None = None


class Parallel(SpecModel):
    """How many GPUs share one copy of the model."""

    tensor: Count = 1
    pipeline: Count = 1


class Model(SpecModel):
    """A transformer's size. `sequence` in tokens; `vocab` before it is padded."""

    layers: Count
    hidden: Count
    heads: Count
    sequence: Count
    vocab: Count | None = None


class Batch(SpecModel):
    """Samples: `micro` for one GPU in one step, `global` for one optimizer step of all."""

    micro: Count | None = None
    global_: Count | None = Field(None, alias="global")
    accumulation: Count | None = None


class Ssh(SpecModel):
    """An sshd that runs on every node, and the key that it lets in.

    Without it, launchers that use ssh start one of the job's own, with a key for this job.
    """

    port: field_types.Port = 22
    key: field_types.Path | None = None


class Checkpoints(SpecModel):
    """The folder where the training keeps its checkpoints, made before it starts.

    `export` is where they are copied to: a prefix of a bucket, or another folder. `marker` is a
    file in the folder that the training writes anew after each complete checkpoint.
    """

    path: field_types.Path
    export: field_types.Repository | None = None
    via: Literal["association", "copy"] | None = None
    marker: field_types.Path | None = None


def _logs(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class Logs(SpecModel):
    """Where the jobs' folders are made, each named by its job id, and where they are copied to."""

    path: field_types.Path = "logs"
    export: field_types.Repository | None = None


class Restarts(SpecModel):
    """How often the job is started again from its checkpoints, for each reason it may end for.

    The ranks are told `grace_seconds` before the time limit, by a file and, if asked for, a signal.
    """

    time_limit: Budget = 0
    failure: Budget = 0
    node_failure: Budget = 3
    grace_seconds: Count = 180
    signal: Literal["USR1", "USR2", "TERM"] | None = None


class Data(SpecModel):
    """A data set: where it is, and where the job wants it, once or on every node.

    `verify` says what a later job compares before it uses an existing copy: the record and the
    files' sizes and times, the source as well, or every byte. `size_gib`: the space it needs.
    """

    source: field_types.Repository
    target: field_types.Path
    scope: Literal["shared", "node"] = "shared"
    via: Literal["association", "copy"] | None = None
    unpack: field_types.Flag = False
    verify: Literal["record", "source", "contents"] = "record"
    size_gib: Count | None = None


class Secret(SpecModel):
    """Where a secret's value comes from when the job runs; from the environment, if not said."""

    file: field_types.Path | None = None
    command: commands.CommandWords | None = None


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


class Step(SpecModel):
    """A command before, after or beside the training: once for the job, or on every node."""

    command: commands.CommandWords
    per: Literal["job", "node"] = "job"


PreflightCheck = Literal[
    "gpus",
    "efa",
    "memlock",
    "shm",
    "mounts",
    "space",
    "clock",
    "network",
    "names",
    "port",
    "containers",
    "software",
    "build",
    "nccl",
]


def _preflight(value: Any) -> Any:
    """`true` is all checks, a list those that it names."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, list):
        return {"checks": value}
    if not isinstance(value, dict):
        raise ValueError(
            "true, false or a list of checks belongs here: preflight: true, or [gpus, efa]"
        )
    return value


class Preflight(SpecModel):
    """What is asked of every node before the training; all that applies, if not said.

    `free_gib`: space that must be left where the job writes. `seconds`: how long it may take.
    `bandwidth_percent`: of the network's own rate, what an all-reduce must reach; None: not tried.
    """

    checks: tuple[PreflightCheck, ...] | None = None
    on_bad_node: Literal["fail", "exclude"] = "fail"
    free_gib: Count = 10
    seconds: Count = 60
    bandwidth_percent: Count | None = None


def _parameter(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


class Parameter(SpecModel):
    """A value that can be changed at submission: `NAME=value sbatch job.sh`."""

    default: field_types.Word
    type: Literal["text", "integer", "number"] | None = None
    choices: tuple[field_types.Word, ...] = ()


Steps = tuple[Annotated[Step, BeforeValidator(_step)], ...]


class Experiment(SpecModel):
    """One experiment: where it runs, what it runs, with which numbers.

    The keys that only some frameworks know (`zero`) are in the framework's own model.
    """

    name: field_types.JobName
    cluster: field_types.Plain
    queue: field_types.Plain | None = None
    instance_type: field_types.Plain | None = None
    nodes: Count = 1
    gpus_per_node: Count | None = None
    ranks_per_node: Count | None = None
    cpus_per_task: Count | None = None
    time_limit: field_types.TimeLimit | None = None

    framework: field_types.Plain
    launcher: field_types.Plain | None = None
    ssh: Ssh | None = None
    workdir: field_types.Path | None = None
    script: field_types.Path | None = None
    command: commands.CommandWords | None = None
    args: field_types.Arguments = {}
    software: Software = Field(default_factory=Software)

    model: Model | None = None
    parallel: Parallel = Field(default_factory=Parallel)
    batch: Batch | None = None
    precision: Literal["fp32", "fp16", "bf16"] | None = None

    data: tuple[Data, ...] = ()
    checkpoints: Checkpoints | None = None
    restarts: Restarts | None = None
    logs: Annotated[Logs, BeforeValidator(_logs)] = Field(default_factory=Logs)
    env: dict[field_types.EnvironmentName, field_types.Word] = {}
    parameters: dict[
        field_types.ParameterName, Annotated[Parameter, BeforeValidator(_parameter)]
    ] = {}

    secrets: Annotated[dict[field_types.EnvironmentName, Secret], BeforeValidator(_secrets)] = {}

    preflight: Annotated[Preflight | None, BeforeValidator(_preflight)] = None

    sbatch: dict[field_types.OptionName, field_types.OptionValue] = {}
    srun: dict[field_types.OptionName, field_types.OptionValue] = {}
    setup: commands.Code = ()
    before: Steps = ()
    after: Steps = ()
    sidecars: Steps = ()
    prefix: commands.CommandWords = ()
