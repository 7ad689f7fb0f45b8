"""Values that are legal but probably a mistake: mostly warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from clusterjobs.counted import counted
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.fabrics import fabric_of
from clusterjobs.sections.placement.checks import check_node_type
from clusterjobs.sections.storage import is_below
from clusterjobs.slurm.time import in_words, seconds_of, slurm_time
from clusterjobs.spec.experiment import Checkpoints, Experiment
from clusterjobs.spec.references import is_absolute, show, variable_names
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ launcher commands
#
# Which commands are launchers themselves: accelerate launch, torchrun and others.


_STARTERS = re.compile(
    r"(?:^|[\s/;&|(])(?:accelerate\s+launch|torchrun|deepspeed|composer|colossalai\s+run"
    r"|-m\s*(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch))(?:\s|$)"
)


def starts_ranks_itself(command: tuple[str, ...] | None) -> bool:
    """Whether a command is a launcher, which starts a process for each GPU of its node."""
    return command is not None and _STARTERS.search(" ".join(command)) is not None


def check_intentions(context: Context) -> None:
    """Warn about idle GPUs, a slow network, folders on one node, and values that are not used."""
    spec, framework, placement = context.numbers, context.framework, context.placement
    gpus_key = "ranks_per_node" if spec.gpus_per_node is None else "gpus_per_node"
    cpus_key = "cpus_per_task" if spec.cpus_per_task else "ranks_per_node"
    _check_time_limit(context, spec.time_limit)
    _check_precision(context, spec.precision)
    has_launcher = starts_ranks_itself(spec.command) and placement.shape.ranks_per_node == 1
    if spec.gpus_per_node != 0 and not has_launcher:  # 0: on CPUs, knowingly
        _check_idle_gpus(context, gpus_key)
    _check_idle_accelerators(context, spec.ranks_per_node)
    _check_shared_cpus(context, cpus_key)
    _check_network(context)
    check_node_type(context)
    _check_shared_folders(context, _folders(spec))
    _check_checkpoints_of_an_attempt(context, spec.checkpoints)
    container = spec.software.container
    workdir = spec.workdir or (container.workdir if container else None)
    _check_relative_checkpoints(context, spec.checkpoints, workdir)
    if not framework.reads_precision and _is_not_passed_on(
        spec.precision, spec.args, spec.command or ()
    ):
        context.problem(
            ("precision",),
            f"{framework.name} does not pass it on to your program",
            'pass it on: args: {precision: "{{ precision }}"}, as your program names it',
            warning=True,
        )


def _is_not_passed_on(precision: str | None, args: object, command: tuple[str, ...]) -> bool:
    """Whether `precision` is set, and neither `args` nor `command` mentions it."""
    words = (*args, *args.values()) if isinstance(args, Mapping) else args
    assert isinstance(words, tuple)
    return precision is not None and not any(precision in str(word) for word in (*words, *command))


def _check_precision(context: Context, precision: str | None) -> None:
    node_type = context.placement.node_type
    if precision == "bf16" and node_type.gpu_model == "V100":
        context.problem(
            ("precision",), f"the V100 of {node_type.in_words} has no bf16", "precision: fp16"
        )


_CLOCK = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _check_time_limit(context: Context, time_limit: str | None) -> None:
    """Warn of minutes and seconds, which many people read as hours and minutes."""
    if time_limit is None or not _CLOCK.fullmatch(time_limit):
        return
    seconds = seconds_of(time_limit) or 0
    context.problem(
        ("time_limit",),
        f"Slurm reads {time_limit} as minutes and seconds: {in_words(seconds)}",
        f"for hours write {time_limit}:00, for minutes {slurm_time(seconds)}",
        warning=True,
    )


def _check_checkpoints_of_an_attempt(context: Context, checkpoints: Checkpoints | None) -> None:
    if checkpoints and "attempt" in variable_names(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            "each attempt has a folder of its own, so that none goes on from the one before",
            "leave out {{ job.attempt }}",
            warning=True,
        )


def _check_relative_checkpoints(
    context: Context, checkpoints: Checkpoints | None, workdir: str | None
) -> None:
    if checkpoints and workdir and not is_absolute(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is one folder for the job, which counts from where sbatch "
            "is called, and another for the training, which runs in workdir",
            f"the whole path: /fsx/{show(checkpoints.path)}",
        )


def _check_shared_cpus(context: Context, key: str) -> None:
    placement = context.placement
    ranks, cpus = placement.shape.ranks_per_node, placement.cpus
    if placement.shares_cpus and cpus is not None:
        context.problem(
            (key,),
            f"{ranks} ranks share {counted(cpus, 'CPU')}, all that the job has of a node",
            "a CPU for each rank at least, and some more for loaders of data",
            warning=True,
        )


def _check_idle_gpus(context: Context, key: str) -> None:
    placement = context.placement
    has, shape = placement.node_type.gpus, placement.shape
    used = min(shape.ranks_per_node, shape.gpus_per_node) * placement.per_node
    if context.framework.one_rank_uses_all_gpus and shape.ranks_per_node == 1:
        used = shape.gpus_per_node * placement.per_node
    if has and placement.exclusive and used < has:
        context.problem(
            (key,),
            f"idle GPUs on every node, which you pay for: {has - used} of {has}",
            f"{key}: {has} uses them all; a rank may use several by itself",
            warning=True,
        )


def _check_idle_accelerators(context: Context, ranks: int | None) -> None:
    """Of devices that Slurm does not count, so that one rank a node is derived."""
    node_type, gpus = context.placement.node_type, context.placement.shape.gpus_per_node
    has_ranks = node_type.accelerator_ranks > 1 and not node_type.neuron_cores
    if ranks is None and not gpus and has_ranks:
        context.problem(
            ("ranks_per_node",),
            f"one rank per node, where a {node_type.name} has {node_type.accelerator}",
            f"add `ranks_per_node: {node_type.accelerator_ranks}`, which uses them all; or 1, if "
            "your program starts its own",
            warning=True,
        )


def _check_network(context: Context) -> None:
    """Warn about GPU nodes that do not use their fast network."""
    placement = context.placement
    node_type, nodes = placement.node_type, placement.all_nodes
    fabric = node_type.fabric
    if nodes > 1 and node_type.gpus and fabric and placement.fabric != fabric:
        context.problem(
            ("nodes",),
            f"queue {placement.partition} has no {fabric_of(fabric).title or fabric}: {nodes} "
            f"{node_type.name} would use TCP",
            context.facts.terms.enable_fabric,
            warning=True,
        )


def _check_shared_folders(context: Context, folders: Iterator[tuple[Path, str]]) -> None:
    """Warn about logs and checkpoints on a node's local disk: they are lost with the node."""
    facts = context.facts
    mounts = [mount.path for mount in facts.mounts]
    shared = (*facts.shared_folders, *mounts)
    for path, folder in folders if facts.mounts_complete else ():
        if folder.startswith("/") and not any(is_below(folder, one) for one in shared):
            known = ", ".join(mounts) or "none but /home"
            context.problem(
                path,
                f"{folder} is not on shared storage of {facts.name}",
                f"its shared folders: {known}",
                warning=True,
            )


def _folders(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    if experiment.workdir:
        yield ("workdir",), experiment.workdir
    yield ("logs", "path"), experiment.logs.path
    if experiment.checkpoints:
        yield ("checkpoints", "path"), experiment.checkpoints.path


# What a shell would expand: ${HOME}, $HOME, a leading ~/. A price such as $5 does not count.
_SHELLS = re.compile(r"\$\{[A-Za-z_]\w*\}|\$[A-Z_][A-Z0-9_]+\b|^~/")
_WITHOUT_BRACES = re.compile(r"(?<![\\$])\$[A-Z_][A-Z0-9_]+\b")


def check_literal_words(context: Context) -> None:
    """Warn about text that looks like a variable, but is not expanded."""
    for path, text in _literal_words(context.spec):
        if found := _SHELLS.search(text):
            context.problem(
                path,
                f"{found[0]} is not expanded here: only paths and env are expanded on the node",
                "use a parameter, or set a variable under env: that the program reads",
                warning=True,
            )
    for path, text in _expanded_words(context.spec):
        if found := _WITHOUT_BRACES.search(text):
            name = found[0][1:]
            context.problem(
                path,
                f"{found[0]} is not expanded: the node expands only ${{{name}}}",
                f"write ${{{name}}}",
                warning=True,
            )


_SHELL = re.compile(r"(?:.*/)?(?:ba|da|k|z)?sh")
_CODE_FOLLOWS = re.compile(r"-[a-z]*c")


def _is_code(before: tuple[str, ...]) -> bool:
    """Whether the word after these is code of a shell, which expands the variables in it."""
    has_shell = any(_SHELL.fullmatch(word) for word in before)
    return has_shell and _CODE_FOLLOWS.fullmatch(before[-1]) is not None


def _literal_words(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    arguments = experiment.args
    named = arguments.items() if isinstance(arguments, dict) else enumerate(arguments)
    for key, value in named:
        texts = value if isinstance(value, tuple) else (value,)
        yield from ((("args", key), text) for text in texts if isinstance(text, str))
    yield from _of_command(("command",), experiment.command or ())
    for name, role in experiment.roles.items():
        yield from _of_command(("roles", name, "command"), role.command)


def _of_command(path: Path, command: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    for number, word in enumerate(command):
        if not _is_code(command[:number]):
            yield path, word


def _expanded_words(experiment: Experiment) -> Iterator[tuple[Path, str]]:
    yield ("logs", "path"), experiment.logs.path
    yield ("logs", "copy"), experiment.logs.copy_ or ""
    for key in ("workdir", "script"):
        yield (key,), getattr(experiment, key) or ""
    for index, file in enumerate(experiment.software.source):
        yield ("software", "source", index), file
    for key in ("venv", "conda"):
        yield ("software", key), getattr(experiment.software, key) or ""
    if experiment.checkpoints:
        yield ("checkpoints", "path"), experiment.checkpoints.path
    for name, value in experiment.env.items():
        yield ("env", name), value
