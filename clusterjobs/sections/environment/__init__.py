"""The environment of the ranks: each variable has its reason and source."""

import functools
import itertools
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from clusterjobs.frameworks.base import JOB_DIR, TOKEN, Variable, folder_on_the_node
from clusterjobs.script import shell
from clusterjobs.script.lines import WIDTH, command_text, program_text, with_reason
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.checks import (
    check_references,
    check_software,
    check_variables,
    inherited_variables,
    is_unset,
    own_slurm_variables,
)
from clusterjobs.sections.environment.forced import (
    check_forced,
    forced_for_ranks,
    is_of_the_node,
    plan_node_rank,
)
from clusterjobs.sections.fabrics import (
    fabric_of,
    fabric_variables,
    neuron_efa_variables,
    ucx_devices,
)
from clusterjobs.sections.plan import (
    CONTAINER_SETUP,
    Environment,
    ModuleCall,
    Placement,
    Secret,
)
from clusterjobs.spec.keys.environment import (
    LIMITS,
    Forced,
    SiteValue,
    command_and_names,
    text_of,
)
from clusterjobs.spec.reserved_names import COMPUTED
from clusterjobs.text import expanding, joined, references, show, variable, variable_names

# ------------------------------------------------------------------ secrets
# Secrets: values that the job reads on the node. No rendered file contains them.


def check_secrets(context: Context) -> None:
    """Each secret has one source, and no plain variable or parameter has its name."""
    spec = context.spec
    for name, secret in spec.secrets.items():
        if secret.file is not None and secret.command is not None:
            context.problem(
                ("secrets", name),
                "file and command: a secret comes from one of them",
                "remove one",
            )
        if secret.file is None and secret.command is None and is_unset(name):
            context.problem(
                ("secrets", name),
                f"{name} never arrives: the job unsets it first",
                "choose another name, or read the secret from a file",
            )
        for key, others in (("env", spec.env), ("parameters", spec.parameters)):
            if name in others:
                context.problem((key, name), f"{name} is under secrets: too", "remove it here")


def plan(context: Context) -> Environment:
    spec, directives = context.spec, context.job.directives
    software = spec.software
    check_forced(context)
    further = _variables_of_sections(context)
    check_software(context, software)
    own = {
        name: text_of(value) for name, value in spec.env.items() if not isinstance(value, SiteValue)
    }
    check_variables(context, {name: show(value) for name, value in own.items()})
    check_references(context, own)
    _check_values(context)
    variables = tuple(_variables(context, further))
    return Environment(
        own_slurm_variables(directives),
        inherited_variables(directives, context.framework.reads_variables),
        variables,
        tuple(
            Secret(name, one.file and folder_on_the_node(one.file), one.command or ())
            for name, one in spec.secrets.items()
        ),
        tuple(map(folder_on_the_node, software.source)),
        tuple(_module_calls(software.modules)),
        software.conda and expanding(software.conda),
        folder_on_the_node(software.venv) if software.venv and not software.container else None,
        software.setup,
        spec.setup,
        _profile(context.placement),
        context.placement.node_type.setup,
        tuple(_again(context, variables)),
        spec.ulimit,
        tuple((name, one.command) for name, one in spec.values.items() if one.command),
    )


def _check_values(context: Context) -> None:
    """Commands of `values` run in their order: each can use the values above it."""
    commands = [(COMPUTED + name, one.command) for name, one in context.spec.values.items()]
    for position, (name, words) in enumerate(commands):
        later = {other for other, _ in commands[position:]}
        if any(later.intersection(variable_names(word)) for word in words or ()):
            context.problem(
                ("values", name.removeprefix(COMPUTED), "command"),
                "the commands run in the order of the spec, and the value is not known yet",
                "write it above this one",
            )


# Modules and environments of Python put their own folders in front of these.
_SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH")


def _again(context: Context, variables: Iterable[Variable]) -> Iterator[Variable]:
    """The spec's own variables, if anything after them may change them: `env` wins.

    Not those that extend their own value, which would be extended twice.
    """
    spec, software = context.spec, context.spec.software
    computed = _computed(variables)
    yield from computed
    changes = (software.modules, software.setup, spec.setup, context.placement.node_type.setup)
    if not (any(changes) or software.conda):
        return
    own = [one for one in variables if one.name in spec.env and one.source != _OF_THE_CLUSTER]
    for one in own:
        if one.name in variable_names(one.value) or one in computed:
            continue
        if one.name not in _SEARCH_PATHS:
            yield one
        elif software.modules or software.setup or spec.setup:
            context.problem(
                ("env", one.name),
                f"modules and setup: may change {one.name} after env has set it",
                f"write {one.name}: {show(one.value)}:${{{one.name}}} to extend it, or set it in "
                "setup:",
                warning=True,
            )


def _computed(variables: Iterable[Variable]) -> list[Variable]:
    """The variables that contain a value which a command prints, or such a variable before them."""
    found: dict[str, Variable] = {}
    for one in variables:
        if any(name.startswith(COMPUTED) or name in found for name in variable_names(one.value)):
            found[one.name] = one
    return [*found.values()]


def _variables_of_sections(context: Context) -> tuple[Variable, ...]:
    """The variables that other sections need; they replace defaults."""
    spec, options = context.spec, context.launcher_options
    sections = (context.restarts, context.preflight, context.program, context.points)
    return (
        *(one for section in sections if section for one in section.environment),
        Variable("CLUSTERJOBS_RESULT", joined(JOB_DIR, "/result.json"), "the file for results"),
        *plan_node_rank(context),
        *_setup_inside(context),
        *(Variable(*one) for one in (options.variables() if options else ())),
        *(
            Variable(name, variable(name), "the parameter")
            for name, one in spec.parameters.items()
            if one.env and name not in spec.env
        ),
    )


def _setup_inside(context: Context) -> Iterator[Variable]:
    container = context.spec.software.container
    if container and container.setup:
        file, reason = joined(JOB_DIR, "/", CONTAINER_SETUP), "software.container.setup"
        yield Variable("CLUSTERJOBS_CONTAINER_SETUP", file, reason)


def _module_calls(items: Iterable[str]) -> Iterator[ModuleCall]:
    """Modules that are loaded one after the other are loaded by one call."""
    calls = map(command_and_names, items)
    for command, group in itertools.groupby(calls, key=lambda one: one[0]):
        if command == "load":
            yield ModuleCall(command, tuple(name for _, names in group for name in names))
        else:
            yield from (ModuleCall(command, names) for _, names in group)


def _variables(context: Context, further: tuple[Variable, ...]) -> Iterator[Variable]:
    """Derived variables, then the spec's own, which override them, then those that are appended."""
    placement, own, software = context.placement, context.spec.env, context.spec.software
    replaced = {one.name for one in further}
    torch = (software.requires.get("torch", ""),) if context.framework.uses_torch else ()
    all_derived = (*_derived(placement, *torch), *_ucx(context))
    derived = [one for one in _last_of_each(all_derived) if one.name not in replaced]
    derived += further
    if container := software.container:
        # What is on the node's LD_LIBRARY_PATH is not in the image.
        derived = [one for one in derived if one.name != "LD_LIBRARY_PATH"]
        has_nvidia = placement.shape.gpus_per_node and not placement.node_type.has_amd_gpus
        if container.runtime == "pyxis" and has_nvidia:
            derived += _NVIDIA
    yield from (one for one in derived if not one.append and one.name not in own)
    of_ranks = forced_for_ranks(own)
    for name, value in own.items():
        if is_of_the_node(value) or name in of_ranks:  # set by the command of the ranks
            continue
        if isinstance(value, SiteValue):
            own_value = expanding(value.value, may_be_unset=True)
            yield Variable(name, own_value, value.reason, _OF_THE_CLUSTER, expand=True)
            continue
        if isinstance(value, Forced):
            yield Variable(name, expanding(value.value), f"forced: {value.reason}")
            continue
        reason = f"env: {context.diagnostics.line_of(('env', name))}"
        yield Variable(name, expanding(value, may_be_unset=True), reason, expand=True)
    yield from (one for one in derived if one.append)


def _last_of_each(variables: Iterable[Variable]) -> list[Variable]:
    """A fabric's own value replaces the common one: NCCL_SOCKET_IFNAME."""
    return list({one.name: one for one in variables}.values())


def _derived(placement: Placement, torch: str | None = None) -> Iterator[Variable]:
    """`torch`: the version that the spec requires, or its beginning; None: no torch."""
    threads, whose = placement.cpus_per_rank or 1, "CPUs of one rank"
    if placement.shares_cpus:
        whose = "more ranks than CPUs"
    yield Variable("OMP_NUM_THREADS", str(threads), f"{whose}; by default every rank uses all")
    yield Variable("PYTHONUNBUFFERED", "1", "log lines appear when they are written")
    if placement.shape.gpus_per_node:
        yield from _nccl()
        if torch is not None:
            yield from _flight_recorder(torch)
    yield from _of_the_fabric(placement)


def _ucx(context: Context) -> Iterator[Variable]:
    """The same InfiniBand ports for MPI as for NCCL. Without NCCL_IB_HCA, both find them."""
    devices = ucx_devices(show(text_of(context.spec.env.get("NCCL_IB_HCA", ""))))
    uses_mpi = context.launcher.uses_mpi or "mpi" in context.spec.srun
    if uses_mpi and devices and context.placement.fabric == "infiniband":
        reason = "MPI uses the ports of NCCL_IB_HCA"
        yield Variable("UCX_NET_DEVICES", devices, reason, "Open MPI: InfiniBand and RoCE")


def _profile(placement: Placement) -> str:
    """Of NCCL's plugin between nodes."""
    uses_it = placement.shape.gpus_per_node > 0 and placement.all_nodes > 1
    return fabric_of(placement.fabric).profile if uses_it else ""


def _of_the_fabric(placement: Placement) -> Iterator[Variable]:
    fabric, node_type, shape = placement.fabric, placement.node_type, placement.shape
    if fabric == "efa" and node_type.neuron_cores:
        return neuron_efa_variables()
    has_gpus = shape.gpus_per_node > 0
    return fabric_variables(fabric, placement.all_nodes, has_gpus, node_type.fabric_interfaces)


_OF_THE_CLUSTER = "the cluster's description"
_ENROOT = "enroot: its hook for NVIDIA GPUs"
_NVIDIA = (
    Variable("NVIDIA_VISIBLE_DEVICES", "all", "else enroot shows no GPU to an image", _ENROOT),
    Variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility", "driver libraries of CUDA", _ENROOT),
)
_NCCL = "NCCL user guide: environment variables"
_TORCH = "PyTorch: ProcessGroupNCCL environment variables"
_AWS_SAMPLES = "AWS: awsome-distributed-training samples"


def _nccl() -> Iterator[Variable]:
    yield Variable("NCCL_DEBUG", "WARN", "log why a collective failed", _NCCL)
    reason = "for NCCL's first contact; eth0 has other names"
    yield Variable("NCCL_SOCKET_IFNAME", "^lo,docker,veth", reason, _AWS_SAMPLES)


def _flight_recorder(torch: str) -> Iterator[Variable]:
    """torch 2.8 has the first of the new names (pytorch 152563) and warns of the older ones.

    Without a version, the new names.
    """
    yield Variable("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "record which rank waits in a hang", _TORCH)
    numbers = [int(one) for one in torch.split(".")[:2] if one.isdecimal()]
    knows_new, knows_old = (
        (numbers >= [2, 8], numbers < [2, 9]) if len(numbers) == 2 else (True, False)
    )
    record = joined(
        JOB_DIR, "/nccl-trace-rank-"
    )  # the default is in /tmp, which is lost with the node
    size, place = "collectives in that record", "where the record is written"
    if knows_new:
        yield Variable("TORCH_FR_BUFFER_SIZE", "20000", size, _TORCH)
    if knows_old:
        yield Variable("TORCH_NCCL_TRACE_BUFFER_SIZE", "20000", f"{size} (older name)", _TORCH)
    if knows_new:
        yield Variable("TORCH_FR_DUMP_TEMP_FILE", record, place, _TORCH)
    if knows_old:
        yield Variable("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", record, f"{place} (older name)", _TORCH)


# ------------------------------------------------------------------ text
# Variables, secrets, modules and the spec's code.


def render(rendering: Rendering) -> dict[str, Any]:
    environment = rendering.plan.environment
    computed = _computed(environment.variables) if environment.computed else []
    return {
        "kept_slurm": _alternatives(environment.kept_slurm),
        "unset": _alternatives(environment.unset),
        "variables": [
            line
            for one in environment.variables
            if one not in computed  # they are set again, after their commands
            for line in _export(one)
        ],
        "computed": [
            {"name": ShellText(name), "command": program_text(command)}
            for name, command in environment.computed
        ],
        "again": [line for one in environment.again for line in _export(one)],
        "limits": [_limit(*one) for one in environment.ulimit.items()],
        "has_token": any(TOKEN.parts[0] in references(one.value) for one in environment.variables),
        "secrets": [_secret(one) for one in environment.secrets],
        "has_modules": bool(environment.modules),
        "modules": [_module_call(one) for one in environment.modules],
        "calls_module": any(
            shell.calls_module("\n".join(lines))
            for lines in (environment.site_setup, environment.software_setup, environment.setup)
        ),
        "has_profile": bool(environment.profile),
        "profile": shell.quote(environment.profile),
        "has_source": bool(environment.source),
        "source": command_text(environment.source),
        "has_conda": environment.conda is not None,
        "conda": shell.quote(environment.conda or ""),
        "has_venv": environment.venv is not None,
        "venv": shell.quote(environment.venv or ""),
        "site_setup": _own_code("setup", environment.site_setup, "The cluster's"),
        "software_setup": _own_code("software.setup", environment.software_setup),
        "setup": _own_code("setup", environment.setup),
    }


@functools.lru_cache(maxsize=64)  # nearly all jobs have the same
def _alternatives(patterns: tuple[str, ...]) -> tuple[ShellText, ...]:
    """Patterns of names as quoted parts of a regular expression."""
    lines = textwrap.wrap(" ".join(patterns).replace("*", ".*"), WIDTH + 10)
    joined = ["|".join(line.split()) for line in lines]
    return tuple(
        ShellText(f"'{'|' if number else ''}{line}'") for number, line in enumerate(joined)
    )


def _own_code(
    key: str, lines: tuple[str, ...], whose: str = "The spec's own"
) -> list[dict[str, ShellText]]:
    if not lines:
        return []
    code = shell.code(lines)
    return [
        {
            "whose": ShellText(whose),
            "key": ShellText(key),
            "code": code,
            "end": shell.heredoc_word(code),
        }
    ]


def _module_call(one: ModuleCall) -> ShellText:
    names = f" {command_text(one.names)}" if one.names else ""
    return ShellText(f"module {one.command}{names}")


@functools.lru_cache(maxsize=1024)  # most jobs of a site have the same
def _export(variable: Variable) -> list[ShellText]:
    name = variable.name
    value = shell.quote(variable.value, unset="-" if variable.expand else "")
    if variable.append:
        inner = value.strip('"')  # of a value with variables
        value = ShellText(f'"${{{name}:+${name}:}}{inner}"')
    if variable.default:
        value = ShellText(f'"${{{name}:-{value}}}"')  # plain letters and digits, as fabrics.py has
    line = ShellText(f"export {name}={value}")
    if variable.only_with:
        given = "".join(f"${{{other}:-}}" for other in variable.only_with)
        line = ShellText(f"[[ -z {given} ]] || {line}")
    return [line] if variable.expand and not variable.source else with_reason(line, variable.reason)


def _limit(name: str, value: str) -> ShellText:
    """The soft limit, which every process may set up to the node's hard limit."""
    option = LIMITS[name]
    return ShellText(
        f'ulimit -S{option} {value} 2>/dev/null || fail "ulimit: {name}: {value} is more than '
        f'this node allows: $(ulimit -H{option})"'
    )


def _secret(secret: Secret) -> dict[str, Any]:
    """The lines that read the value when the job runs: no file and no command line contains it."""
    name = secret.name
    if secret.file is not None:
        value = f"$(cat -- {shell.quote(secret.file)})"  # bash ends the script if `<` finds no file
        complaint = f"the secret {name} is empty: its file is missing or has no text"
    else:
        value = f"$({program_text(secret.command)})"
        complaint = f"the secret {name} is empty: its command printed nothing"
        if not secret.command:
            complaint = f"the secret {name} is not set: export {name} before sbatch"
    return {
        "name": ShellText(name),
        "current": ShellText(f"${{{name}:-}}"),
        "value": ShellText(value),
        "complaint": shell.quote(complaint),
        "is_fetched": secret.file is not None or bool(secret.command),
    }
