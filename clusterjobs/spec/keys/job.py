"""The job as Slurm sees it: name, nodes, limits, folder of logs, parameters, further options."""

import functools
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count, GpuCount
from clusterjobs.spec.keys.staging import ExportTarget
from clusterjobs.spec.model import FLAG, TEXT, Also, Key, SpecModel
from clusterjobs.text import Text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.

# Read before the other keys: it says which files they come from.
EXTENDS = Key(
    "a file, or a list of files, with keys of the spec: what this file does not say",
    "[base.yaml, gpus.yaml]",
    schedules=True,
    fixed_in_sweep=("all points extend the same files", "sweep the keys that the files set"),
    see="#layers",
)


class Logs(SpecModel):
    """The folder that gets a folder per job, named by the job id, and where these are copied to."""

    path: Annotated[
        field_types.Path,
        Key(
            "a folder on shared storage, in which each job has its own folder with `job.log`",
            "/fsx/logs",
            default_is="`logs`, where sbatch was called",
        ),
    ] = "logs"
    copy_: Annotated[
        field_types.Path | None,
        Key(
            "a file to which every job also appends its log; its folder is created",
            '"/fsx/logs/{{ name }}.log"',
        ),
    ] = Field(default=None, alias="copy")
    export: Annotated[
        ExportTarget | None,
        Key(
            "a path or bucket to which the job's folder is copied, below the job's id (of a sweep: "
            "`<sweep>/<point>/<job id>`)",
            "s3://my-bucket/logs",
            see="staging.md#exporting-checkpoints-and-logs",
            renamed_from="logs_export",
        ),
    ] = None
    overwrite: Annotated[
        field_types.Flag, Key("replace files in `export` that were not exported", "true")
    ] = False


def _logs(value: Any) -> Any:
    return {"path": value} if isinstance(value, (str, Text)) else value


def _parameter(value: Any) -> Any:
    return value if isinstance(value, dict) else {"default": value}


class Parameter(SpecModel):
    """A value that can be set at submission: `NAME=value sbatch job.sh`."""

    default: Annotated[
        field_types.AnyText, Key("the value of a job that gets no other one", "1.5e-4")
    ]
    env: Annotated[
        field_types.Flag, Key("it is also an environment variable of the ranks", "true")
    ] = False
    type: Annotated[
        Literal["text", "integer", "number"] | None,
        Key("`text`, `integer` or `number`", "number", default_is="that of `default`"),
    ] = None
    choices: Annotated[
        tuple[field_types.AnyText, ...], Key("the values that it may have", "[adam, lamb]")
    ] = ()


class JobKeys:
    """What Slurm and the person who submits a job are told."""

    name: Annotated[
        field_types.JobName,
        Key(
            "Slurm's job name, and part of paths",
            "gpt-1b",
            schedules=True,
            options=("job-name",),
            fixed_in_sweep=(
                "all points have the name of the spec",
                "the name of a point is {{ point.name }}",
            ),
            also_called=("job_name", "run_name", "experiment"),
        ),
    ]
    time_limit: Annotated[
        field_types.TimeLimit | None,
        Key(
            "at most the queue's `MaxTime`, in Slurm's formats: `90` (minutes), `12:00:00`, "
            "`2-00:00:00`. `24:00` is 24 minutes to Slurm, and gives a warning",
            "12:00:00",
            schedules=True,
            default_is="the partition's own",
            belongs_with=("time",),
            directive="time",
            beside={"walltime": ""},  # PBS
            also_called=("max_time", "timeout", "duration"),
        ),
    ] = None
    logs: Annotated[
        Logs,
        BeforeValidator(_logs),
        Also(TEXT),
        Key(
            "the keys below, or `path` alone: folders of jobs, [safe from other users]"
            "(job-script.md#other-users-of-the-cluster)",
            "/fsx/logs",
            schedules=True,
            belongs_with=("storage",),
            is_section=True,
            beside={"output": "logs, a folder", "error": "logs, a folder"},
            fixed_in_sweep=("the folders of all points are in one folder", "remove it"),
            see="#the-log-of-slurm",
            also_called=("log_dir", "logs_dir", "logdir", "log_folder"),
        ),
    ] = Field(default_factory=functools.cache(Logs))
    trust: Annotated[
        tuple[field_types.UserName, ...],
        Key(
            "groups and users who may write to the folders of `logs` and of the checkpoints: "
            "[they can run programs as you](job-script.md#other-users-of-the-cluster)",
            "[ml-team]",
            schedules=True,
            adds_to="items",
            belongs_with=("storage",),
        ),
    ] = ()
    parameters: Annotated[
        dict[
            field_types.ParameterName,
            Annotated[Parameter, BeforeValidator(_parameter), Also(TEXT, FLAG)],
        ],
        Key(
            "values that can be changed at submission: names, each with the keys below or with its "
            "default",
            "{LR: 1.5e-4}",
            schedules=False,
            belongs_with=("variables",),
            fixed_in_sweep=(
                "parameters are set at submission, for all points",
                "sweep the key that refers to the parameter",
            ),
            see="#values-at-submission",
        ),
    ] = {}
    sbatch: Annotated[
        dict[field_types.OptionName, field_types.OptionValue],
        Key(
            "further options by their long names. `false` [drops a directive](#dropped-directives);"
            " `exclusive: false` [shares the node](packing.md#plain-jobs) with other jobs",
            "{account: ml, requeue: true}",
            schedules=True,
            instead_of={
                "parsable": "nothing: clusterjobs submit prints the job's id",
                "test-only": "it when you submit: sbatch --test-only generated/job.sh",
            },
            see="#options-of-slurm",
            also_called=("memory=mem", "email=mail-user"),
        ),
    ] = {}


# ------------------------------------------------------------------ placement
# Where a job runs, and how many nodes, GPUs and ranks it has.


# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class PlacementKeys:
    """The cluster, and the job's share of it."""

    cluster: Annotated[
        field_types.Plain,
        Key(
            "the name of a ready config or of one of the [site](admins.md), or the path of a "
            "ParallelCluster config or of a [description of a Slurm cluster](slurm-clusters.md), "
            "relative to the spec's folder",
            "p4d-a100",
            schedules=False,
            belongs_with=("size", "time", "storage", "nodes"),
            fixed_in_sweep=("a sweep runs on one cluster", "write a spec for each cluster"),
        ),
    ]
    queue: Annotated[
        field_types.Queue | None,
        Key(
            "the queue, which is Slurm's partition",
            "gpu",
            schedules=True,
            default_is="see [the queue](#the-queue)",
            belongs_with=("size", "time", "storage"),
            options=("partition",),
        ),
    ] = None
    instance_type: Annotated[
        field_types.Plain | None,
        Key(
            "the type of node, if the queue has several",
            "p4d.24xlarge",
            schedules=False,
            default_is="the queue's type",
            belongs_with=("size", "storage"),
            also_called=("instance", "machine_type", "node_type"),
        ),
    ] = None
    nodes: Annotated[
        Count,
        Key(
            "number of nodes",
            "4",
            schedules=False,
            belongs_with=("size", "nodes"),
            options=("nodes",),
            also_called=("node_count", "num_nodes", "n_nodes", "nnodes"),
        ),
    ] = 1
    gpus_per_node: Annotated[
        GpuCount | None,
        Key(
            "GPUs used on each node, 0 for none; `a100:4` also names their type, as in Slurm's "
            "Gres; with `sweep.per_node`, by each point",
            "8",
            schedules=False,
            default_is="all of them, divided among the points",
            belongs_with=("size",),
            options=("gpus-per-node",),
            instead_of=dict.fromkeys(
                ("gpus", "gres", "gpus-per-task", "gpus-per-socket"),
                "gpus_per_node, the GPUs of each node",
            ),
            also_called=(
                "gpu",
                "num_gpus",
                "n_gpus",
                "ngpus",
                "gpu_count",
                "gpu_per_node",
                "num_gpus_per_node",
            ),
        ),
    ] = None
    ranks_per_node: Annotated[
        Count | None,
        Key(
            "training processes on each node",
            "8",
            schedules=False,
            default_is="one per GPU, or per logical core of [Trainium](frameworks/trainium.md); "
            "1 without them",
            belongs_with=("size",),
            options=("ntasks-per-node", "tasks-per-node"),
            instead_of={"ntasks": "nodes and ranks_per_node", "ntasks-per-gpu": "ranks_per_node"},
            also_called=("nproc_per_node", "processes_per_node", "num_processes", "nprocs"),
        ),
    ] = None
    cpus_per_task: Annotated[
        Count | None,
        Key(
            "CPUs of a Slurm task",
            "12",
            schedules=False,
            default_is="the node's CPUs, divided among the tasks",
            belongs_with=("size",),
            options=("cpus-per-task",),
            instead_of={"cpus-per-gpu": "cpus_per_task, the CPUs of each rank"},
            see="#cpus-and-threads",
            also_called=("cpu", "cpus", "num_cpus", "cpus_per_rank"),
        ),
    ] = None
