"""How a job is started again: what it is told before the time limit, and how often it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, Framework, Saving, Variable
from clusterjobs.launchers import Launcher
from clusterjobs.plan.directives import Directive
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment, Restarts

# Between the end of the grace and the time limit: for ranks that have to be ended, and the requeue.
_MARGIN_SECONDS = 60
# Slurm's signal may come that much earlier (sbatch(1), --signal), and the grace begins with it.
_EARLY_SECONDS = 60
# From the launch until a training that is told by the clock looks at its own for the first time:
# Megatron's is read when megatron/training.py is imported, behind torch and DeepSpeed.
_START_SECONDS = 120


class RestartPlan(NamedTuple):
    """The spec's `restarts` with what follows from them. All times in seconds.

    `clock_seconds`: how long before the limit a training that is told by the clock has to end.
    """

    budgets: Restarts
    signal_seconds: int
    clock_seconds: int
    saving: Saving


def resolve_restarts(
    experiment: Experiment,
    framework: Framework,
    launcher: Launcher,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> RestartPlan | None:
    """None where the spec says nothing of restarts."""
    _check_marker(experiment, diagnostics)
    restarts = experiment.restarts
    if restarts is None:
        return None
    saving = framework.saving
    signal_seconds = restarts.grace_seconds + _MARGIN_SECONDS
    earliest = signal_seconds + _EARLY_SECONDS
    clock_seconds = earliest + _START_SECONDS
    by_clock = saving.stop_channel == "clock"
    _check_checkpoints(experiment, diagnostics)
    # By the clock it is told in whole minutes, of which one at least has to be left.
    _check_time_limit(
        experiment, restarts, clock_seconds + 60 if by_clock else earliest, diagnostics
    )
    _check_signal(restarts, framework, launcher, diagnostics)
    provenance.record(
        "told to save",
        {"file": "by a file", "clock": "by the clock", "never": "never"}[saving.stop_channel],
        saving.reason,
    )
    provenance.record(
        "signal",
        f"USR1, {signal_seconds} s before the limit",
        f"grace_seconds, and {_MARGIN_SECONDS} s to end what does not hear it and to requeue",
        "Slurm: sbatch(1) --signal, up to 60 s early",
    )
    if by_clock:
        provenance.record(
            "exit duration",
            f"the whole minutes until {clock_seconds} s before the limit",
            f"the signal's {signal_seconds} s, {_EARLY_SECONDS} s that it may be early, and "
            f"{_START_SECONDS} s to start: grace_seconds are left before TERM",
        )
    return RestartPlan(restarts, signal_seconds, clock_seconds, saving)


def restart_directives(plan: RestartPlan | None) -> Iterator[Directive]:
    """What Slurm has to be asked for."""
    if plan is not None:
        yield Directive(
            "signal", f"B:USR1@{plan.signal_seconds}", "restarts: the script hears of the limit"
        )


def restart_variables(plan: RestartPlan | None) -> Iterator[Variable]:
    """What the ranks have to be told."""
    if plan is not None and plan.saving.stop_channel == "file":
        yield Variable(
            "CLUSTERJOBS_STOP_FILE",
            f"{JOB_DIR}/stop",
            "once this file is there: save a checkpoint and end",
        )


def _check_marker(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """It is looked for in the checkpoints' folder."""
    checkpoints = experiment.checkpoints
    if checkpoints and checkpoints.marker and checkpoints.marker.startswith("/"):
        diagnostics.problem(
            ("checkpoints", "marker"),
            "the marker is a file in the folder of the checkpoints",
            "its name alone, such as `marker: latest`",
        )


def _check_checkpoints(experiment: Experiment, diagnostics: Diagnostics) -> None:
    if experiment.checkpoints is None:
        diagnostics.problem(
            ("restarts",),
            "restarts without checkpoints would start from nothing each time",
            'add `checkpoints: {path: "/fsx/checkpoints/{{ name }}"}`, where the training saves',
        )


def _check_time_limit(
    experiment: Experiment, restarts: Restarts, told_seconds: int, diagnostics: Diagnostics
) -> None:
    limit = experiment.time_limit and seconds_of(experiment.time_limit)
    if restarts.time_limit and not limit:
        diagnostics.problem(
            ("restarts", "time_limit"),
            "restarts after a time limit, and no time_limit that is known here",
            "add `time_limit: 1-00:00:00`",
        )
    elif limit and limit <= told_seconds:
        diagnostics.problem(
            ("restarts", "grace_seconds"),
            f"the ranks may be told {told_seconds} s before the end of a time_limit of {limit} s",
            "a longer time_limit, or less grace",
        )


def _check_signal(
    restarts: Restarts, framework: Framework, launcher: Launcher, diagnostics: Diagnostics
) -> None:
    if restarts.signal is None:
        return
    if framework.saving.stop_channel != "file":
        diagnostics.problem(
            ("restarts", "signal"),
            f"{framework.name} does not save when it hears a signal",
            f"remove it: {framework.saving.reason}",
        )
    elif not launcher.forwards_signals:
        diagnostics.problem(
            ("restarts", "signal"),
            f"{restarts.signal} would reach {launcher.name} too, and end it before the ranks save",
            "look for the file that CLUSTERJOBS_STOP_FILE names, or launcher: srun",
        )


def seconds_of(time_limit: str) -> int | None:
    """Slurm's time as seconds; None where it is no limit.

    Source: sbatch(1), --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
    days-hours:minutes, days-hours:minutes:seconds.
    """
    if time_limit in ("UNLIMITED", "INFINITE"):
        return None
    days, dash, rest = time_limit.rpartition("-")
    numbers = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)
