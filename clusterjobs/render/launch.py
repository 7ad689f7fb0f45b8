"""The section `launch` of the plan as text: the command of the ranks and what starts it."""

from __future__ import annotations

import re
from typing import Any

from clusterjobs.plan.launch import Launch
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.lines import NOTHING, command_text, heading, option_lines
from clusterjobs.render.shell import ShellText

_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=", re.ASCII)


def launch_context(plan: Plan) -> dict[str, Any]:
    """What the block `launch` and the launcher's template print."""
    launch, restarts = plan.launch, plan.restarts
    return {
        "title": heading(f"launch: {launch.reason}"),
        "template": ShellText(launch_template(plan)),
        "ends_itself": restarts is not None and restarts.saving.stop_channel == "clock",
        "command": [*_prefix(launch), *_lines(launch.words)],
        "srun_options": option_lines(launch.srun_options),
        "options": ShellText("".join(f"{shell.quote(one)} " for one in launch.launcher_options)),
        "cpus_per_task": plan.placement.cpus_per_task or 1,
        "has_functions": launch.launcher.over_ssh,
        "functions_template": ShellText("functions/ssh.sh.j2"),
        "has_cleanup": launch.launcher.over_ssh,
        **_inside(plan),
        **_ssh(plan),
    }


def launch_template(plan: Plan) -> str:
    """The launcher's template; another one where it reaches the nodes' containers by ssh."""
    inside = plan.container is not None and plan.container.ssh_inside
    return f"launch/{plan.launch.launcher.name}{'_in_docker' if inside else ''}.sh.j2"


def _inside(plan: Plan) -> dict[str, Any]:
    """How a rank's command gets into the container, and what it does there first."""
    container = plan.container
    runtime = container.runtime if container else ""
    has_lifeline = container is not None and runtime == "docker" and not container.ssh_inside
    libraries = container.host_fabric_libraries if container else None
    return {
        "container": ShellText('"${container[@]}" ')
        if runtime in ("apptainer", "docker")
        else NOTHING,
        "has_lifeline": has_lifeline,
        "lifeline": ShellText(' <&"$lifeline"') if has_lifeline else NOTHING,
        "has_venv_inside": container is not None and container.venv is not None,
        "has_host_libraries": libraries is not None,
        "host_libraries": ShellText(libraries or ""),
    }


def _ssh(plan: Plan) -> dict[str, Any]:
    """How the nodes are reached by launchers that use ssh, and over which interface they talk."""
    launch = plan.launch
    ssh, interface = launch.ssh, launch.interface
    own = f"env HOROVOD_GLOO_IFACE={shell.quote(interface)} " if interface else ""
    return {
        "over_ssh": launch.launcher.over_ssh,
        "has_ssh_server": ssh is not None,
        "ssh_port": ssh.port if ssh else 0,
        "has_ssh_key": ssh is not None and ssh.key is not None,
        "ssh_key": shell.quote(ssh.key if ssh and ssh.key else "."),
        "has_interface": interface is not None,
        "interface": shell.quote(interface or ""),
        "own_interface": ShellText(own),
    }


def _prefix(launch: Launch) -> list[ShellText]:
    return [command_text(launch.prefix)] if launch.prefix else []


def _lines(words: tuple[str, ...]) -> list[ShellText]:
    """The command as a person would break it: each option on a line with its values."""
    lines: list[list[str]] = [[]]
    for word in words:
        if _starts_a_line(word) and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    return [command_text(line) for line in lines]


def _starts_a_line(word: str) -> bool:
    """An option, or an override in hydra's way: `dataset.batch_size=8`."""
    return word.startswith("--") or _OVERRIDE.match(word) is not None
