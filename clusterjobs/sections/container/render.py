"""The section `container` of the plan as text: mounts, names of variables and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.lines import heading, once_per_node, option_lines, with_reason, wrapped
from clusterjobs.script.shell import ShellText, TemplateName
from clusterjobs.sections.plan import Container, Mounted
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import joined

_TITLES: Mapping[str, str] = {
    "pyxis": "pyxis starts it on every node, by srun",
    "apptainer": "apptainer starts each rank in it",
    "singularity": "singularity starts each rank in it",
    "docker": "docker starts one on every node",
    "shifter": "shifter starts each rank in it",
}
# Docker passes on only the named variables; the other runtimes pass on all.
_SLURM_NAMES = (
    *("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NNODES", "SLURM_NODEID"),
    *("SLURMD_NODENAME", "SLURM_RESTART_COUNT", "USER"),
)


def render(rendering: Rendering) -> dict[str, Any] | None:
    """What the block `container` prints; None without a container."""
    plan = rendering.plan
    container = plan.container
    if container is None:
        return None
    runtime = container.runtime
    return {
        "title": heading(f"container: {_TITLES[runtime]}"),
        "template": TemplateName(f"containers/{_same_options(runtime)}.sh.j2"),
        "program": ShellText(runtime),
        "env_prefix": ShellText(f"{runtime.upper()}ENV"),
        "has_functions": runtime == "docker",
        "functions_template": TemplateName("containers/docker_functions.sh.j2"),
        "options": [] if runtime == "pyxis" else option_lines(container.options),
        "image": shell.quote(container.image),
        "mounts": [line for one in container.mounts for line in _mount(runtime, one)],
        "names": _names(container),
        "has_venv": container.venv is not None,
        "venv": shell.quote(container.venv or ""),
        "ssh_inside": container.ssh_inside,
        "once_per_node": once_per_node(plan.placement.all_nodes),
    }


def _same_options(runtime: str) -> str:
    """Singularity takes Apptainer's options; its variables have its own name."""
    return "apptainer" if runtime == "singularity" else runtime


def _mount(runtime: str, mount: Mounted) -> list[ShellText]:
    source, target = mount.source, mount.target
    if runtime == "docker":  # --volume would create a missing source, owned by root
        text = joined(
            *("type=bind,source=", source, ",target=", target), ",readonly" * mount.read_only
        )
    else:
        text = joined(source, ":", target, ":ro" * mount.read_only)
    return with_reason(shell.quote(text), mount.reason)


def _names(container: Container) -> tuple[ShellText, ...]:
    names = (*container.names, *(_SLURM_NAMES if container.runtime == "docker" else ()))
    return wrapped(tuple(dict.fromkeys(names)))
