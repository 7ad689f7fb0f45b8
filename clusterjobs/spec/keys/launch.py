"""What a job runs: the framework, the launcher, the program and its arguments."""

from typing import Annotated

from clusterjobs.spec import field_types
from clusterjobs.spec import field_types as commands
from clusterjobs.spec.model import Key, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Ssh(SpecModel):
    """An sshd that already runs on every node.

    Without it, launchers that use ssh start an sshd of the job, with a key for this job.
    """

    port: Annotated[field_types.Port, Key("its port", "2222")] = 22
    key: Annotated[
        field_types.Path | None,
        Key("a private key that it accepts", "/fsx/keys/id_ed25519", default_is="ssh's own"),
    ] = None


class FrameworkFacts(SpecModel):
    """What a person knows of the framework that the job uses."""

    version: Annotated[
        field_types.LiteralText,
        Key(
            "the version in use: tables of flags of another version are not compared with `args`",
            "core_r0.13.0",
        ),
    ]


class LaunchKeys:
    """The program of the ranks, and who starts it."""

    framework: Annotated[
        field_types.Plain,
        Key(
            "the program's framework; `command` runs any program",
            "deepspeed",
            schedules=False,
            belongs_with=("size", "time", "program", "launch"),
            see="#frameworks-and-launchers",
        ),
    ]
    launcher: Annotated[
        field_types.Plain | None,
        Key(
            "`srun`, `torchrun`; `deepspeed`, `deepspeed-pdsh` (DeepSpeed's own); `accelerate` "
            "(huggingface, accelerate); `deepy` (gpt-neox); `horovodrun` (horovod); `mpirun` "
            "(horovod, [MPI programs](frameworks/mpi.md)); `composer` (composer)",
            "torchrun",
            schedules=False,
            default_is="the framework's default",
            belongs_with=("size", "time", "launch"),
        ),
    ] = None
    ssh: Annotated[
        Ssh | None,
        Key(
            "an sshd that already runs on every node, for [launchers over ssh]"
            "(job-script.md#over-ssh)",
            "{port: 2222}",
            schedules=False,
            default_is="the job starts its own sshd",
            belongs_with=("launch",),
        ),
    ] = None
    workdir: Annotated[
        field_types.Path | None,
        Key(
            "the folder where the program runs",
            "/fsx/code",
            schedules=False,
            default_is="the folder where sbatch was called",
            belongs_with=("program", "storage"),
            options=("chdir",),
            also_called=("cwd", "working_dir", "work_dir", "working_directory", "directory"),
        ),
    ] = None
    script: Annotated[
        field_types.Script | None,
        Key(
            "the Python script (all frameworks except `command` and `fairseq`), relative to "
            "`workdir`; if it is missing, [the job does not start]"
            "(restarts.md#after-a-crash-a-lost-node-a-requeue). A module of an installed package: "
            "`-m package.module`",
            "train.py",
            schedules=False,
            belongs_with=("program",),
            excludes=("command",),
            also_called=("entrypoint", "entry_point", "program", "train_script"),
        ),
    ] = None
    args: Annotated[
        field_types.Arguments,
        Key(
            "a map: `lr: 1e-4` gives `--lr 1e-4`, `flag: true` a bare flag, `off: false` nothing, "
            "a list several values; or a list of strings, passed as it is, each as one word: "
            "`[--lr, 1e-4]`",
            "{lr: 1e-4, bf16: true}",
            schedules=False,
            default_is="none",
            references="ranks",
            also_called=("arguments", "script_args", "hyperparameters", "hyperparams", "hparams"),
        ),
    ] = {}
    known_args: Annotated[
        tuple[field_types.LiteralText, ...],
        Key(
            "names of arguments, and of keys of config files, that are right although our "
            "[table of flags](frameworks/mistakes.md#tables-of-flags) says otherwise",
            "[eval-micro-batch-size]",
            schedules=True,
            adds_to="items",
            belongs_with=("program",),
        ),
    ] = ()
    frameworks: Annotated[
        dict[field_types.Plain, FrameworkFacts],
        Key(
            "frameworks by name, with the version that the job uses",
            "{megatron-lm: {version: core_r0.13.0}}",
            schedules=True,
            belongs_with=("program",),
            see="frameworks/mistakes.md#tables-of-flags",
        ),
    ] = {}
    command: Annotated[
        commands.Command | None,
        Key(
            "the command (`framework: command`): one string, or a list of strings",
            "[./train, --verbose]",
            schedules=False,
            belongs_with=("program",),
            references="ranks",
            options=("wrap",),
            also_called=("cmd",),
        ),
    ] = None
    prefix: Annotated[
        commands.Command,
        Key(
            "a command put in front of every rank's command: a profiler, numactl",
            "[numactl, --localalloc]",
            schedules=False,
            references="ranks",
        ),
    ] = ()
    job_arguments: Annotated[
        field_types.Flag,
        Key(
            "`true`: the arguments of `sbatch job.sh ARGUMENTS` are passed to the program after "
            "its own",
            "true",
            schedules=False,
            default_is="such arguments are an error",
            see="#values-at-submission",
        ),
    ] = False
    srun: Annotated[
        dict[field_types.OptionName, field_types.OptionValue],
        Key(
            "further options of the srun that starts the ranks, by their long names",
            "{mpi: pmix}",
            schedules=False,
            belongs_with=("launch",),
            see="#options-of-slurm",
        ),
    ] = {}
