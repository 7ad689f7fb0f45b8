"""The section `steps` of the plan as text: the commands around the training."""

from __future__ import annotations

from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.lines import WIDTH, command_text, once_per_node, program_text
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.launch.render import launch_text
from clusterjobs.sections.plan import Plan, Step
from clusterjobs.sections.preflight.render import nccl_judge, nccl_watch
from clusterjobs.sections.rendering import Rendering


def render(rendering: Rendering) -> dict[str, Any]:
    """What the blocks `before` and `after` print, and the functions for steps."""
    plan, steps = rendering.plan, rendering.plan.steps
    after = [
        *_own(nccl_judge(plan), plan),
        *(_step(one, plan, number) for number, one in enumerate(steps.after)),
    ]
    sidecars = [*_own(nccl_watch(plan), plan), *(_step(one, plan) for one in steps.sidecars)]
    named = [one for one in (*steps.before, *steps.after) if one.name]
    return {
        "before": [_step(one, plan, number) for number, one in enumerate(steps.before)],
        "sidecars": sidecars,
        "after": after,
        "always": [_last(one, plan) for one in steps.always],
        "has_after": bool(after or rendering.site.insertions("after_launch")),
        "has_background": bool(sidecars or plan.restarts or plan.roles),
        "has_functions": bool(named or steps.always),
        "has_named": bool(named),
        "decision": ShellText('"${decision:-stop}"' if plan.restarts else "stop"),
        "has_ranks": any(one.launcher for one in named),
        "has_limits": any(one.timeout_seconds for one in named),
        "has_once": any(one.once for one in named),
        "has_bandwidth": any(one.min_bus_bandwidth for one in named),
        "has_always": bool(steps.always),
    }


def ends_its_steps(plan: Plan) -> bool:
    """Whether `finish` may have to end a step."""
    return any(one.name for one in (*plan.steps.before, *plan.steps.after))


def _last(step: Step, plan: Plan) -> dict[str, Any]:
    text, name = _text(step, plan), shell.quote(step.name)
    return {"name": name, "seconds": step.timeout_seconds, "text": text}


def _own(commands: list[ShellText], plan: Plan) -> list[dict[str, Any]]:
    """Commands of the job's own, beside those of the spec."""
    return [{**_step(Step(("true",)), plan), "text": text} for text in commands]


def _step(step: Step, plan: Plan, number: int = 0) -> dict[str, Any]:
    """`number`: of a step in its list, from 0."""
    within = plan if step.inside else plan._replace(container=None)
    launcher = step.launcher or plan.launch.launcher
    further = (*plan.launch.launcher_options, launcher.no_python_option)
    options = further if launcher is plan.launch.launcher else ()
    launch = plan.launch._replace(
        launcher=launcher,
        words=step.words,
        srun_options=step.srun_options,
        launcher_options=tuple(dict.fromkeys(filter(None, options))),
        own_options=(),  # restarts and logs of the training
        own_text="",
        takes_arguments=False,
        template=launcher.name,
    )
    return {
        "text": _text(step, plan),
        "is_named": bool(step.name),
        "is_apart": bool(step.name and number),
        "is_of_ranks": step.launcher is not None,
        "is_inside": step.inside,
        "name": shell.quote(step.name),
        "once": (number + 1) * step.once,
        "min_bus_bandwidth": step.min_bus_bandwidth,
        "reports": plan.placement.all_nodes if step.per == "node" else 1,
        "command": command_text(step.words),
        "seconds": step.timeout_seconds,
        "options": _lines(_options(step, plan)),
        "srun": ShellText(" \\\n    ".join(_lines([ShellText("srun"), *_options(step, plan)]))),
        "launch": launch_text(within._replace(launch=launch)),
    }


def _text(step: Step, plan: Plan) -> ShellText:
    """The command of a step that is neither of ranks nor inside a container."""
    if step.per != "node":
        return program_text(step.words)
    once = once_per_node(plan.placement.all_nodes)
    return ShellText(f"srun {once} {command_text(step.words)}")


def _options(step: Step, plan: Plan) -> list[ShellText]:
    """Options of srun for ranks, or for a step inside a container."""
    container = plan.container
    if step.launcher:
        return [shell.option(one.name, one.value) for one in step.srun_options]
    if not step.inside or container is None:
        return []
    nodes = plan.placement.all_nodes if step.per == "node" else 1
    pyxis = container.options if container.runtime == "pyxis" else ()
    further = [shell.option(one.name, one.value) for one in pyxis]
    once = once_per_node(nodes).replace("\\\n", "").split()
    return [*map(ShellText, once), *further]


def _lines(options: list[ShellText]) -> list[ShellText]:
    """Several options on a line: the launch below explains those that it shares."""
    lines: list[str] = []
    for one in options:
        if lines and len(lines[-1]) + len(one) < WIDTH - 12:
            lines[-1] += f" {one}"
        else:
            lines.append(one)
    return [ShellText(one) for one in lines]
