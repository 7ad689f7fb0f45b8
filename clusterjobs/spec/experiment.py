"""The experiment spec: what a person may write, key by key.

It knows the keys and the types of single values. It must not know whether values fit each other,
the cluster or the framework (the plan checks that), nor their positions in the file (`load.py`).
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.spec import commands, field_types
from clusterjobs.spec.field_types import Budget, Count, GpuCount, Seconds
from clusterjobs.spec.keys import container as images
from clusterjobs.spec.keys.environment import EnvName, EnvValue, ModuleItem
from clusterjobs.spec.keys.model import AnyModel, Training
from clusterjobs.spec.keys.needs import Needs
from clusterjobs.spec.keys.report import Report
from clusterjobs.spec.keys.roles import Roles
from clusterjobs.spec.keys.staging import ExportTarget, Repository
from clusterjobs.spec.keys.steps import Steps
from clusterjobs.spec.keys.sweep import Sweep
from clusterjobs.spec.model import SpecModel

_MAX_ITEMS = 500  # of lists whose items are compared with each other
_NOT_GIVEN: Any = ""  # sections/complete.py takes the cluster's instead


class Mount(SpecModel):
    """A folder of the node, mounted in the container at `target`."""

    source: images.MountPath
    target: images.MountTarget
    read_only: bool = False


class Container(SpecModel):
    """The image that the ranks run in, and its runtime: by default that of the cluster.

    `efa`: use the EFA libraries of the image or of the host. `shm`: the size of /dev/shm, where the
    runtime does not share the node's. `workdir`: the folder inside where the ranks run; by default
    that of the job.
    """

    runtime: Literal["pyxis", "apptainer", "singularity", "docker", "shifter"] = _NOT_GIVEN
    image: images.Image
    mounts: Annotated[
        tuple[Annotated[Mount, BeforeValidator(images.mount)], ...], Field(max_length=_MAX_ITEMS)
    ] = ()
    workdir: images.FolderInside | None = None
    efa: Literal["image", "host"] = "image"
    shm: images.Size | None = None
    writable: bool = False
    home: bool = False


class Software(SpecModel):
    """The software environment of the job: module files first, then conda or a venv.

    `source`: files of bash that are read before the job changes to `workdir`.
    `requires`: Python packages and the versions, or their beginnings, that the preflight checks.
    With a container, `venv` is a folder inside it.
    """

    venv: field_types.SearchPath | None = None
    conda: field_types.Path | None = None
    modules: tuple[ModuleItem, ...] = ()
    source: tuple[field_types.Path, ...] = ()
    setup: commands.Code = ()
    requires: dict[field_types.PackageName, field_types.PackageVersion] = {}
    container: Container | None = None


class Parallel(SpecModel):
    """Model parallelism: the number of GPUs that share one copy of the model.

    `virtual_pipeline`: parts of the model on each pipeline rank. `context`: ranks that share a
    sequence. `expert`: ranks that share the experts of a layer. `sequence`: the tensor ranks also
    divide the activations between their layers.
    """

    tensor: Count = 1
    pipeline: Count = 1
    virtual_pipeline: Count = 1
    context: Count = 1
    expert: Count = 1
    sequence: field_types.Flag = False


class Batch(SpecModel):
    """Samples: `micro` per GPU and step, `global` per optimizer step of all GPUs."""

    micro: Count | None = None
    global_: Count | None = Field(None, alias="global")
    accumulation: Count | None = None


class Ssh(SpecModel):
    """The port of an sshd that runs on every node, and a key that it accepts.

    Without it, launchers that use ssh start an sshd of the job, with a key for this job.
    """

    port: field_types.Port = 22
    key: field_types.Path | None = None


class Checkpoints(SpecModel):
    """The folder of the checkpoints, made before the training starts.

    `export`: a bucket or another folder that they are copied to. `overwrite`: files there that were
    not exported may be overwritten. `marker`: a file in the folder that the training rewrites after
    each complete checkpoint.
    """

    path: field_types.Path
    export: ExportTarget | None = None
    via: Literal["association", "copy"] | None = None
    overwrite: field_types.Flag = False
    marker: field_types.Path | None = None


def _logs(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class Logs(SpecModel):
    """The folder that gets a folder per job, named by the job id, and where these are copied to.

    `copy`: a file to which every job appends the lines of its log.
    """

    path: field_types.Path = "logs"
    copy_: field_types.Path | None = Field(default=None, alias="copy")
    export: ExportTarget | None = None
    overwrite: field_types.Flag = False


class Restarts(SpecModel):
    """How often the job may resume from its checkpoints, for each reason that an attempt ends.

    The ranks are asked to save `grace_seconds` before the time limit, by a file and optionally by a
    signal. Ranks without progress for `stall_seconds` are stopped; None: they are not.
    """

    time_limit: Budget = 0
    failure: Budget = 0
    node_failure: Budget = 3
    stalled: Budget = 3
    stall_seconds: Seconds | None = None
    grace_seconds: Seconds = 180
    signal: Literal["USR1", "USR2", "TERM"] | None = None


class Data(SpecModel):
    """A data set: its source, and the folder it is copied to, once or on every node.

    `verify`: what a later job compares before it uses an existing copy: the record with the files'
    sizes and times, the source as well, or every byte. `overwrite`: files in the target that were
    not staged may be overwritten. `size_gib`: the space that it needs.
    """

    source: Repository
    target: field_types.Path
    scope: Literal["shared", "node"] = "shared"
    via: Literal["association", "copy"] | None = None
    unpack: field_types.Flag = False
    verify: Literal["record", "source", "contents"] = "record"
    overwrite: field_types.Flag = False
    size_gib: Count | None = None


class Secret(SpecModel):
    """Where the job takes a secret's value from; by default, from the environment."""

    file: field_types.Path | None = None
    command: commands.Command | None = None


def _secrets(value: Any) -> Any:
    """A list of names, or a mapping; a name without a value is like a name in the list."""
    if isinstance(value, dict):
        return {name: {} if item is None else item for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if any(isinstance(name, (dict, list)) for name in value):
        raise ValueError("expected a list of names: write [A_KEY], or {A_KEY: {file: /path}}")
    return {name: {} for name in value}


PreflightCheck = Literal[
    "gpus",
    "efa",
    "fabric",
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
    """`true` means all checks, a list the ones it names."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, list):
        return {"checks": value}
    if not isinstance(value, dict):
        raise ValueError(
            "expected true, false or a list of checks: write preflight: true, or [gpus, efa]"
        )
    return value


class Preflight(SpecModel):
    """The checks of every node before the training; by default, all that apply.

    `free_gib`: free space required where the job writes. `seconds`: the timeout.
    `bandwidth_percent`: the share of the network's rate that an all-reduce must reach, if any.
    """

    checks: tuple[PreflightCheck, ...] | None = None
    on_bad_node: Literal["fail", "exclude"] = "fail"
    free_gib: Count = 10
    seconds: Count = 60
    bandwidth_percent: Count | None = None


def _parameter(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


class Parameter(SpecModel):
    """A value that can be set at submission: `NAME=value sbatch job.sh`.

    `env`: it is also an environment variable of the ranks.
    """

    default: field_types.Text
    env: field_types.Flag = False
    type: Literal["text", "integer", "number"] | None = None
    choices: tuple[field_types.Text, ...] = ()


class Experiment(SpecModel):
    """One experiment: where it runs, what it runs, and its sizes.

    `job_arguments`: the program gets the arguments of `sbatch job.sh ARGUMENTS` after its own.

    The keys of a framework (`zero`) are in the framework's own model.
    """

    name: field_types.JobName
    cluster: field_types.Plain
    queue: field_types.Queue | None = None
    instance_type: field_types.Plain | None = None
    nodes: Count = 1
    gpus_per_node: GpuCount | None = None
    ranks_per_node: Count | None = None
    cpus_per_task: Count | None = None
    time_limit: field_types.TimeLimit | None = None

    framework: field_types.Plain
    launcher: field_types.Plain | None = None
    ssh: Ssh | None = None
    workdir: field_types.Path | None = None
    script: field_types.Path | None = None
    command: commands.Command | None = None
    args: field_types.Arguments = {}
    job_arguments: field_types.Flag = False
    software: Software = Field(default_factory=Software)

    model: AnyModel | None = None
    training: Training | None = None
    parallel: Parallel = Field(default_factory=Parallel)
    batch: Batch | None = None
    precision: Literal["fp32", "fp16", "bf16"] | None = None

    data: Annotated[tuple[Data, ...], Field(max_length=_MAX_ITEMS)] = ()
    checkpoints: Checkpoints | None = None
    restarts: Restarts | None = None
    logs: Annotated[Logs, BeforeValidator(_logs)] = Field(default_factory=Logs)
    report: Report | None = None
    env: dict[EnvName, EnvValue] = {}
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
    prefix: commands.Command = ()
    roles: Roles = {}

    sweep: Sweep | None = None
    needs: Needs = ()
