"""The section `launch` of the plan as text: the command of the ranks and what starts it."""

from __future__ import annotations

import re
from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.lines import NOTHING, command_text, heading, once_per_node, option_lines
from clusterjobs.script.shell import ShellText, TemplateName
from clusterjobs.sections.plan import Launch, Plan
from clusterjobs.sections.rendering import Rendering
from clusterjobs.spec.known_references import NODE_RANK
from clusterjobs.text import Value, show

_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=", re.ASCII)


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `launch` and the launcher's template print."""
    return launch_text(rendering.plan)


def launch_text(plan: Plan) -> dict[str, Any]:
    """The same, also of a step that is launched like the training."""
    launch, restarts = plan.launch, plan.restarts
    return {
        "title": heading(f"launch: {launch.reason}"),
        "template": TemplateName(launch_template(plan)),
        "ends_itself": restarts is not None and restarts.saving.stop_channel == "clock",
        "command": _command(launch),
        "srun_options": option_lines(launch.srun_options),
        "options": ShellText("".join(f"{shell.quote(one)} " for one in launch.launcher_options)),
        "own_options": ShellText('"${launcher_options[@]}" ') if launch.own_options else NOTHING,
        "own_text": shell.plain(launch.own_text),
        "option_lines": [shell.quote(one) for one in launch.own_options],
        "cpus_per_task": plan.placement.cpus_per_task or 1,
        "has_node_rank": any(one.name == NODE_RANK for one in plan.environment.variables),
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
    words = [command_text(one) for one in argument_groups(launch.words)]
    own = [ShellText('"$@" # the arguments of this script')] if launch.takes_arguments else []
    return [*forced, *_prefix(launch), *words, *own]


def _prefix(launch: Launch) -> list[ShellText]:
    return [command_text(launch.prefix)] if launch.prefix else []


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
