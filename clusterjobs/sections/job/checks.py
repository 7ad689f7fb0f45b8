"""Options that a spec must not set under `sbatch` and `srun`: those of other keys, unknown ones.

sbatch refuses an unknown option at submission, srun only when the nodes are running.
"""

import re
from collections.abc import Mapping

from clusterjobs.errors import nearest
from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.gpu_requests import GPU_OPTIONS
from clusterjobs.slurm.options import (
    OLDEST,
    KnownOptions,
    Program,
    in_words,
    is_untried,
    known_options,
    seconds_of,
    slurm_time,
)
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import owners_of_options
from clusterjobs.spec.model import known_keys

# ------------------------------------------------------------------ dropped directives
# Derived directives that a spec drops: `sbatch: {partition: false}`.


DROPPABLE = ("partition", "gpus-per-node", "cpus-per-task")

# Why the script needs the others, and what to do instead.
_REMOVE = "remove it here"
NEEDED = {
    "job-name": ("clusterjobs finds the job in the queue by its name", _REMOVE),
    "nodes": ("the script is planned for this number of nodes", _REMOVE),
    "ntasks-per-node": ("srun starts this number of tasks", _REMOVE),
    "gres": (
        "clusterjobs requests GPUs by --gpus-per-node",
        "sbatch: {gpus-per-node: false}",
    ),
}


def check_dropped(context: Context) -> None:
    """Refuse what the job cannot do without, and warn of what Slurm may choose differently."""
    placement = context.placement
    dropped = {name for name, value in context.spec.sbatch.items() if value is False}
    if "partition" in dropped:
        _check_partition(context)
    if "gpus-per-node" in dropped and placement.shape.gpus_per_node:
        _check_gpus(context)
    if "cpus-per-task" in dropped and not placement.exclusive:
        context.problem(
            ("sbatch", "cpus-per-task"),
            "on a shared node, each task would get one CPU",
            "remove it, or use whole nodes",
        )
    if "constraint" in dropped and placement.constraint:
        context.problem(
            ("sbatch", "constraint"),
            f"queue {placement.partition} has nodes of several types, and the job is planned for "
            f"{placement.node_type.name}",
            _REMOVE,
        )


def _check_partition(context: Context) -> None:
    planned, default = context.placement.partition, context.facts.default_partition
    if planned == default:
        return
    which = f", {default}" if default else ""
    context.problem(
        ("sbatch", "partition"),
        f"Slurm will choose its default partition{which}; the job is planned for {planned}",
        f"remove it, or submit with --partition={planned}",
        warning=True,
    )


def _check_gpus(context: Context) -> None:
    path = ("sbatch", "gpus-per-node")
    if context.placement.per_node > 1:
        what = "Slurm needs it to divide the GPUs of a node among its points"
        context.problem(path, what, "remove it, or sweep.per_node")
    elif not context.placement.exclusive:
        context.problem(
            path,
            "Slurm will give this job no GPUs of the nodes that it shares",
            "remove it, or use whole nodes",
            warning=True,
        )


# Options that nothing in a job can use -> what to use instead.
_OF_COMMANDS = {
    "parsable": "clusterjobs submit",
    "test-only": "clusterjobs validate",
    "help": "the man page",
    "usage": "the man page",
    "version": "the man page",
}
_OWNED_BY_RESTARTS = {"signal": "restarts", "requeue": "restarts", "no-requeue": "restarts"}
_OWNED_BY_ROLES = dict.fromkeys(("exclude", "nodelist", "relative", "job-name"), "roles")
_OWNED_BY_PYXIS = dict.fromkeys(
    (
        *("container-image", "container-mounts", "container-workdir", "container-env"),
        *("container-mount-home", "no-container-mount-home"),
        *("container-writable", "container-readonly"),
    ),
    "software.container",
)

_Values = Mapping[str, str | bool]


def _owned() -> dict[str, str]:
    """Options that are derived from a key of the spec: they must not be given twice."""
    owners = owners_of_options().items()
    keys = {option: one.key for option, one in owners if not one.also_option}
    return {**keys, **_OF_COMMANDS}


def check_sbatch(context: Context) -> None:
    own = context.spec.sbatch
    owned = {**_owned(), **(_OWNED_BY_RESTARTS if context.spec.restarts else {})}
    for name, value in own.items():
        if name in (GPU_OPTIONS if isinstance(value, str) else DROPPABLE):
            owned.pop(name, None)
    _check(context, "sbatch", own, owned)


def check_srun(context: Context, by_pyxis: bool) -> None:
    """The spec's `srun`; `by_pyxis`: it starts the containers, too."""
    own, has_roles = context.spec.srun, context.placement.role_nodes > 0
    owned = {
        **_owned(),
        "multi-prog": "command",
        **(_OWNED_BY_PYXIS if by_pyxis else {}),
        **(_OWNED_BY_ROLES if has_roles else {}),
    }
    _check(context, "srun", own, owned)
    mpi = own.get("mpi")
    if isinstance(mpi, str) and not _MPI_TYPE.fullmatch(mpi):
        context.problem(
            ("srun", "mpi"),
            f"Slurm has no MPI type {mpi}",
            "write pmix for Open MPI, pmi2 for MPICH and Intel MPI, or none",
        )


# Source: srun(1), --mpi, and Slurm's guide to MPI; `openmpi` was removed, `list` starts nothing.
_MPI_TYPE = re.compile(r"pmix(_v\d+)?|pmi2|cray_shasta|none")


def check_age(context: Context) -> None:
    """Warn of a Slurm that is older than every one that jobs were tried with, or unknown yet."""
    facts = context.facts
    if facts.newer_release:
        context.problem(
            ("cluster",),
            f"the Slurm of {facts.name} is unknown: {facts.newer_release} is too new for "
            "clusterjobs",
            "upgrade clusterjobs; until then, options of Slurm are not compared with its version",
            warning=True,
        )
    if facts.slurm_version and is_untried(facts.slurm_version):
        context.problem(
            ("cluster",),
            f"the Slurm of {facts.name}, {facts.slurm_version}, is older than {OLDEST}, the oldest "
            "that jobs were tried with",
            f"try a short job first. {facts.terms.other_version}",
            warning=True,
        )


def check_versions(context: Context) -> None:
    """Options and values that the cluster's Slurm has not yet, or has no longer."""
    version, further = context.facts.slurm_version, context.facts.terms.other_version
    if version is None:
        return
    for program, own in (("sbatch", context.spec.sbatch), ("srun", context.spec.srun)):
        options = known_options(program) if own else None
        for name, value in own.items():
            if not options or name not in options.takes_value:
                continue
            what, has = f"has no option --{name}", options.only_in.get(name, ())
            if isinstance(value, str) and not has:
                from clusterjobs.slurm.values import versions_of_value  # as in _check_value

                what, has = f"does not take {value} as --{name}", versions_of_value(name, value)
            if has and options.lacks(version, has):
                context.problem(
                    (program, name),
                    f"{program} of the cluster's Slurm, {version}, {what}",
                    f"remove it: Slurm {' and '.join(has)} has it. {further}",
                    warning=True,
                )


def _check(context: Context, program: Program, own: _Values, owned: Mapping[str, str]) -> None:
    if not own:
        return
    options = known_options(program)
    for name, value in own.items():
        if full := _owned_name(name, options, owned):
            is_dropped = program == "sbatch" and value is False
            what, hint = _why_owned(full, owned[full], is_dropped)
            context.problem((program, name), what, hint)
        elif name in options.takes_value:
            _check_value(context, program, name, value, options)
        elif (program, name) not in _OF_PLUGINS:
            _refuse_unknown(context, program, name, options)


def _why_owned(option: str, key: str, is_dropped: bool) -> tuple[str, str]:
    """Why an option cannot be given, or dropped with `false`; and a hint. `key` derives it."""
    known = known_keys(Experiment).get(key)
    if is_dropped and option in NEEDED:
        why, hint = NEEDED[option]
        return f"--{option} cannot be dropped: {why}", hint
    if is_dropped and known and known.directive == option:
        what = f"--{option} cannot be dropped: it is written only if the spec has {key}"
        return what, f"remove {key}"
    has_full_name = is_dropped and option in DROPPABLE
    hint = f"write its full name: {option}: false" if has_full_name else "remove it here"
    return f"--{option} follows from {key}", hint


_OF_PLUGINS = (("srun", "auto-resume"),)  # SageMaker HyperPod: sections/restarts.py


def _owned_name(name: str, options: KnownOptions, owned: Mapping[str, str]) -> str | None:
    """The option of another key that `name` means; Slurm accepts abbreviated options."""
    if name in options.takes_value:
        return name if name in owned else None
    if (full := options.short.get(name)) is not None:
        return full if full in owned else None
    return next((full for full in owned if full.startswith(name)), None)


def _check_value(
    context: Context, program: Program, name: str, value: str | bool, options: KnownOptions
) -> None:
    kind = options.takes_value[name]
    if kind == "required" and value is True:
        what, hint = f"--{name} needs a value", f"write {name}: VALUE, or remove it"
        context.problem((program, name), what, hint)
    elif kind == "none" and not isinstance(value, bool):
        what, hint = f"--{name} takes no value", f"write {name}: true, or remove it"
        context.problem((program, name), what, hint)
    elif isinstance(value, str) and "$" not in value:
        from clusterjobs.slurm.values import wrong_option_value  # most specs have no such value

        if wrong := wrong_option_value(name, value, program):
            is_there = program == "sbatch" and value == context.spec.srun.get(name)
            hint = "remove it here: srun has it" if is_there else wrong.hint
            context.problem((program, name), wrong.what, hint, warning=not wrong.is_sure)
        elif name == "time-min" and (seconds_of(value) or 0) > (
            seconds_of(context.spec.time_limit or "") or float("inf")
        ):
            what = f"{value} is longer than the time limit, {context.spec.time_limit}"
            context.problem((program, name), what, "write a shorter time, or raise time_limit")


# A more similar name is misspelt; a less similar one may be an option of a plugin.
_MISSPELT = 0.8


def _refuse_unknown(context: Context, program: Program, name: str, options: KnownOptions) -> None:
    """An error if a known option is meant; else a warning, because SPANK plugins add options."""
    path, known = (program, name), options.takes_value
    if full := options.short.get(name):
        context.problem(path, f"-{name} is the short form of --{full}", f"write {full}")
    elif longer := [one for one in known if one.startswith(name)]:
        what, hint = f"--{name} is only the beginning of an option", " or ".join(longer[:4])
        context.problem(path, what, f"write {hint}")
    elif match := nearest(name, known, _MISSPELT):
        context.problem(path, f"{program} has no option --{name}", f"did you mean {match}?")
    else:
        versions = f"Slurm {options.oldest} to {options.newest}"
        context.problem(
            path,
            f"{program} of {versions} has no option --{name}",
            f"correct it, unless a SPANK plugin of the cluster adds it: see {program} --help there",
            warning=True,
        )


# A value of --signal that the job's own script gets, not the ranks; its group: the signal.
TO_THE_SCRIPT = re.compile(r"R?BR?:(?:SIG)?(\w+)(?:@\d+)?", re.IGNORECASE | re.ASCII)
# Those that end a script, but TERM, after which the ranks may save.
_NUMBERS = {"HUP": 1, "INT": 2, "QUIT": 3, "ABRT": 6, "USR1": 10, "USR2": 12, "ALRM": 14}


def check_signal(context: Context) -> None:
    """Warn of a signal to the job's own script that only ends it."""
    value, own = context.spec.sbatch.get("signal"), context.environment
    found = TO_THE_SCRIPT.fullmatch(str(value))
    names = {str(number): name for name, number in _NUMBERS.items()}
    name = names.get(found[1], found[1].upper()) if found else ""
    if name not in _NUMBERS or context.spec.restarts:
        return
    handled = re.compile(rf"\btrap\b.*\b(?:(?:SIG)?{name}|{_NUMBERS[name]})\b", re.DOTALL)
    if not any(map(handled.search, (*own.site_setup, *own.software_setup, *own.setup))):
        context.problem(
            ("sbatch", "signal"),
            f"{value} ends the job with exit code {128 + _NUMBERS[name]}: the signal is for the "
            "job's own script, where nothing handles it",
            "restarts: {time_limit: N} starts again at the time limit; without B:, the ranks get "
            f"the signal; setup may have a trap of {name}",
            warning=True,
        )


_CLOCK = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def check_clock(context: Context) -> None:
    """Warn of minutes and seconds, which many people read as hours and minutes."""
    time_limit = context.spec.time_limit
    if time_limit is None or not _CLOCK.fullmatch(time_limit):
        return
    seconds = seconds_of(time_limit) or 0
    context.problem(
        ("time_limit",),
        f"Slurm reads {time_limit} as minutes and seconds: {in_words(seconds)}",
        f"for hours write {time_limit}:00, for minutes {slurm_time(seconds)}",
        warning=True,
    )
