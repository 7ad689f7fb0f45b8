"""How often a job restarts, and how its ranks are asked to save before the time limit."""

from typing import Any

from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.plan import Restarts
from clusterjobs.slurm.options import Directive, seconds_of
from clusterjobs.spec.keys.staging import Restarts as WrittenRestarts
from clusterjobs.spec.known_references import TRAINING_NODES

# ------------------------------------------------------------------ auto resume
# Restarts by the cluster itself: `srun --auto-resume=1` of SageMaker HyperPod.
# After a failure HyperPod checks the nodes, replaces bad ones, and starts the step again. If the
# job has GPUs by GRES, it requeues the job: Slurm cannot replace nodes of such an allocation.
# Source: AWS, SageMaker HyperPod: automatic node recovery and auto-resume.


AUTO_RESUME = Directive("auto-resume", 1, "HyperPod restarts the ranks on healthy nodes")


def is_resumed_by_the_cluster(context: Context) -> bool:
    """Whether the cluster restarts the ranks; `srun: {auto-resume: false}` leaves it to the job."""
    spec, launcher = context.spec, context.launcher
    wants = spec.srun.get("auto-resume", context.facts.auto_resume)
    by_srun = launcher.calls_srun and not (launcher.over_ssh and spec.software.container)
    return by_srun and wants not in (False, "0")


def without_what_the_cluster_restarts(
    context: Context, written: WrittenRestarts
) -> WrittenRestarts:
    """No failure is answered twice: HyperPod restarts, and the script only counts its requeues.

    `time_limit` stays with the script, which HyperPod does not restart after it.
    """
    what = {
        "failure": "the job would restart twice",
        "stalled": "the job would restart twice",
        "stall_seconds": "the watchdog would stop ranks that HyperPod is restarting",
    }
    for key, consequence in what.items():
        if key in written.model_fields_set and getattr(written, key):
            context.problem(
                ("restarts", key),
                "not used: HyperPod restarts the ranks after a failure (srun --auto-resume=1), and "
                f"{consequence}",
                f"remove {key}; or srun: {{auto-resume: false}}, and the job restarts by itself",
                warning=True,
            )
    context.record(
        "auto-resume",
        "srun --auto-resume=1",
        "HyperPod restarts the ranks after a failure; node_failure limits its requeues",
        "AWS: SageMaker HyperPod auto-resume",
    )
    return written.model_copy(update={"failure": 0, "stalled": 0, "stall_seconds": None})


# Between the end of the grace period and the time limit: to stop the ranks, and to requeue.
_MARGIN_SECONDS = 60
# Slurm may send its signal that much earlier (sbatch(1), --signal); the grace period starts then.
_EARLY_SECONDS = 60
# From the launch until a training with the stop channel "clock" starts its own clock: Megatron does
# so when megatron/training.py is imported, after torch and DeepSpeed.
_START_SECONDS = 120


def plan(context: Context) -> Restarts | None:
    written = context.spec.restarts
    if written is None:
        return None
    saving = context.framework.saving
    signal_seconds = written.grace_seconds + _MARGIN_SECONDS
    earliest = signal_seconds + _EARLY_SECONDS
    clock_seconds = earliest + _START_SECONDS
    # The clock counts whole minutes, and at least one must remain.
    asked_seconds = clock_seconds + 60 if saving.stop_channel == "clock" else earliest
    _check_checkpoints(context)
    _check_time_limit(context, written.time_limit, asked_seconds)
    _check_signal(context, written.signal)
    if "stalled" in written.model_fields_set and written.stall_seconds is None:
        context.problem(
            ("restarts", "stalled"),
            "restarts.stalled needs stall_seconds: without it no attempt counts as stalled",
            "add `stall_seconds: 1800`",
        )
    auto_resume = is_resumed_by_the_cluster(context)
    if auto_resume:
        written = without_what_the_cluster_restarts(context, written)
    restarts = Restarts(
        written.time_limit,
        written.failure,
        written.node_failure,
        written.stalled,
        written.stall_seconds,
        written.grace_seconds,
        signal_seconds,
        clock_seconds,
        saving,
        written.signal,
        auto_resume,
    )
    _record_budgets(context, written)
    if context.placement.per_node == 1 and not auto_resume:
        _record_watchdog(context, written.stall_seconds)
    _record(context, restarts)
    return restarts


def _record_budgets(context: Context, written: WrittenRestarts) -> None:
    budgets = {name: getattr(written, name) for name in ("time_limit", "failure", "node_failure")}
    if written.stall_seconds:
        budgets["stalled"] = written.stalled
    context.record(
        "restarts",
        ", ".join(f"{name} {budget}" for name, budget in budgets.items()),
        "the spec, and defaults; each reason has its own budget",
    )


def _record_watchdog(context: Context, stall_seconds: int | None) -> None:
    context.record(
        "watchdog",
        f"ranks without progress for {stall_seconds} s, and ranks that are gone"
        if stall_seconds
        else "ranks that are gone",
        "restarts.stall_seconds: how long ranks may make no progress; without it, for ever",
    )


def _record(context: Context, restarts: Restarts) -> None:
    saving, signal = restarts.saving, restarts.signal
    channel = {"file": "by a file", "clock": "by the clock", "never": "never"}[saving.stop_channel]
    context.record(
        "asked to save",
        f"{channel} and SIG{signal}" if signal else channel,
        saving.reason,
    )
    context.record(
        "signal",
        f"USR1, {restarts.signal_seconds} s before the limit",
        f"grace_seconds, and {_MARGIN_SECONDS} s to end ranks that ignore it, and to requeue",
        "Slurm: sbatch(1) --signal, up to 60 s early",
    )
    if saving.stop_channel == "clock":
        context.record(
            "exit duration",
            f"the whole minutes until {restarts.clock_seconds} s before the limit",
            f"the signal's {restarts.signal_seconds} s, {_EARLY_SECONDS} s that it may be early, "
            f"and {_START_SECONDS} s to start: grace_seconds are left before TERM",
        )


def _check_checkpoints(context: Context) -> None:
    if context.spec.checkpoints is None:
        context.problem(
            ("restarts",),
            "restarts without checkpoints would start from nothing each time",
            'add `checkpoints: {path: "/fsx/checkpoints/{{ name }}"}`, where the training saves',
        )


def _check_time_limit(context: Context, budget: int, asked_seconds: int) -> None:
    time_limit = context.spec.time_limit
    limit = time_limit and seconds_of(time_limit)
    if budget and not limit:
        context.problem(
            ("restarts", "time_limit"),
            "restarts.time_limit needs a time_limit that is known when the job is rendered",
            "add `time_limit: 1-00:00:00`",
        )
    elif limit and limit <= asked_seconds:
        hint = f"a time_limit of at least {asked_seconds // 60 + 1} (minutes)"
        assert context.spec.restarts
        most = limit - 1 - (asked_seconds - context.spec.restarts.grace_seconds)
        context.problem(
            ("restarts", "grace_seconds"),
            f"the ranks may be asked to save {asked_seconds} s before the end of a time_limit of "
            f"{limit} s",
            f"{hint}, or grace_seconds: {most}"
            if most > 0
            else f"{hint}: no grace is short enough",
        )


def _check_signal(context: Context, signal: str | None) -> None:
    framework = context.framework
    if signal is None:
        return
    if framework.saving.stop_channel != "file":
        context.problem(
            ("restarts", "signal"),
            f"{framework.name} does not save on a signal",
            f"remove it: {framework.saving.reason}",
        )
    elif not context.launcher.forwards_signals:
        context.problem(
            ("restarts", "signal"),
            f"{signal} would reach {context.launcher.name} too, and end it before the ranks save",
            "look for the file that CLUSTERJOBS_STOP_FILE names, or launcher: srun",
        )


# ------------------------------------------------------------------ text
# Budgets, and how the ranks are asked to save.


def render(rendering: Rendering) -> dict[str, Any] | None:
    plan = rendering.plan
    restarts = plan.restarts
    if restarts is None:
        return None
    return {
        "time_limit": restarts.time_limit,
        "failure": restarts.failure,
        "node_failure": restarts.node_failure,
        "stalled": restarts.stalled,
        "nodelist_option": ShellText(f' --nodelist="${TRAINING_NODES}"' if plan.roles else ""),
        "stall_option": ShellText(
            f" --stall-seconds={restarts.stall_seconds}" if restarts.stall_seconds else ""
        ),
        "grace_seconds": restarts.grace_seconds,
        "signal_seconds": restarts.signal_seconds,
        "clock_seconds": restarts.clock_seconds,
        "by_file": restarts.saving.stop_channel == "file",
        "by_clock": restarts.saving.stop_channel == "clock",
        "has_signal": restarts.signal is not None,
        "signal": ShellText(restarts.signal or ""),
    }
