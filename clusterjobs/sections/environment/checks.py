"""Variables and software that a spec must not set, with the reason and what to do instead."""

import re
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.sections.context import Context
from clusterjobs.sections.fabrics import fabric_of
from clusterjobs.sections.placement.gpu_requests import requests_gpus
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import MAX_WORD_BYTES
from clusterjobs.spec.keys.environment import Software, text_of
from clusterjobs.spec.references import as_text
from clusterjobs.text import ShellVariable, Text, Value, expanding, references, show, variable_names
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ inherited env
# Variables of the shell that called sbatch, which must not reach the job.
# sbatch passes on the caller's whole environment. If sbatch is called inside another job, srun and
# torch would use that job's ranks and options. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES;
# srun(1), INPUT ENVIRONMENT VARIABLES; squeue(1), scancel(1), scontrol(1), ENVIRONMENT VARIABLES;
# torch.distributed and torchrun; Open MPI, PMI.


_RANKS = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
)
# They change how bash works. The first ones are reserved names.
_START_OF_BASH = ("BASH_ENV", "BASHOPTS", "POSIXLY_CORRECT", "SECONDS", "SHELLOPTS")
_BASH = ("BASH_COMPAT", "CDPATH", "EXECIGNORE", "FUNCNEST", "GLOBIGNORE", "TMOUT")

# Families of variables, by their prefix.
PREFIXES = (
    *("PYTHON", "TORCHELASTIC_", "OMPI_COMM_", "PMI"),
    *("SQUEUE_", "SCANCEL_", "SCONTROL_"),  # SQUEUE_STATES=PENDING would hide running jobs
)

# Patterns of the variables that sbatch sets for every job, and of those that locate Slurm.
_SBATCH_SETS = (
    "SLURM_ARRAY_*",
    "SLURM_CLUSTER_NAME",
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_JOB_*",
    "SLURM_JOBID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NODELIST",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_RESTART_COUNT",
    "SLURM_SUBMIT_*",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_*",
    "SLURM_WORKING_CLUSTER",
)

# Options that sbatch passes to srun as a variable: with the option, the variable is this job's;
# without it, the variable belongs to another job.
_HANDED_ON = {
    "cpu-freq": "SLURM_CPU_FREQ_REQ",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "distribution": "SLURM_DISTRIBUTION",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "hint": "SLURM_HINT",
    "mem": "SLURM_MEM_PER_NODE",
    "mem-bind": "SLURM_MEM_BIND",
    "network": "SLURM_NETWORK",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-socket": "SLURM_NTASKS_PER_SOCKET",
    "oom-kill-step": "SLURM_OOM_KILL_STEP",  # set in every job from 24.11 on
    "overcommit": "SLURM_OVERCOMMIT",
    "profile": "SLURM_PROFILE",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
}


def own_slurm_variables(directives: Iterable[Directive]) -> tuple[str, ...]:
    """Patterns of the SLURM_ variables that describe this job, without `SLURM_`."""
    # SPANK plugins of sbatch pass their options to srun and to the ranks as variables: spank(8).
    # Those of options, _SLURM_SPANK_OPTION_*, do not begin with SLURM_ and are never unset.
    handed = (_HANDED_ON[one.name] for one in directives if one.name in _HANDED_ON)
    kept = (*_SBATCH_SETS, *sorted(handed), "SLURM_SPANK_*")
    return tuple(one.removeprefix("SLURM_") for one in kept)


def is_unset(name: str) -> bool:
    """Whether the job unsets it, so that a value from the calling shell never arrives."""
    return name in (*_RANKS, *_BASH) or name.startswith(PREFIXES)


def inherited_variables(
    directives: Iterable[Directive], further_prefixes: Iterable[str] = ()
) -> tuple[str, ...]:
    """Patterns of the variables that the job unsets first of all, but for PYTHON*."""
    prefixes = ("SLURM_", "SRUN_", *PREFIXES[1:], *further_prefixes)
    # If the job requests GPUs, Slurm sets it; else it may belong to another job.
    devices = () if requests_gpus(directives) else ("CUDA_VISIBLE_DEVICES",)
    return (*_RANKS, *devices, *_START_OF_BASH, *_BASH, *(f"{one}*" for one in prefixes))


_NOT_INSIDE = {
    "conda": (
        "a conda environment of the node needs the node's libraries, and the image has its own",
        "remove it; or venv: /path/in/the/image",
    ),
    "setup": (
        "software.setup would prepare the node's environment, and the ranks use the image's",
        "software.container.setup runs in the container; setup: on the node, before it",
    ),
}


def check_software(context: Context, software: Software) -> None:
    """Refuse environments that exclude each other, or that a container excludes."""
    if software.conda and software.venv:
        context.problem(
            ("software", "venv"),
            "conda and venv exclude each other: each replaces Python",
            "keep one",
        )
    if software.container is None:
        return
    for key, (what, hint) in _NOT_INSIDE.items():
        if getattr(software, key):
            context.problem(("software", key), what, hint)


# Common mistakes in public scripts: (why not, what to do instead). True: an error, not a warning.
_MUST_NOT = {
    "RDMAV_FORK_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "RDMAV_HUGEPAGES_SAFE": ("breaks EFA with huge pages", "remove it", True),
    "NCCL_BUFFERSIZE": ("is no variable of NCCL", "did you mean NCCL_BUFFSIZE?", True),
    "NCCL_TREE_THRESHOLD": ("has no effect in NCCL 2.5 and later", "remove it", False),
    "FI_EFA_TX_MIN_CREDITS": ("is an old workaround", "remove it", False),
    "NCCL_ASYNC_ERROR_HANDLING": ("is the old name", "it is on by default in torch 2.2", False),
}


# The same on some fabrics.
_ON_FABRICS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "NCCL_PROTO": {"efa": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)")},
    "NCCL_ALGO": {"efa": ("overrides the plugin's tuner", "remove it (aws-ofi-nccl 1.16)")},
    "NCCL_IB_DISABLE": {
        "infiniband": ("turns InfiniBand off: NCCL would use TCP", "remove it"),
        "efa": ("has no effect with EFA", "remove it"),
    },
}
_FAMILIES = ("NCCL_", "TORCH_", "PYTORCH_", "CUDA_", "OMP_", "FI_", "GLOO_")
_TCP_INSTEAD = {"FI_PROVIDER": "tcp", "NCCL_NET": "socket"}
_INTERFACE = re.compile(r"=?(?:eth|ens|enp)\w+")


def _misleading(context: Context, name: str, value: str) -> tuple[str, str] | None:
    """What is wrong with a value that a program takes and trains something else with."""
    shape = context.placement.shape
    is_interface = name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    if is_interface and shape.nodes > 1 and value.lstrip("=") == "lo":
        return "lo reaches no other node", "remove it"
    if name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME") and shape.gpus_per_node and value == "cpu":
        return "JAX uses none of the node's GPUs", "remove it, or write gpus_per_node: 0"
    levels = ("OFF", "INFO", "DETAIL")
    if name == "TORCH_DISTRIBUTED_DEBUG" and value.upper() not in levels and "$" not in value:
        return f"torch knows {', '.join(levels)}, and ends at {value}", f"write {name}: DETAIL"
    return None


def _meant(name: str) -> str | None:
    if not name.startswith(_FAMILIES):
        return None
    from clusterjobs.sections.environment.known_variables import meant_variable  # few specs need it

    return meant_variable(name)


def check_variables(context: Context, env: Mapping[str, str]) -> None:
    placement, contained = context.placement, context.spec.software.container is not None
    fabric = fabric_of(placement.fabric)
    for name, value in env.items():
        path = ("env", name)
        if len(f"{name}={value}".encode()) > MAX_WORD_BYTES:
            limit = f"{MAX_WORD_BYTES:,} bytes, the name among them"
            context.problem(
                path, f"longer than Linux allows for a variable ({limit})", "shorten it"
            )
        if contained and name in ("PATH", "LD_LIBRARY_PATH"):
            context.problem(
                path,
                f"{name} of the node would take the place of the image's",
                f"add to it inside: software.container.setup: ['export {name}=/opt/x:${name}']",
            )
        if name in _MUST_NOT:
            why, instead, is_error = _MUST_NOT[name]
            context.problem(path, f"{name} {why}", instead, warning=not is_error)
        elif found := _ON_FABRICS.get(name, {}).get(placement.fabric):
            context.problem(path, f"{name} {found[0]}", found[1], warning=True)
        elif name == "FI_EFA_USE_HUGE_PAGE" and as_text(value) != "0":
            context.problem(path, "with huge pages, fork() runs out of memory", "remove it")
        elif fabric.network and _TCP_INSTEAD.get(name) == as_text(value).lower():
            what = f"{value}: {fabric.title} is not used"
            context.problem(path, what, "remove it", warning=True)
        elif found := _misleading(context, name, as_text(value)):
            context.problem(path, found[0], found[1], warning=True)
        elif name == "NCCL_SOCKET_IFNAME" and _INTERFACE.fullmatch(as_text(value)):
            context.problem(
                path,
                f"{value} is not the name on every instance type and image",
                f"remove it: {fabric.interfaces} is set",
                warning=True,
            )
        elif (
            name == "FI_EFA_USE_DEVICE_RDMA"
            and as_text(value) != "0"
            and not placement.node_type.neuron_cores
        ):
            _check_device_rdma(context, path)
        elif meant := _meant(name):
            what = f"{name} is no variable that is known, so it may have no effect"
            context.problem(path, what, f"did you mean {meant}?", warning=True)


def check_references(context: Context, env: Mapping[str, Value]) -> None:
    """Warn of `${NAME}` if the job unsets NAME and `env` has not set it before."""
    known: set[str] = set()
    for name, value in env.items():
        for other in variable_names(expanding(value)):
            if is_unset(other) and other not in known:
                without = re.sub(rf"\$\{{{other}(?::-[^{{}}]*)?\}}", "", show(value))
                kept = ":".join(filter(None, without.split(":")))
                hint = f"write {name}: {kept}" if kept else "write the value itself"
                if context.spec.software.modules:
                    hint += f"; to extend what modules set, setup: ['export {name}={show(value)}']"
                context.problem(
                    ("env", name),
                    f"{other} is not set here: the job unsets the {other} of the calling shell",
                    hint,
                    warning=True,
                )
        known.add(name)


def check_paths(context: Context) -> None:
    """Refuse `${NAME}` in a path if the job unsets NAME, so that it would end at once."""
    spec, prefixes = context.spec, context.framework.reads_variables
    for path, value in _paths(spec):
        for one in references(expanding(value)):
            given = one.name in spec.env or one.name in spec.parameters
            is_needed = isinstance(one, ShellVariable) and one.required and not given
            if is_needed and (is_unset(one.name) or one.name.startswith(prefixes)):
                context.problem(
                    path,
                    f"{one.name} never has a value: the job unsets it first",
                    "write the path itself, or use a variable of another name",
                )


def _paths(spec: Experiment) -> Iterator[tuple[Path, Value]]:
    logs = spec.logs
    yield from ((("logs", "path"), logs.path), (("logs", "copy"), logs.copy_ or ""))
    yield ("logs", "export"), logs.export or ""
    yield from ((("workdir",), spec.workdir or ""), (("script",), spec.script or ""))
    for key in ("venv", "conda"):
        yield ("software", key), getattr(spec.software, key) or ""
    for index, file in enumerate(spec.software.source):
        yield ("software", "source", index), file
    if checkpoints := spec.checkpoints:
        yield ("checkpoints", "path"), checkpoints.path
        yield from ((("checkpoints", "marker"), checkpoints.marker or ""),)
        yield from ((("checkpoints", "export"), checkpoints.export or ""),)
    if container := spec.software.container:
        yield ("software", "container", "image"), container.image
        for index, mount in enumerate(container.mounts):
            yield ("software", "container", "mounts", index), mount.source
    for key in ("before", "after"):
        steps = enumerate(getattr(spec, key))
        yield from (((key, index, "creates"), one.creates or "") for index, one in steps)
    for index, data in enumerate(spec.data):
        yield from (((("data", index, key), getattr(data, key))) for key in ("source", "target"))


def _check_device_rdma(context: Context, path: Path) -> None:
    what, hint = "needless since libfabric 1.18", "remove it (libfabric's fi_efa manual)"
    aborts = context.placement.node_type.gpudirect_rdma is False
    if aborts:
        what = f"{context.placement.node_type.name} has no RDMA: libfabric 1.18 and later aborts"
    context.problem(path, what, hint, warning=not aborts)


# ------------------------------------------------------------------ arguments

# Some programs expand such text themselves, so it is passed on as it is.

_SIGNS = re.compile("[$`~]")
_OPTION_AND_VALUE = re.compile(r"(--?[A-Za-z][\w.-]*)\s+(\S.*)", re.DOTALL)


def check_arguments(context: Context) -> None:
    """Warn about arguments that look like a shell's variables and commands, or like two words."""
    _check_words(context)
    _check_patterns(context)
    found = [one for one in _arguments(context.spec) if _SIGNS.search(show(one[1]))]
    if found:
        from clusterjobs.spec.shell_idioms import passed_on  # most specs have none
    for path, text in found:
        if idiom := passed_on(text):
            context.problem(
                path,
                f"{idiom.found} is passed on as it is: no shell reads this value",
                f"for what a shell would make of it, {idiom.instead}",
                warning=True,
            )


_PATTERN = re.compile(r"%\d*([AJNajnux])(?![0-9A-Za-z])")
_INSTEAD = {
    **dict.fromkeys("AJj", "{{ job.id }}"),
    "N": "${SLURMD_NODENAME}",
    "a": "{{ job.array_index }}",
    "n": "{{ job.node_rank }}",
    "u": "${USER}",
    "x": "{{ name }}",
}


def _check_patterns(context: Context) -> None:
    """Warn about `%j` in a path: sbatch and srun alone read it, in names of their own files."""
    for path, value in _paths(context.spec):
        if found := _PATTERN.search(show(value)):
            context.problem(
                path,
                f"{found[0]} is part of the path's name: Slurm's patterns are not expanded here",
                f"write {_INSTEAD[found[1]]}",
                warning=True,
            )


def _check_words(context: Context) -> None:
    """`[--lr 1e-4]` is one word to the program; a shell would have made two of it."""
    args = context.spec.args if isinstance(context.spec.args, tuple) else ()
    given: list[tuple[Path, Value]] = [(("args", i), item) for i, item in enumerate(args)]
    commands = (one for one in _commands(context.spec) if one[0][0] != "secrets")
    given += [(path, item) for path, command in commands for item in _without_code(command)]
    for path, item in given:
        if found := _OPTION_AND_VALUE.fullmatch(show(item)):
            context.problem(
                path,
                f"{show(item)} is one word, with a blank in it: the program finds no {found[1]}",
                f'write two items: {found[1]}, "{found[2]}"',
                warning=True,
            )


_SHELL = re.compile(r"(?:.*/)?(?:ba|da|k|z)?sh")
_CODE_FOLLOWS = re.compile(r"-[a-z]*c")


def _without_code(command: tuple[Value, ...]) -> Iterator[Value]:
    """The arguments that are no code of a shell, which expands the variables in it."""
    has_shell = code_follows = False
    for argument in command:
        if not code_follows:
            yield argument
        has_shell = has_shell or bool(_SHELL.fullmatch(show(argument)))
        code_follows = has_shell and bool(_CODE_FOLLOWS.fullmatch(show(argument)))


def _arguments(spec: Experiment) -> Iterator[tuple[Path, Value]]:
    named = spec.args.items() if isinstance(spec.args, dict) else enumerate(spec.args)
    for key, value in named:
        texts = value if isinstance(value, tuple) else (value,)
        yield from ((("args", key), text) for text in texts if isinstance(text, (str, Text)))
    for path, command in _commands(spec):
        yield from ((path, argument) for argument in _without_code(command))
    expanded = [(("env", name), text_of(value)) for name, value in spec.env.items()]
    for path, value in (*expanded, *_paths(spec)):  # what is not expanded there has been refused
        if found := _BACKTICKS.search(show(value)):
            yield path, found[0]
    for key in ("sbatch", "srun"):
        for name, option in getattr(spec, key).items():
            if isinstance(option, str):
                yield (key, name), option


_BACKTICKS = re.compile(r"`[^`\n]+`")


def _commands(spec: Experiment) -> Iterator[tuple[Path, tuple[Value, ...]]]:
    yield from ((("command",), spec.command or ()), (("prefix",), spec.prefix))
    for key in ("before", "after", "sidecars"):
        steps = getattr(spec, key)
        yield from (((key, index, "command"), one.command) for index, one in enumerate(steps))
    for name, role in spec.roles.items():
        yield ("roles", name, "command"), role.command
    for name, value in spec.values.items():
        yield ("values", name, "command"), value.command or ()
    for name, secret in spec.secrets.items():
        yield ("secrets", name, "command"), secret.command or ()


def check_unread_pins(context: Context) -> None:
    """Warn of versions that only the preflight would compare, if there is none."""
    if context.spec.software.requires and context.spec.preflight is None:
        context.problem(
            ("software", "requires"),
            "the preflight looks for these packages, and it is off",
            "preflight: true, or preflight: [software]",
            warning=True,
        )
