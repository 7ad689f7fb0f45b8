"""How often a job restarts, and how its ranks are asked to save before the time limit."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.base import JOB_DIR, Framework, Saving, Variable
from clusterjobs.launchers import Launcher
from clusterjobs.sections.restarts.auto_resume import without_what_the_cluster_restarts
from clusterjobs.slurm.options import Directive
from clusterjobs.slurm.time import seconds_of
from clusterjobs.spec import experiment as spec

# Between the end of the grace period and the time limit: to stop the ranks, and to requeue.
_MARGIN_SECONDS = 60
# Slurm may send its signal that much earlier (sbatch(1), --signal); the grace period starts then.
_EARLY_SECONDS = 60
# From the launch until a training with the stop channel "clock" starts its own clock: Megatron does
# so when megatron/training.py is imported, after torch and DeepSpeed.
_START_SECONDS = 120


_STOP_FILE = Variable(
    "CLUSTERJOBS_STOP_FILE",
    f"{JOB_DIR}/stop",
    "once this file is there: save a checkpoint and end",
)
_HEARTBEAT = Variable(
    "CLUSTERJOBS_HEARTBEAT",
    f"{JOB_DIR}/heartbeat",
    "touch this file while a long step makes progress",
)


class Restarts(NamedTuple):
    """How often the job restarts for each reason, and when the ranks are asked to save.

    All times in seconds. `stall_seconds`: without progress, until ranks are stopped; None: they are
    not. `clock_seconds`: how long before the time limit a training with the stop
    channel "clock" must end. `signal`: the signal for the ranks, if the spec has one.
    `auto_resume`: the cluster restarts the ranks after a failure, and the script does not.
    """

    time_limit: int
    failure: int
    node_failure: int
    stalled: int
    stall_seconds: int | None
    grace_seconds: int
    signal_seconds: int
    clock_seconds: int
    saving: Saving
    signal: str | None
    auto_resume: bool = False

    @property
    def directives(self) -> tuple[Directive, ...]:
        """The directives that it needs."""
        value = f"B:USR1@{self.signal_seconds}"
        return (
            Directive("signal", value, "restarts: a signal to the script before the time limit"),
        )

    @property
    def environment(self) -> tuple[Variable, ...]:
        """The variables that the ranks need."""
        return (
            *([_STOP_FILE] if self.saving.stop_channel == "file" else []),
            *([_HEARTBEAT] if self.stall_seconds else []),
        )


def plan_restarts(
    wanted: spec.Restarts | None,
    checkpoints: spec.Checkpoints | None,
    time_limit: str | None,
    framework: Framework,
    launcher: Launcher,
    per_node: int,
    auto_resume: bool,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Restarts | None:
    """The section `restarts`; None without one.

    `per_node`: points of a sweep on one node. `auto_resume`: the cluster restarts the ranks' step.
    """
    if wanted is None:
        return None
    saving = framework.saving
    signal_seconds = wanted.grace_seconds + _MARGIN_SECONDS
    earliest = signal_seconds + _EARLY_SECONDS
    clock_seconds = earliest + _START_SECONDS
    # The clock counts whole minutes, and at least one must remain.
    asked_seconds = clock_seconds + 60 if saving.stop_channel == "clock" else earliest
    _check_checkpoints(checkpoints, diagnostics)
    _check_time_limit(time_limit, wanted.time_limit, asked_seconds, diagnostics)
    _check_signal(wanted.signal, framework, launcher, diagnostics)
    if "stalled" in wanted.model_fields_set and wanted.stall_seconds is None:
        diagnostics.problem(
            ("restarts", "stalled"),
            "restarts.stalled needs stall_seconds: without it no attempt counts as stalled",
            "add `stall_seconds: 1800`",
        )
    if auto_resume:
        wanted = without_what_the_cluster_restarts(wanted, diagnostics, provenance)
    _record_budgets(wanted, provenance)
    if per_node == 1 and not auto_resume:
        _record_watchdog(wanted.stall_seconds, provenance)
    _record(saving, wanted.signal, signal_seconds, clock_seconds, provenance)
    return Restarts(
        wanted.time_limit,
        wanted.failure,
        wanted.node_failure,
        wanted.stalled,
        wanted.stall_seconds,
        wanted.grace_seconds,
        signal_seconds,
        clock_seconds,
        saving,
        wanted.signal,
        auto_resume,
    )


def _record_budgets(wanted: spec.Restarts, provenance: Provenance) -> None:
    budgets = {name: getattr(wanted, name) for name in ("time_limit", "failure", "node_failure")}
    if wanted.stall_seconds:
        budgets["stalled"] = wanted.stalled
    provenance.record(
        "restarts",
        ", ".join(f"{name} {budget}" for name, budget in budgets.items()),
        "the spec, and defaults; each reason has its own budget",
    )


def _record_watchdog(stall_seconds: int | None, provenance: Provenance) -> None:
    provenance.record(
        "watchdog",
        f"ranks without progress for {stall_seconds} s, and ranks that are gone"
        if stall_seconds
        else "ranks that are gone",
        "restarts.stall_seconds: how long ranks may make no progress; without it, for ever",
    )


def _record(
    saving: Saving,
    signal: str | None,
    signal_seconds: int,
    clock_seconds: int,
    provenance: Provenance,
) -> None:
    channel = {"file": "by a file", "clock": "by the clock", "never": "never"}[saving.stop_channel]
    provenance.record(
        "asked to save",
        f"{channel} and SIG{signal}" if signal else channel,
        saving.reason,
    )
    provenance.record(
        "signal",
        f"USR1, {signal_seconds} s before the limit",
        f"grace_seconds, and {_MARGIN_SECONDS} s to end ranks that ignore it, and to requeue",
        "Slurm: sbatch(1) --signal, up to 60 s early",
    )
    if saving.stop_channel == "clock":
        provenance.record(
            "exit duration",
            f"the whole minutes until {clock_seconds} s before the limit",
            f"the signal's {signal_seconds} s, {_EARLY_SECONDS} s that it may be early, and "
            f"{_START_SECONDS} s to start: grace_seconds are left before TERM",
        )


def _check_checkpoints(checkpoints: spec.Checkpoints | None, diagnostics: Diagnostics) -> None:
    if checkpoints is None:
        diagnostics.problem(
            ("restarts",),
            "restarts without checkpoints would start from nothing each time",
            'add `checkpoints: {path: "/fsx/checkpoints/{{ name }}"}`, where the training saves',
        )


def _check_time_limit(
    time_limit: str | None, budget: int, asked_seconds: int, diagnostics: Diagnostics
) -> None:
    limit = time_limit and seconds_of(time_limit)
    if budget and not limit:
        diagnostics.problem(
            ("restarts", "time_limit"),
            "restarts.time_limit needs a time_limit that is known when the job is rendered",
            "add `time_limit: 1-00:00:00`",
        )
    elif limit and limit <= asked_seconds:
        diagnostics.problem(
            ("restarts", "grace_seconds"),
            f"the ranks may be asked to save {asked_seconds} s before the end of a time_limit of "
            f"{limit} s",
            "a longer time_limit, or less grace",
        )


def _check_signal(
    signal: str | None, framework: Framework, launcher: Launcher, diagnostics: Diagnostics
) -> None:
    if signal is None:
        return
    if framework.saving.stop_channel != "file":
        diagnostics.problem(
            ("restarts", "signal"),
            f"{framework.name} does not save on a signal",
            f"remove it: {framework.saving.reason}",
        )
    elif not launcher.forwards_signals:
        diagnostics.problem(
            ("restarts", "signal"),
            f"{signal} would reach {launcher.name} too, and end it before the ranks save",
            "look for the file that CLUSTERJOBS_STOP_FILE names, or launcher: srun",
        )
