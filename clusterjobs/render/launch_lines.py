"""The lines of job.sh that start the ranks: the command, the launcher's options, the way by ssh."""

from __future__ import annotations

import re
from typing import Any

from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.container import launch_template
from clusterjobs.render.lines import command_text, option_lines, section
from clusterjobs.render.shell import ShellText

_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@]*=", re.ASCII)


def launch_context(plan: Plan) -> dict[str, Any]:
    """What the block `launch` and the launcher's template print."""
    launch = plan.launch
    option = " ".join(launch.launcher_options)
    return {
        "launch_title": section(f"launch: {launch.reason}"),
        "launch_template": launch_template(plan),
        "ranks_per_node": plan.placement.shape.ranks_per_node,
        "no_python": ShellText(option and f"{option} "),
        "world_size": plan.placement.shape.world_size,
        "cpus_per_task": plan.placement.cpus_per_task or 1,
        "over_ssh": launch.launcher.over_ssh and plan.container is None,
        **_ssh(plan),
        "command": _lines((*launch.prefix, *launch.words), len(launch.prefix)),
        "srun_options": [line for one in launch.srun_options for line in option_lines(one)],
    }


def _ssh(plan: Plan) -> dict[str, Any]:
    """How the nodes are reached by launchers that use ssh, and over which interface they talk."""
    ssh = plan.launch.ssh
    return {
        "ssh_given": ssh is not None,
        "ssh_port": ssh.port if ssh else 0,
        "ssh_key_given": ssh is not None and ssh.key is not None,
        "ssh_key": shell.quote(ssh.key if ssh and ssh.key else "."),
        "interface_given": plan.launch.interface is not None,
        "interface": shell.quote(plan.launch.interface or ""),
        "own_interface": _own_interface(plan),
    }


def _own_interface(plan: Plan) -> ShellText:
    """In front of a rank's command: horovodrun's own word for it is the first node's."""
    if plan.launch.interface is None:
        return ShellText("")
    return ShellText(f"env HOROVOD_GLOO_IFACE={shell.quote(plan.launch.interface)} ")


def _lines(words: tuple[str, ...], prefix: int) -> list[ShellText]:
    """The command as a person would break it: each option on a line with its values.

    Its first `prefix` words stand in front of the program, on a line of their own.
    """
    lines: list[list[str]] = [list(words[:prefix]), []] if prefix else [[]]
    for word in words[prefix:]:
        if _starts_a_line(word) and lines[-1]:
            lines.append([])
        lines[-1].append(word)
    return [command_text(line) for line in lines]


def _starts_a_line(word: str) -> bool:
    """An option, or an override in hydra's way: `dataset.batch_size=8`."""
    return word.startswith("--") or _OVERRIDE.match(word) is not None
