"""The commands that run before, after and in parallel to the training."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.forced import node_environment
from clusterjobs.sections.files.plan import INTERPRETERS
from clusterjobs.sections.job.directives import derived_srun_options
from clusterjobs.sections.plan import Container, Launch, Placement, Step, Steps
from clusterjobs.sections.steps.checks import check_steps
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.steps import Step as WrittenStep
from clusterjobs.spec.keys.steps import Steps as WrittenSteps
from clusterjobs.text import Value, file_name, joined, show

_SECONDS_AT_THE_END = 60  # for a step with `when: always`: the nodes are idle meanwhile
_SCRIPT = re.compile(r"[\w./][\w./-]{0,60}", re.ASCII)
_SECONDS_TO_END = 30  # between SIGTERM and SIGKILL, as Slurm's KillWait


def plan(context: Context) -> Steps:
    """The section `steps`."""
    spec = context.spec
    check_steps(context)

    def planned(written: WrittenSteps, when: str = "success") -> tuple[Step, ...]:
        return tuple(_step(context, one) for one in written if one.when == when)

    after, sidecars = spec.after, planned(spec.sidecars)
    return Steps(
        planned(spec.before),
        planned(after),
        planned(after, "always"),
        tuple(_beside(one) for one in sidecars),
    )


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
    )


def _name(command: tuple[Value, ...]) -> Value:
    """The program; of an interpreter also its script: python3 prepare.py."""
    program = file_name(command[0])
    if program in INTERPRETERS and len(command) > 1 and _SCRIPT.fullmatch(show(command[1])):
        return joined(program, " ", file_name(command[1]))
    return program


def _environment(spec: Experiment, per_rank: bool) -> tuple[Value, ...]:
    return node_environment(spec.env) if per_rank else ()


def _timeout(written: WrittenStep, spec: Experiment) -> tuple[str, ...]:
    """In front of the program itself, since srun does not pass a SIGTERM on to its tasks."""
    if not written.timeout_seconds or written.when == "always":
        return ()
    grace = spec.restarts.grace_seconds if spec.restarts else 0
    kill_after = max(grace, _SECONDS_TO_END)  # ranks that save are not killed meanwhile
    return ("timeout", f"--kill-after={kill_after}", str(written.timeout_seconds))


# ------------------------------------------------------------------ options of a step per rank


def _options(
    launcher: Launcher, launch: Launch, placement: Placement, inside: Container | None
) -> tuple[Directive, ...]:
    """Those of the training's srun; with another launcher, for one task per rank."""
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
