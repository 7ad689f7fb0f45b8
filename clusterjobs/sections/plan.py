"""The plan: all values that are printed, submitted or explained, in sections.

Values may hold references to shell variables (`text.py`); everything else is literal.
Paths are absolute or start with a variable. A reader of a plan does not need the spec.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from clusterjobs.clusters.facts import BucketLink, NodeType
from clusterjobs.diagnostics import Derived
from clusterjobs.errors import Location, Problem
from clusterjobs.frameworks.base import (
    JOB_DIR,
    ConfigFile,
    Parallelism,
    Samples,
    Saving,
    Shape,
    Variable,
)
from clusterjobs.launchers import Launcher
from clusterjobs.sections.fabrics import Fabric
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.known_references import LATEST
from clusterjobs.text import Value, joined, show, variable, variable_names
from clusterjobs.yaml.document import Path


class Parameter(NamedTuple):
    """A value must match `pattern` ("" matches anything) and be one of `choices`, if there are any.

    `wanted` describes this for messages: "an integer", "one of a, b".
    """

    name: str
    default: Value
    pattern: str
    choices: tuple[Value, ...]
    wanted: str


class Job(NamedTuple):
    """`title`: "2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun".

    `path`: folders of commands that the script needs, whatever PATH the caller has. `folder`: the
    job's own folder. `log_copy`: a file that also gets the lines of job.log. `workdir`: where the
    ranks run; None: where sbatch was called. `trust`: groups and users, see the key.
    """

    name: str
    cluster: str
    framework: str
    title: str
    directives: tuple[Directive, ...]
    path: tuple[str, ...]
    folder: Value
    log_copy: Value | None
    workdir: Value | None
    parameters: tuple[Parameter, ...]
    time_limit: str | None
    trust: tuple[str, ...] = ()


class Placement(NamedTuple):
    """The job's share of the cluster. `cpus_per_task` as Slurm counts them; None if unknown.

    `shape`: of the training. `fabric`: the network between the nodes, "efa" or another; "" if
    unknown. `constraint`: the Slurm features to request if the partition has several node types,
    else "". `per_node`: points of a sweep side by side on one node; all else is the share of one
    point. `role_nodes`: nodes that do not train. `address_suffix`: added to a node's name, it gives
    the node's address in the fast network.
    """

    shape: Shape
    partition: str
    node_type: NodeType
    fabric: str
    constraint: str
    exclusive: bool
    ntasks_per_node: int
    cpus_per_task: int | None
    per_node: int = 1
    role_nodes: int = 0
    address_suffix: str = ""

    @property
    def all_nodes(self) -> int:
        """The nodes of the job: those that train, then those of the roles."""
        return self.shape.nodes + self.role_nodes

    @property
    def cpus(self) -> int | None:
        """The CPUs that the job, or a point of a pack, has on one node."""
        return self.cpus_per_task and self.cpus_per_task * self.ntasks_per_node

    @property
    def cpus_per_rank(self) -> int | None:
        """A rank's share of them, at least one."""
        return self.cpus and max(1, self.cpus // self.shape.ranks_per_node)

    @property
    def shares_cpus(self) -> bool:
        """Whether a node has more ranks than CPUs."""
        return self.cpus is not None and self.cpus < self.shape.ranks_per_node


class Secret(NamedTuple):
    """Its value comes from a file, from a command's output, or else from the environment."""

    name: str
    file: Value | None
    command: tuple[Value, ...]


class ModuleCall(NamedTuple):
    """A call of `module`, for example `load` with the names of two modules."""

    command: str
    names: tuple[str, ...]


class Environment(NamedTuple):
    """What the job unsets from the inherited environment, and what it sets.

    `source`: files of bash that the script reads before it changes to the working folder.
    `kept_slurm`: patterns of the SLURM_ variables that are kept, without this prefix; `unset`:
    patterns of variables that are not, but for PYTHON*, which the log names. `conda` and `venv`:
    None if there is none, or if the container has its own. `software_setup` and `setup`: the user's
    own lines of bash. `profile`: the fabric's file of bash that sets variables; "" if it has none.
    `site_setup`: lines of bash of the cluster, which run first. `again`: those of
    `variables` that are set once more at the end, because lines of bash or modules may have changed
    them. `ulimit`: name of a limit -> its value as for bash's `ulimit`. `computed`: names and
    commands of the spec's `values`; variables that have one are exported by `again` alone.
    """

    kept_slurm: tuple[str, ...]
    unset: tuple[str, ...]
    variables: tuple[Variable, ...]
    secrets: tuple[Secret, ...]
    source: tuple[Value, ...]
    modules: tuple[ModuleCall, ...]
    conda: Value | None
    venv: Value | None
    software_setup: tuple[str, ...]
    setup: tuple[str, ...]
    profile: str = ""
    site_setup: tuple[str, ...] = ()
    again: tuple[Variable, ...] = ()
    ulimit: Mapping[str, str] = MappingProxyType({})
    computed: tuple[tuple[str, tuple[Value, ...]], ...] = ()


class Files(NamedTuple):
    """`configs` are written to the job's folder, and to the output folder for people to read.

    `folders` are created if they are missing. `links`: paths below the job's folder, each a link to
    the program of its name.
    """

    configs: tuple[ConfigFile, ...]
    folders: tuple[Value, ...]
    links: tuple[str, ...]


class Input(NamedTuple):
    """A path that is read; a relative one is relative to the ranks' folder.

    `staged`: its target, if it is staged; a complete target no longer needs its source.
    `made_late`: staging or a command before the training may create it. `is_run`: it must be
    executable.
    """

    what: str
    key: str
    path: Value
    staged: Value | None
    made_late: bool
    where: Location
    is_run: bool = False


class Check(NamedTuple):
    """One check. `word`: its argument for the node's program, `check=wanted`."""

    word: Value
    reason: str


class AllReduce(NamedTuple):
    """The bandwidth that an all-reduce must reach: `percent` of `gbps`, of one node (0: unknown).

    `srun_options`: those of its step, which has one task per rank.
    """

    gbps: str
    percent: int
    srun_options: tuple[Directive, ...]


class SpecLine(NamedTuple):
    """A key of the spec, and its position there, as in `Location`; `file` has no folder."""

    path: str
    file: str
    line: int
    column: int
    width: int
    source: str


class ArgumentCheck(NamedTuple):
    """How the framework's own parser is asked about the arguments.

    `checks`: the programs that ask, without `.py`. `runs_help`: also `--help` of the user's script.
    `pipeline`: the stages of the pipeline. `variables`: prefixes of those that are settings.
    `lines`: those of the spec, by flag.
    """

    checks: tuple[str, ...]
    seconds: int
    runs_help: bool
    pipeline: int
    variables: tuple[str, ...]
    lines: Mapping[str, SpecLine]

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that ask a framework, without what they import."""
        return ("argument_check.py", *(f"{one}.py" for one in self.checks))


class Preflight(NamedTuple):
    """`excludes_bad_nodes`: the job restarts without them.

    `reads_nccl`: NCCL's log files in `nccl_logs` must show that `fabric` is used.
    """

    checks: tuple[Check, ...]
    excludes_bad_nodes: bool
    reads_nccl: bool
    nccl_logs: Value
    all_reduce: AllReduce | None
    fabric: Fabric

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it runs on the nodes."""
        needed = {
            "preflight.py": bool(self.checks),
            "nccl_log.py": self.reads_nccl,
            "all_reduce.py": self.all_reduce is not None,
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)

    @property
    def environment(self) -> tuple[Variable, ...]:
        """Variables that make NCCL log its network; it does so once, when it starts."""
        if not self.reads_nccl:
            return ()
        return (
            Variable(
                "NCCL_DEBUG",
                "INFO",
                f"its log says whether {self.fabric.title} is used",
                "NCCL user guide",
            ),
            Variable(
                "NCCL_DEBUG_SUBSYS",
                "INIT,NET",
                "of that, what is about the network",
                "NCCL user guide",
            ),
            Variable(
                "NCCL_DEBUG_FILE",
                joined(self.nccl_logs, "/%h.%p"),
                "a file for each rank",
                "NCCL user guide",
            ),
        )


# The archives that a job can unpack by the ends of their names, and the programs that it needs
# besides Python, which reads zip.
UNPACKERS: Mapping[str, tuple[str, ...]] = {
    ".tar": ("tar",),
    **dict.fromkeys((".tar.gz", ".tgz"), ("tar", "gzip")),
    **dict.fromkeys((".tar.bz2", ".tbz2"), ("tar", "bzip2")),
    **dict.fromkeys((".tar.xz", ".txz"), ("tar", "xz")),
    ".zip": (),
    **dict.fromkeys((".tar.zst", ".tzst"), ("tar", "zstd")),
}


class DataSet(NamedTuple):
    """One data set. `verify`: what is compared before an existing copy is used.

    `linked`: the file system shows the bucket's files; the job only preloads them.
    """

    source: Value
    target: Value
    per_node: bool
    linked: bool
    unpack: bool
    verify: str
    overwrite: bool


class Staging(NamedTuple):
    """The required inputs, the data to copy, and the links that file systems need."""

    inputs: tuple[Input, ...]
    data: tuple[DataSet, ...]
    links: tuple[BucketLink, ...]

    @property
    def unpackers(self) -> tuple[str, ...]:
        """The programs that unpack its archives, and that nodes may lack."""
        unpacked = [show(one.source).lower() for one in self.data if one.unpack]
        found = (
            program
            for end, programs in UNPACKERS.items()
            for program in programs
            if any(source.endswith(end) for source in unpacked)
        )
        return tuple(dict.fromkeys(found))

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it runs on the nodes; stage.py imports the last two by name."""
        copied = [one for one in self.data if not one.linked]
        needed = {
            "preload.py": any(one.linked for one in self.data),
            "stage.py": bool(copied),
            "stage_s3.py": any(one.source.startswith("s3://") for one in copied),
            "stage_archive.py": any(one.unpack for one in copied),
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)


class Mounted(NamedTuple):
    """A folder of the node in the container. `path`: the key of the spec that asks for it."""

    source: Value
    target: Value
    read_only: bool
    reason: str
    path: Path = ("software", "container")


CONTAINER_SETUP = "container_setup.bash"  # in the job's folder


class Container(NamedTuple):
    """How the ranks run in containers.

    `names`: the variables that are passed on, even if the image sets them. `options` are the
    runtime's, with pyxis those of srun. `ssh_inside`: one process in the first node's container
    reaches the other nodes' containers by ssh. `host_fabric_libraries`: folders of the node's own
    libraries, which are searched first. `has_setup`: the ranks run CONTAINER_SETUP first.
    """

    runtime: str
    image: Value
    mounts: tuple[Mounted, ...]
    options: tuple[Directive, ...]
    names: tuple[str, ...]
    ssh_inside: bool
    venv: Value | None
    host_fabric_libraries: str | None
    has_setup: bool


class Step(NamedTuple):
    """A command that runs once per job, once on every node, or on all ranks (`per`).

    `name`: in the log; "" for a plain command, which the script runs without a message. `inside`:
    in the job's container. `launcher`: what starts the ranks. `srun_options`: those of a step per
    rank. `timeout_seconds`, `min_bus_bandwidth` (GB/s): 0 for none. `creates`: the step is left
    out if this path is there.
    """

    words: tuple[Value, ...]
    per: str = "job"
    name: Value = ""
    inside: bool = False
    launcher: Launcher | None = None
    srun_options: tuple[Directive, ...] = ()
    once: bool = False
    timeout_seconds: int = 0
    min_bus_bandwidth: int = 0
    creates: Value = ""


class Steps(NamedTuple):
    """`after` follows a training that ended well, and `always` every end of an attempt.

    `sidecars` run in parallel to the training and are stopped with it. `programs`: what the steps
    of clusterjobs itself run.
    """

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    always: tuple[Step, ...]
    sidecars: tuple[Step, ...]
    programs: tuple[str, ...]


class SshServer(NamedTuple):
    """An sshd that runs on the nodes, and a key that it accepts; None: the user's default key."""

    port: int
    key: Value | None


class Launch(NamedTuple):
    """`words`: the command that the launcher starts. `prefix`: a command in front of the program.

    `srun_options`: those of the ranks' srun; () if the script does not call srun for them.
    `origins`: words of the command, as shown, and the keys of the spec that they come from.
    `no_python`: the launcher's option for a command that is no Python script; `own_options`: those
    that the spec gives, and `own_text` what the template prints of them. `template`: of the launch
    section. `forced`: reserved variables that the prefix sets, with the reasons. `takes_arguments`:
    the command gets those of the job script. `interface`: the ranks' network interface, if the spec
    names one. `ssh`: None if the job starts its own sshd, or needs none.
    """

    launcher: Launcher
    reason: str
    prefix: tuple[Value, ...]
    words: tuple[Value, ...]
    origins: Mapping[str, str]
    srun_options: tuple[Directive, ...]
    no_python: tuple[str, ...]
    own_options: tuple[Value, ...]
    own_text: str
    forced: Mapping[str, str]
    takes_arguments: bool
    template: str
    interface: str | None
    ssh: SshServer | None
    programs: tuple[str, ...]

    @property
    def kills_others(self) -> bool:
        """Whether srun kills the other ranks when one has failed."""
        return any(one.name == "kill-on-bad-exit" and one.value == 1 for one in self.srun_options)


class Role(NamedTuple):
    """A command on the nodes from number `first` on, from 0 among the job's nodes.

    `options`: those of its srun. `port`: the training waits until it answers; None: it does not.
    """

    name: str
    first: int
    nodes: int
    words: tuple[Value, ...]
    options: tuple[Directive, ...]
    port: int | None
    ready_seconds: int

    def where(self, all_nodes: int) -> str:
        """`node 3 of 3, port 8000`."""
        first, last = self.first + 1, self.first + self.nodes
        nodes = f"node {first}" if self.nodes == 1 else f"nodes {first}-{last}"
        return f"{nodes} of {all_nodes}" + (f", port {self.port}" if self.port else "")

    @property
    def log(self) -> str:
        """The file in the job's folder that has its output."""
        return f"{self.name}.log"

    def data(self) -> dict[str, str | int | None]:
        """The role as `plan --json` and plan.json have it. `first_node`: from 0."""
        return {
            "name": self.name,
            "first_node": self.first,
            "nodes": self.nodes,
            "port": self.port,
            "log": self.log,
        }


class Export(NamedTuple):
    """A folder that the job exports. `overwrite`: also files that were not exported from it.

    `of_job`: the folder of the job itself.
    """

    source: Value
    target: Value
    overwrite: bool
    of_job: bool = False


class Checkpoints(NamedTuple):
    """Where the checkpoints are, and how they are exported.

    `marker`: a file that the training rewrites after each complete checkpoint. `path` and
    `marker` are None if unknown. `links`: exports of `path` that the file system makes.
    `resume_option`: passed to the program with the newest complete `checkpoint-N`, if there is one.
    `resumes_any`: also checkpoints of another training. `overwritten`: see `Saving`. `has_latest`:
    an argument is the newest one.
    """

    path: Value | None
    marker: Value | None
    exports: tuple[Export, ...]
    links: tuple[BucketLink, ...]
    resume_option: str = ""
    resumes_any: bool = False
    overwritten: tuple[tuple[str, str], ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that export them."""
        if not self.exports:
            return ()
        # export.py imports it by name
        to_bucket = any(one.target.startswith("s3://") for one in self.exports)
        return ("export.py", "export_bucket.py") if to_bucket else ("export.py",)


_STOP_FILE = Variable(
    "CLUSTERJOBS_STOP_FILE",
    joined(JOB_DIR, "/stop"),
    "once this file is there: save a checkpoint and end",
)


_HEARTBEAT = Variable(
    "CLUSTERJOBS_HEARTBEAT",
    joined(JOB_DIR, "/heartbeat"),
    "touch this file while a long step makes progress",
)


class Restarts(NamedTuple):
    """How often the job restarts for each reason, and when the ranks are asked to save.

    All times in seconds. `stall_seconds`: without progress, until ranks are stopped; None: they are
    not. `clock_seconds`: how long before the time limit a training with the stop
    channel "clock" must end. `signal`: the signal for the ranks, if the spec has one.
    `auto_resume`: the cluster restarts the ranks after a failure, and the script does not.
    """

    time_limit: int
    failure: int
    node_failure: int
    stalled: int
    stall_seconds: int | None
    grace_seconds: int
    signal_seconds: int
    clock_seconds: int
    saving: Saving
    signal: str | None
    auto_resume: bool = False

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The directives that it needs."""
        value = f"B:USR1@{self.signal_seconds}"
        return (
            Directive("signal", value, "restarts: a signal to the script before the time limit"),
        )

    @property
    def environment(self) -> tuple[Variable, ...]:
        """The variables that the ranks need."""
        return (
            *([_STOP_FILE] if self.saving.stop_channel == "file" else []),
            *([_HEARTBEAT] if self.stall_seconds else []),
        )


POINT = variable("point_name")


class SweepJob(NamedTuple):
    """`folder`: that of the sweep, with a folder for each point in it.

    `max_running`: tasks of an array at the same time. `max_failed`: points of an array that may
    fail before its pending tasks are held. None: any number.
    """

    name: str
    folder: Value
    max_running: int | None
    max_failed: int | None

    @property
    def environment(self) -> tuple[Variable, ...]:
        """The variables that the ranks need."""
        return (
            Variable("CLUSTERJOBS_SWEEP", self.name, "the name of the sweep"),
            Variable("CLUSTERJOBS_POINT", POINT, "the name of this point"),
        )


class Plan(NamedTuple):
    """One job."""

    job: Job
    placement: Placement
    parallelism: Parallelism
    batch: Samples | None
    environment: Environment
    files: Files
    preflight: Preflight | None
    argument_check: ArgumentCheck | None
    staging: Staging
    container: Container | None
    steps: Steps
    launch: Launch
    roles: tuple[Role, ...]
    checkpoints: Checkpoints
    restarts: Restarts | None
    points: SweepJob | None
    derived: tuple[Derived, ...]
    warnings: tuple[Problem, ...]

    @property
    def links(self) -> tuple[BucketLink, ...]:
        """The links between folders and buckets that the file systems need."""
        return (*self.staging.links, *self.checkpoints.links)

    @property
    def has_latest(self) -> bool:
        """Whether an argument of the ranks is the newest checkpoint."""
        return any(LATEST in variable_names(word) for word in self.launch.words)
