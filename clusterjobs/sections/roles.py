"""The roles: commands on nodes of their own, started before the training and ended after it.

Plans their nodes, srun's options and the variables with their addresses. roles.sh.j2 starts and
watches them.
"""

from collections.abc import Iterator
from typing import Any

from clusterjobs.errors import counted
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.script.lines import command_text, heading, option_lines
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.forced import node_environment
from clusterjobs.sections.placement import first_nodes
from clusterjobs.sections.plan import Role
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.keys.steps import Role as SpecRole
from clusterjobs.spec.known_references import addr_variable, nodes_variable, port_variable
from clusterjobs.text import variable


def plan(context: Context) -> tuple[Role, ...]:
    spec, container = context.spec, context.container
    _check_launcher(context)
    further = container.options if container and container.runtime == "pyxis" else ()
    found = []
    for name, first in first_nodes(spec):
        role = spec.roles[name]
        one = Role(
            name,
            first,
            role.nodes,
            (*node_environment(spec.env), *role.command),
            (*_options(name, role), *further),
            role.port,
            role.ready_seconds,
        )
        found.append(one)
        _record(context, one)
    return tuple(found)


def _check_launcher(context: Context) -> None:
    """Only options of srun can keep the ranks away from the nodes of the roles."""
    spec, launcher = context.spec, context.launcher
    inside = spec.software.container is not None and launcher.over_ssh
    if launcher.calls_srun and not inside:
        return
    known = FRAMEWORKS[spec.framework].launchers
    others = [name for name in known if LAUNCHERS[name].calls_srun and name != launcher.name]
    context.problem(
        ("launcher",) if spec.launcher else ("roles",),
        f"{launcher.name} cannot be limited to the nodes that train: it uses all nodes of a job",
        f"launcher: {' or '.join(others)}" if others else "remove the roles",
    )


def _options(name: str, role: SpecRole) -> Iterator[Directive]:
    each = "one task on each node of the role"
    yield Directive("job-name", f"role-{name}", "the step's name, used to send it signals")
    yield Directive("nodes", role.nodes, each)
    yield Directive("ntasks", role.nodes, each)
    yield Directive("ntasks-per-node", 1, each)
    yield Directive("nodelist", variable(nodes_variable(name)), "the nodes of the role")
    yield Directive("cpus-per-task", variable("SLURM_CPUS_ON_NODE"), "all CPUs of the node")
    yield Directive("cpu-bind", "none", "threads may move")
    yield Directive("overlap", True, "beside steps such as sidecars")
    yield Directive("label", True, "every line says which node of the role wrote it")
    yield Directive("kill-on-bad-exit", 1, "one dead task ends the role")
    yield Directive("wait", 1, "one ended task ends the role")


def _record(context: Context, role: Role) -> None:
    context.record(
        f"roles.{role.name}",
        role.where(context.placement.all_nodes),
        f"after the nodes that train; its address is ${addr_variable(role.name)}",
    )


# ------------------------------------------------------------------ text
# Their nodes, commands and options of srun.


def render(rendering: Rendering) -> list[dict[str, Any]]:
    plan = rendering.plan
    reads_nccl = plan.preflight is not None and plan.preflight.reads_nccl
    return [
        {
            "name": ShellText(one.name),
            "title": heading(
                f"{one.name}: on {counted(one.nodes, 'node')}, until the training ends"
            ),
            "first": one.first,
            "nodes": one.nodes,
            "nodes_variable": ShellText(nodes_variable(one.name)),
            "addr_variable": ShellText(addr_variable(one.name)),
            "port_variable": ShellText(port_variable(one.name)),
            "has_port": one.port is not None,
            "port": one.port or 0,
            "ready_seconds": one.ready_seconds,
            "options": option_lines(one.options),
            "command": command_text(one.words),
            "hides_nccl_log": reads_nccl,
        }
        for one in plan.roles
    ]
