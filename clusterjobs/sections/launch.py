"""How the ranks are started: the command, its launcher, and the options of both."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from clusterjobs.errors import did_you_mean
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.arguments import argument_key, argument_names, given_arguments
from clusterjobs.frameworks.base import Program, Task, folder_on_the_node
from clusterjobs.launchers import LAUNCHERS, SSH_PROGRAMS, Launched
from clusterjobs.script import shell
from clusterjobs.script.lines import NOTHING, command_text, heading, once_per_node, option_lines
from clusterjobs.script.shell import ShellText, TemplateName
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.forced import (
    forced_for_ranks,
    node_environment,
    refers_to_node_rank,
)
from clusterjobs.sections.job.directives import srun_options
from clusterjobs.sections.placement.node_share import port_stride
from clusterjobs.sections.plan import Launch, Plan, SshServer
from clusterjobs.sections.restarts import AUTO_RESUME
from clusterjobs.slurm.options import Directive
from clusterjobs.spec import field_types
from clusterjobs.spec.known_references import LATEST, NODE_RANK
from clusterjobs.text import Text, Value, expanding, partition, show, variable_names


def plan_program(context: Context) -> Program:
    """What a rank runs; nothing after a problem, so that the other sections are still planned."""
    spec, placement = context.spec, context.placement
    task = Task(
        spec,
        context.options,
        placement.shape,
        context.parallelism,
        context.batch,
        placement.node_type.gpu_model,
        context.texts,
    )
    program = context.framework.program(task, context.diagnostics, context.provenance)
    return program or Program((), is_python=False)


def plan(context: Context) -> Launch:
    spec, launcher, options = context.spec, context.launcher, context.launcher_options
    program, container, restarts = context.program, context.container, context.restarts
    ssh, ssh_inside = spec.ssh, container is not None and container.ssh_inside
    prefix = (*node_environment(spec.env), *spec.prefix)
    srun_options = _srun_options(context)
    _check_gpus(context)
    _check_ssh(context)
    _check_program_options(context)
    _check_frameworks(context)
    if spec.prefix:
        from clusterjobs.frameworks.command import check_starters  # few specs have a prefix

        check_starters(("prefix",), spec.prefix, context.placement.shape, context.diagnostics)
    _record_rendezvous(context)
    launched = Launched(
        spec,
        context.placement.shape.nodes,
        context.placement.shape.ranks_per_node,
        ends_by_clock=restarts is not None and restarts.saving.stop_channel == "clock",
        has_node_rank=refers_to_node_rank(spec),
    )
    start = _start(context, prefix)
    return Launch(
        launcher,
        reason=launcher.reason_inside if ssh_inside else launcher.reason,
        prefix=prefix,
        words=(*start.python, *_words(program, start)),
        origins=_origins(context),
        srun_options=srun_options,
        no_python=start.no_python,
        own_options=options.words(launched, context.diagnostics) if options else (),
        own_text=options.text() if options else "",
        forced={name: one.reason for name, one in forced_for_ranks(spec.env).items()},
        takes_arguments=spec.job_arguments,
        template=options.template(launcher.name) if options else launcher.name,
        interface=program.interface,
        ssh=SshServer(ssh.port, ssh.key and folder_on_the_node(ssh.key)) if ssh else None,
        programs=(*(SSH_PROGRAMS if ssh_inside else launcher.programs), *program.programs),
    )


def _srun_options(context: Context) -> tuple[Directive, ...]:
    """The options of the ranks' srun; () if the script does not call srun for them."""
    launcher, container, restarts = context.launcher, context.container, context.restarts
    by_pyxis = container is not None and container.runtime == "pyxis"
    found = srun_options(context, by_pyxis)
    if restarts and restarts.auto_resume and AUTO_RESUME.name not in context.spec.srun:
        found += (AUTO_RESUME,)
    if container and by_pyxis:
        found += container.options
    if launcher.calls_srun and not (launcher.over_ssh and container):
        return found
    if context.spec.srun:
        _refuse_srun(context)
    return ()


class _Start(NamedTuple):
    """What stands in front of the program: `python3`, or the launcher's option without it."""

    python: tuple[str, ...] = ()
    no_python: tuple[str, ...] = ()
    module_option: str = "-m"


def _start(context: Context, prefix: tuple[Value, ...]) -> _Start:
    """How the launcher gets to the program; a prefix must come before Python."""
    launcher, is_python = context.launcher, context.program.is_python
    python = ("python3",) if is_python else ()
    if not launcher.starts_python:
        return _Start(python)
    if is_python and not prefix:
        return _Start(module_option=launcher.module_option)  # the launcher calls Python itself
    if launcher.no_python_option:
        return _Start(python, (launcher.no_python_option,))
    what = f"{launcher.name} starts Python scripts, and no other program"
    context.problem(("prefix",) if prefix else ("launcher",), what, "choose another launcher")
    return _Start(python)


def _words(program: Program, start: _Start) -> tuple[Value, ...]:
    """The program and its arguments; `-m package.module` becomes two words."""
    first, rest = program.command[:1], program.command[1:]
    module = field_types.module_of(first[0]) if program.is_python and first else ""
    return (start.module_option, module, *rest) if module else program.command


def _named(word: Value) -> Value:
    """What the plan shows of a word, beside the key that it is from."""
    if module := field_types.module_of(word):
        return module
    return expanding(partition(word, "=")[0] if word.startswith("-") else word)


def _check_frameworks(context: Context) -> None:
    for name in context.spec.frameworks:
        if name not in FRAMEWORKS:
            hint = did_you_mean(name, [*FRAMEWORKS])
            what = f"there is no framework {name}"
            context.problem(("frameworks", name), what, hint, at_key=True)


def _origins(context: Context) -> Mapping[str, str]:
    """`--lr` -> `args.lr (exp.yaml:9)`; the derived ones as the framework names them."""
    spec = context.spec
    started = [("script", spec.script), *(("command", w) for w in spec.command or ())]
    programs = {show(_named(word)): key for key, word in started if word}
    programs = {word: context.diagnostics.describe_key((key,)) for word, key in programs.items()}
    own = {
        name.partition("=")[0]: context.diagnostics.describe_key(("args", position))
        for position, name in argument_names(spec)
    }
    if not isinstance(spec.args, Mapping):  # overrides, as hydra and MaxText have them
        own |= {
            word.partition("=")[0]: context.diagnostics.describe_key(("args", index))
            for index, word in enumerate(map(show, spec.args))
            if "=" in word and not word.startswith("-")
        }
    flags = {f"--{name}": origin for name, origin in own.items() if not name.startswith("-")}
    return {**context.program.origins, **programs, **own, **flags}


def _check_gpus(context: Context) -> None:
    has_gpus = context.placement.shape.gpus_per_node > 0
    if context.launcher.takes_first_gpus and has_gpus and not context.placement.exclusive:
        context.problem(
            ("launcher",),
            f"{context.launcher.name} takes a node's first GPUs, and this job shares its nodes",
            "whole nodes, or a launcher that Slurm starts: srun, torchrun, mpirun",
        )


# In the names of all program_options: only for such arguments, the other launchers are imported.
LIKE_AN_OPTION = re.compile(
    "node|proc|gpu|machine|master|rdzv|rank|host|launcher|ssh|_addr|standalone|_restarts|monitor_|use_"
)


def _check_program_options(context: Context) -> None:
    """Warn of options of torchrun or another launcher in `args`, which the script would get."""
    spec, shape, own = context.spec, context.placement.shape, context.launcher
    others = () if spec.command else context.framework.launchers  # a command may be torchrun
    accepted = {argument_key(name) for name in spec.known_args}
    for one in given_arguments(spec):
        is_filled_in = any(isinstance(value, Text) for value in one.values)  # {{ job.node_rank }}
        if one.key in accepted or is_filled_in or not LIKE_AN_OPTION.search(one.key):
            continue
        launchers = (own, *(LAUNCHERS[name] for name in others if name in LAUNCHERS))
        owner = next((it for it in launchers if one.key in it.program_options), None)
        if owner is None:
            continue
        origin = owner.program_options[one.key]
        size = getattr(shape, origin, None)
        if size is not None:
            derived = f"of this job it is {size}, from {origin}"
        else:
            derived = f"in a spec it is {origin}" if origin else "the job sets it"
        name = one.name.lstrip("-")
        context.problem(
            one.path,
            f"{name} is an option of {owner.name}, and the script gets it: {derived}",
            f"remove it; if the script has such an argument, write known_args: [{name}]",
            warning=True,
        )


def _check_ssh(context: Context) -> None:
    ssh = context.spec.ssh
    if ssh is not None and not context.launcher.over_ssh:
        context.problem(
            ("ssh",),
            f"{context.launcher.name} uses no ssh",
            "remove it, or choose a launcher that does: deepspeed-pdsh, horovodrun",
        )
    elif ssh is not None and context.container:
        context.problem(
            ("ssh",),
            "an sshd of the node leads to the node, and not into its container",
            "remove it: each container has an sshd of this job alone",
        )


def _refuse_srun(context: Context) -> None:
    launcher, container = context.launcher, context.container
    if container and launcher.over_ssh:
        what = f"{launcher.name} starts the ranks by ssh, and srun only the containers"
        context.problem(("srun",), what, "remove it")
    elif not container:
        context.problem(
            ("srun",),
            f"{launcher.name} starts the ranks without these options",
            "remove it, or choose a launcher that the job starts with srun",
        )


def _record_rendezvous(context: Context) -> None:
    placement = context.placement
    packed = f"(SLURM_JOB_ID + slot x {port_stride(placement.per_node)})"
    added = placement.address_suffix
    suffix = f" + {added}, its address in the fast network" if added else ""
    first = packed if placement.per_node > 1 else "SLURM_JOB_ID"
    context.record(
        "MASTER_ADDR",
        f"the first of SLURM_JOB_NODELIST{suffix}",
        "every node knows it, and the batch script runs there",
        "Slurm: scontrol show hostnames",
    )
    context.record(
        "MASTER_PORT",
        f"12000 + {first} % 20000, the next free one",
        "jobs that share a node differ, and it stays below the ephemeral ports (32768 and up)",
        "Linux: ip_local_port_range",
    )


# ------------------------------------------------------------------ text
# The command of the ranks and what starts it.


_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=", re.ASCII)


def render(rendering: Rendering) -> dict[str, Any]:
    return launch_text(rendering.plan)


def launch_text(plan: Plan) -> dict[str, Any]:
    """The launch of the training, or of a step that is launched like it."""
    launch, restarts = plan.launch, plan.restarts
    return {
        "title": heading(f"launch: {launch.reason}"),
        "template": TemplateName(launch_template(plan)),
        "ends_itself": restarts is not None and restarts.saving.stop_channel == "clock",
        "command": _command(launch),
        "srun_options": option_lines(launch.srun_options),
        "options": ShellText("".join(f"{shell.quote(one)} " for one in launch.no_python)),
        "own_options": ShellText('"${launcher_options[@]}" ') if launch.own_options else NOTHING,
        "own_text": shell.plain(launch.own_text),
        "option_lines": [shell.quote(one) for one in launch.own_options],
        "cpus_per_task": plan.placement.cpus_per_task or 1,
        "has_node_rank": any(one.name == NODE_RANK for one in plan.environment.variables),
        "kills_others": launch.kills_others,
        "is_over_ssh": is_over_ssh(plan),
        "has_functions": is_over_ssh(plan),
        "functions_template": TemplateName("functions/ssh.sh.j2"),
        **_inside(plan),
        **_ssh(plan),
    }


def is_over_ssh(plan: Plan) -> bool:
    """Whether the launcher reaches the other nodes, or their containers, by ssh."""
    inside = plan.container is not None and plan.container.ssh_inside
    return plan.launch.launcher.over_ssh or inside


def launch_template(plan: Plan) -> str:
    """The launcher's template, or the one for containers that are reached by ssh."""
    launch = plan.launch
    in_containers = is_over_ssh(plan) and not launch.launcher.over_ssh
    return f"launch/{launch.template}{'_in_docker' if in_containers else ''}.sh.j2"


def _inside(plan: Plan) -> dict[str, Any]:
    """The command that starts a rank's command inside the container."""
    container = plan.container
    runtime = container.runtime if container else ""
    has_lifeline = runtime == "docker" and not is_over_ssh(plan)
    libraries = container.host_fabric_libraries if container else None
    return {
        "container": ShellText('"${container[@]}" ') if runtime not in ("", "pyxis") else NOTHING,
        "restores_variables": runtime == "shifter",
        "has_lifeline": has_lifeline,
        "lifeline": ShellText(' <&"$lifeline"') if has_lifeline else NOTHING,
        "has_venv_inside": container is not None and container.venv is not None,
        "has_setup_inside": container is not None and container.has_setup,
        "has_host_libraries": libraries is not None,
        "host_libraries": ShellText(libraries or ""),
    }


def _ssh(plan: Plan) -> dict[str, Any]:
    """Which sshd launchers with ssh use, and the network interface of the ranks."""
    launch = plan.launch
    ssh, interface = launch.ssh, launch.interface
    server = (str(ssh.port), *([ssh.key] if ssh.key else [])) if ssh else ()
    once = f"{once_per_node(plan.placement.shape.nodes)} --kill-on-bad-exit=1"
    return {
        "ssh_server": ShellText("".join(f" {shell.quote(one)}" for one in server)),
        "serve_options": ShellText('"${srun_options[@]}"' if launch.srun_options else once),
        "has_interface": interface is not None,
        "interface": shell.quote(interface or ""),
    }


def _command(launch: Launch) -> list[ShellText]:
    """The lines of the array `command`."""
    forced = [
        shell.comment(f"# {name} is forced: {reason}") for name, reason in launch.forced.items()
    ]
    words = [_arguments_text(one) for one in argument_groups(launch.words)]
    own = [ShellText('"$@" # the arguments of this script')] if launch.takes_arguments else []
    return [*forced, *([command_text(launch.prefix)] if launch.prefix else []), *words, *own]


def _arguments_text(group: list[Value]) -> ShellText:
    """The words of a group; with the newest checkpoint, they are left out while there is none."""
    if not any(LATEST in variable_names(word) for word in group):
        return command_text(group)
    if group[0].startswith("--"):
        return ShellText(f"${{{LATEST}:+{command_text(group)}}}")
    return ShellText(" ".join(map(_argument_text, group)))


def _argument_text(word: Value) -> ShellText:
    text = shell.quote(word)
    return ShellText(f"${{{LATEST}:+{text}}}") if LATEST in variable_names(word) else text


def argument_groups(words: tuple[Value, ...]) -> list[list[Value]]:
    """The command as a person would break it: each option with its values."""
    groups: list[list[Value]] = [[]]
    for word in words:
        if _starts_a_group(word) and groups[-1]:
            groups.append([])
        groups[-1].append(word)
    return groups


def _starts_a_group(word: Value) -> bool:
    """An option, or an override in hydra's syntax: `dataset.batch_size=8`."""
    return word.startswith("--") or _OVERRIDE.match(show(word)) is not None
