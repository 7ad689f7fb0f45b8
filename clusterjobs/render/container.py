"""The container's part of the script: mounts, names of variables and options as lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from clusterjobs.plan.container import Container, Mounted
from clusterjobs.plan.environment import EFA_LIBRARIES
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.lines import WIDTH, once_per_node, option_lines, section, with_reason
from clusterjobs.render.shell import ShellText

_NOTHING = ShellText("")
_WITHOUT: Mapping[str, Any] = {
    "contained": False,
    "ssh_inside": False,
    "container_words": _NOTHING,
    "lifeline": _NOTHING,
    "lifeline_inside": False,
    "venv_inside": False,
    "efa_of_the_host": False,
}
_TITLES = {
    "pyxis": "srun starts it on every node, by pyxis",
    "apptainer": "each rank is started in it, by apptainer",
    "docker": "one on every node, by docker",
}
# Docker hands on nothing that it is not told; the others hand on everything.
_OF_SLURM = (
    *("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NNODES", "SLURM_NODEID"),
    *("SLURM_RESTART_COUNT", "USER"),
)


def launch_template(plan: Plan) -> str:
    """The launcher's template; another where the nodes are reached by ssh instead of srun."""
    ssh_inside = plan.container is not None and plan.container.ssh_inside
    return f"launch/{plan.launch.launcher.name}{'_in_docker' if ssh_inside else ''}.sh.j2"


def container_context(plan: Plan) -> Mapping[str, Any]:
    """What the templates print of the container; they ask for all of it without one, too."""
    container = plan.container
    if container is None:
        return _WITHOUT
    runtime, ssh_inside = container.runtime, container.ssh_inside
    is_docker, is_pyxis = runtime == "docker", runtime == "pyxis"
    return {
        "contained": True,
        "container_title": section(f"container: {_TITLES[runtime]}"),
        "container_template": f"containers/{runtime}.sh.j2",
        "container_options": [
            line for one in container.options if not is_pyxis for line in option_lines(one)
        ],
        "image": shell.quote(container.image),
        "mounts": [line for one in container.mounts for line in _mount(runtime, one)],
        "inside_names": _names(container),
        "ssh_inside": ssh_inside,
        "on_first_node": ShellText('docker exec "clusterjobs-$SLURM_JOB_ID" '),
        "once_per_node": once_per_node(plan.placement.shape.nodes),
        "container_words": _NOTHING if is_pyxis else ShellText('"${container[@]}" '),
        "lifeline": ShellText(' <&"$lifeline"') if is_docker and not ssh_inside else _NOTHING,
        "lifeline_inside": is_docker and not ssh_inside,
        "venv_inside": container.venv is not None,
        "efa_of_the_host": container.host_fabric_libraries is not None,
        "efa_libraries": ShellText(EFA_LIBRARIES),
    }


def _mount(runtime: str, mount: Mounted) -> list[ShellText]:
    source, target = mount.source, mount.target
    if runtime == "docker":  # --volume would make a missing source, and root would own it
        text = f"type=bind,source={source},target={target}{',readonly' * mount.read_only}"
    else:
        text = f"{source}:{target}{':ro' * mount.read_only}"
    return with_reason(shell.quote(text), mount.reason)


def _names(container: Container) -> list[ShellText]:
    names = (*container.names, *(_OF_SLURM if container.runtime == "docker" else ()))
    lines = textwrap.wrap(" ".join(dict.fromkeys(names)), WIDTH - 4, break_long_words=False)
    return [ShellText(line) for line in lines]
