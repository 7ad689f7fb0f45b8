"""The commands that run before, after and in parallel to the training."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from clusterjobs.errors import counted
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.script import shell
from clusterjobs.script.lines import WIDTH, command_text, once_per_node, program_text
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.forced import node_environment
from clusterjobs.sections.job.directives import derived_srun_options
from clusterjobs.sections.launch import launch_text
from clusterjobs.sections.plan import Container, Launch, Placement, Plan, Step, Steps
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.steps import Step as WrittenStep
from clusterjobs.spec.keys.steps import Steps as WrittenSteps
from clusterjobs.text import Value, expanding, file_name, joined, show, variable
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ checks
# Which keys of a step fit together, and with the job's launcher and container.


_Placed = tuple[str, Path, WrittenStep]  # the key of the list, the path of the step


def check_steps(context: Context) -> None:
    """Check the steps of all lists."""
    for key, path, step in _steps(context.spec):
        _check_list(context, key, path, step)
        _check_launcher(context, key, path, step)
        _check_container(context, key, path, step)
        _check_srun(context, key, path, step)
        _check_sizes(context, path, step)
        if show(step.command[0]).endswith(".py"):
            from clusterjobs.frameworks.command import (
                check_interpreter,
            )  # few specs have such steps

            check_interpreter((*path, "command"), step.command, context.diagnostics)
        if step.creates and step.per == "node":
            what = "only the first node looks whether it is there"
            context.problem((*path, "creates"), what, "per: job, and a folder that all nodes share")


def _steps(spec: Experiment) -> Iterator[_Placed]:
    for key in ("before", "sidecars", "after"):
        for index, step in enumerate(getattr(spec, key)):
            yield key, (key, index), step


# Key of a step -> (the only list that may have it, what it is for).
_ONLY = {
    "creates": ("before", "what the training needs is made before it"),
    "once": ("before", "only a step before the training runs again after a restart"),
    "min_bus_bandwidth": ("before", "it stops the job before the training"),
    "when": ("after", "only a step after the training depends on how that has ended"),
}


def _check_list(context: Context, key: str, path: Path, step: WrittenStep) -> None:
    for name, (where, reason) in _ONLY.items():
        if key != where and name in step.model_fields_set:
            context.problem(
                (*path, name), f"{key} has no {name}: {reason}", f"move the step to {where}:"
            )


def _check_launcher(context: Context, key: str, path: Path, step: WrittenStep) -> None:
    if step.per == "rank":
        launcher = LAUNCHERS[step.launcher] if step.launcher else context.launcher
        _check_ranks(context, key, path, step, launcher)
        if file_name(step.command[0]) != "srun":  # _check_srun has more to say
            from clusterjobs.frameworks.command import check_starters  # few specs have such steps

            shape = context.placement.shape
            check_starters((*path, "command"), step.command, shape, context.diagnostics)
    elif step.launcher:
        what = f"per: {step.per} needs no launcher"
        context.problem((*path, "launcher"), what, "add per: rank")


_BY_SRUN = "add launcher: srun to this step, which starts one task per rank; or per: node"


def _check_ranks(
    context: Context, key: str, path: Path, step: WrittenStep, launcher: Launcher
) -> None:
    per, name = (*path, "per"), launcher.name
    if step.when == "always":
        what = "no ranks can be started once a job is cancelled or at its time limit"
        context.problem(per, what, "per: node, or leave out when: always")
    elif not launcher.runs_commands:
        context.problem(per, f"{name} starts only the training", _BY_SRUN)
    elif key == "sidecars" and name != "srun":
        what = f"{name} would use MASTER_PORT at the same time as the training"
        context.problem(per, what, _BY_SRUN)
    elif step.min_bus_bandwidth and not launcher.task_per_rank:
        context.problem(
            (*path, "min_bus_bandwidth"),
            f"nccl-tests gets its ranks from MPI, and {name} starts no MPI program",
            "add launcher: srun to this step, and srun: {mpi: pmix}; or per: node with -g 8",
            warning=True,
        )


def _check_container(context: Context, key: str, path: Path, step: WrittenStep) -> None:
    container = context.container
    if container is None:
        if step.container:
            what = "this job has no container"
            context.problem((*path, "container"), what, "remove it, or add software.container")
        return
    inside = step.per == "rank" if step.container is None else step.container
    where = (*path, "per" if step.container is None else "container")
    if inside and step.when == "always":
        what = "a job can end before its container is set up"
        context.problem(where, what, "container: false")
    elif inside and container.runtime == "docker" and key == "sidecars":
        what = "docker runs only one container of the job on a node, that of the training"
        context.problem(where, what, "container: false")
    elif (
        inside
        and container.runtime == "docker"
        and step.launcher
        and not context.launcher.task_per_rank
    ):
        what = "srun would start one container per rank, but docker runs only one on a node"
        hint = f"remove it: {context.launcher.name} starts the ranks of a node in one container"
        context.problem((*path, "launcher"), what, hint)


_SMALL = re.compile(r"\d{1,6}|\d{1,3}[kK]", re.ASCII)  # below a megabyte, latency decides


def _check_sizes(context: Context, path: Path, step: WrittenStep) -> None:
    """Warn of an average over sizes that no network carries at its full bandwidth."""
    words = step.command
    first = next((b for a, b in pairwise(words) if a in ("-b", "--minbytes")), "")
    if step.min_bus_bandwidth and _SMALL.fullmatch(show(first)):
        context.problem(
            (*path, "min_bus_bandwidth"),
            f"the average over all sizes must reach it, but small sizes (from {show(first)}) lower "
            "it",
            "write -b 1G -e 8G in the command",
            warning=True,
        )


# Without them srun takes SLURM_NTASKS and SLURM_NTASKS_PER_NODE of the job, whatever its other
# options, and since Slurm 22.05 one CPU for each task. Source: srun(1), --cpus-per-task.
_SHAPE = (("--nodes", "-N"), ("--ntasks", "-n"), ("--cpus-per-task", "-c"))

_EFFECTS: Mapping[tuple[str, ...], str] = {
    ("--cpus-per-task",): "each task may get only one CPU",
    ("--overlap",): "the training would wait until this step has ended",
}


def _check_srun(context: Context, key: str, path: Path, step: WrittenStep) -> None:
    """Refuse an srun of the spec's own whose shape is that of the job by accident."""
    if file_name(step.command[0]) != "srun":
        return
    wanted = (*_SHAPE, *([("--overlap",)] if key == "sidecars" else []))
    missing = [names[0] for names in wanted if not _has(step.command, names)]
    if step.per != "job":
        context.problem(
            (*path, "command"),
            f"per: {step.per} starts the command by srun already",
            "remove srun and its options from the command",
        )
    elif missing:
        ranks = context.placement.shape.world_size
        effect = _EFFECTS.get(tuple(missing), "it would start the job's number of tasks")
        context.problem(
            (*path, "command"),
            f"srun without {', '.join(missing)}: {effect}",
            f"write the command alone, with per: rank (on all {counted(ranks, 'rank')}) or "
            "per: node (once on every node); or add the options",
        )


def _has(words: tuple[Value, ...], names: tuple[str, ...]) -> bool:
    """Whether an option is among the words: -N2, -N 2, --nodes=2, --nodes 2."""
    long, *short = names
    return any(word == long or word.startswith((f"{long}=", *short)) for word in words[1:])


_SECONDS_AT_THE_END = 60  # for a step with `when: always`: the nodes are idle meanwhile
_SCRIPT = re.compile(r"[\w./][\w./-]{0,60}", re.ASCII)
_SECONDS_TO_END = 10  # between SIGTERM and SIGKILL
_SECONDS_TO_SAVE = 30  # of ranks, as Slurm's KillWait


def plan(context: Context) -> Steps:
    spec = context.spec
    check_steps(context)

    def planned(written: WrittenSteps, when: str = "success") -> tuple[Step, ...]:
        return tuple(_step(context, one) for one in written if one.when == when)

    after, sidecars = spec.after, planned(spec.sidecars)
    return Steps(
        (*_header(context), *planned(spec.before)),
        planned(after),
        planned(after, "always"),
        tuple(_beside(one) for one in sidecars),
        (_DESCRIBE,) if spec.header else (),
    )


_DESCRIBE = "describe_node.sh"


def _header(context: Context) -> Iterator[Step]:
    """What the nodes have, and the versions of the software that the ranks use."""
    packages = dict.fromkeys((*context.framework.packages, *context.spec.software.requires))
    if context.spec.header:
        words = ("bash", joined(JOB_DIR, "/", _DESCRIBE), *packages)
        inside = context.container is not None
        yield Step(words, "node", "nodes and versions", inside)


def _step(context: Context, written: WrittenStep) -> Step:
    spec, launch, container = context.spec, context.launch, context.container
    per_rank, always = written.per == "rank", written.when == "always"
    inside = container is not None and (
        per_rank if written.container is None else written.container
    )
    seconds = written.timeout_seconds or (_SECONDS_AT_THE_END if always else 0)
    # A command with a key of its own is run by a function of the script, with messages.
    is_plain = not (written.model_fields_set - {"command", "per"} or per_rank)
    launcher = LAUNCHERS["srun"] if written.launcher else launch.launcher
    return Step(
        (*_environment(spec, per_rank), *_timeout(written, spec), *written.command),
        written.per,
        "" if is_plain else written.name or _name(written.command),
        inside,
        launcher if per_rank else None,
        _options(launcher, launch, context.placement, container if inside else None)
        if per_rank
        else (),
        written.once,
        seconds,
        written.min_bus_bandwidth or 0,
        expanding(written.creates or ""),
    )


def _name(command: tuple[Value, ...]) -> Value:
    """The program; of an interpreter also its script: python3 prepare.py."""
    program = file_name(command[0])
    if program in shell.INTERPRETERS and len(command) > 1 and _SCRIPT.fullmatch(show(command[1])):
        return joined(program, " ", file_name(command[1]))
    return program


def _environment(spec: Experiment, per_rank: bool) -> tuple[Value, ...]:
    return node_environment(spec.env) if per_rank else ()


def _timeout(written: WrittenStep, spec: Experiment) -> tuple[str, ...]:
    """The `timeout` in front of the program itself: srun passes no SIGTERM on to its tasks."""
    if not written.timeout_seconds or written.when == "always":
        return ()
    kill_after = _SECONDS_TO_END
    if written.per == "rank":  # ranks that save are not killed meanwhile
        kill_after = max(spec.restarts.grace_seconds if spec.restarts else 0, _SECONDS_TO_SAVE)
    return ("timeout", f"--kill-after={kill_after}", str(written.timeout_seconds))


# ------------------------------------------------------------------ options of a step per rank


def _options(
    launcher: Launcher, launch: Launch, placement: Placement, inside: Container | None
) -> tuple[Directive, ...]:
    """The options of the training's srun; with another launcher, those for one task per rank."""
    mine = {one.name: one for one in launch.srun_options}
    if launcher is not launch.launcher:
        mine |= {one.name: one for one in _task_per_rank(placement)}
    return tuple(one for one in mine.values() if inside or "container-" not in one.name)


def _task_per_rank(placement: Placement) -> Iterator[Directive]:
    """A launcher of the job with one task per node has other numbers."""
    share = placement._replace(
        ntasks_per_node=placement.shape.ranks_per_node, cpus_per_task=placement.cpus_per_rank
    )
    yield from derived_srun_options(share)
    if placement.shares_cpus:
        yield Directive("overcommit", True, "a node has more ranks than CPUs")


def _beside(step: Step) -> Step:
    """The training starts while this step holds its CPUs and GPUs."""
    if step.per != "rank":
        return step
    options = [one for one in step.srun_options if one.name not in ("overlap", "exact")]
    return step._replace(srun_options=(*options, Directive("overlap", True, "beside the training")))


# ------------------------------------------------------------------ text
# The commands around the training.


def render(rendering: Rendering) -> dict[str, Any]:
    plan, steps = rendering.plan, rendering.plan.steps
    after = [
        *_nccl_step(plan),
        *(step_text(one, plan, number) for number, one in enumerate(steps.after)),
    ]
    sidecars = [
        *_nccl_step(plan, "watch", variable("slurm_job_id")),
        *(step_text(one, plan) for one in steps.sidecars),
    ]
    named = [one for one in (*steps.before, *steps.after) if one.name]
    return {
        "before": [step_text(one, plan, number) for number, one in enumerate(steps.before)],
        "sidecars": sidecars,
        "after": after,
        "always": [_last(one, plan) for one in steps.always],
        "has_after": bool(after),
        "has_background": bool(sidecars or plan.restarts or plan.roles),
        "has_functions": bool(named or steps.always),
        "has_named": bool(named),
        "decision": ShellText('"${decision:-stop}"' if plan.restarts else "stop"),
        "has_ranks": any(one.launcher for one in named),
        "has_limits": any(one.timeout_seconds for one in named),
        "has_once": any(one.once for one in named),
        "has_creates": any(one.creates for one in named),
        "has_bandwidth": any(one.min_bus_bandwidth for one in named),
        "has_always": bool(steps.always),
    }


def ends_its_steps(plan: Plan) -> bool:
    """Whether `finish` may have to end a step."""
    return any(one.name for one in (*plan.steps.before, *plan.steps.after))


def _last(step: Step, plan: Plan) -> dict[str, Any]:
    text, name = _text(step, plan), shell.quote(step.name)
    return {"name": name, "seconds": step.timeout_seconds, "text": text}


def _nccl_step(plan: Plan, *how: Value) -> list[dict[str, Any]]:
    """The command that reads NCCL's logs, if the preflight asks for it: at the end, or `how`."""
    preflight = plan.preflight
    if preflight is None or not preflight.reads_nccl:
        return []
    fabric = preflight.fabric
    words: list[Value] = [*how, preflight.nccl_logs, str(plan.placement.shape.world_size)]
    if fabric.provider != "efa":
        words += [fabric.title, fabric.network, *([fabric.provider] if fabric.provider else [])]
    text = command_text((variable("python"), "-BEsS", joined(JOB_DIR, "/nccl_log.py"), *words))
    return [{**step_text(Step(("true",)), plan), "text": text}]


def step_text(step: Step, plan: Plan, number: int = 0) -> dict[str, Any]:
    """The texts of a step for its template. `number`: of a step in its list, from 0."""
    within = plan if step.inside else plan._replace(container=None)
    launcher = step.launcher or plan.launch.launcher
    further = (*plan.launch.no_python, launcher.no_python_option)
    options = further if launcher is plan.launch.launcher else ()
    launch = plan.launch._replace(
        launcher=launcher,
        words=step.words,
        srun_options=step.srun_options,
        no_python=tuple(dict.fromkeys(filter(None, options))),
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
        "creates": shell.quote(step.creates),
        "min_bus_bandwidth": step.min_bus_bandwidth,
        "reports": plan.placement.all_nodes if step.per == "node" else 1,
        "command": command_text(step.words),
        "seconds": step.timeout_seconds,
        "options": _lines(_option_texts(step, plan)),
        "srun": ShellText(
            " \\\n    ".join(_lines([ShellText("srun"), *_option_texts(step, plan)]))
        ),
        "launch": launch_text(within._replace(launch=launch)),
    }


def _text(step: Step, plan: Plan) -> ShellText:
    """The command of a step that is neither of ranks nor inside a container."""
    if step.per != "node":
        return program_text(step.words)
    once = once_per_node(plan.placement.all_nodes)
    return ShellText(f"srun {once} {command_text(step.words)}")


def _option_texts(step: Step, plan: Plan) -> list[ShellText]:
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
