"""Restarts by the cluster itself: `srun --auto-resume=1` of SageMaker HyperPod.

After a failure HyperPod checks the nodes, replaces bad ones, and starts the step again. If the job
has GPUs by GRES, it requeues the job: Slurm cannot replace nodes of such an allocation.
Source: AWS, SageMaker HyperPod: automatic node recovery and auto-resume.
"""

from __future__ import annotations

from clusterjobs.sections.context import Context
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.keys.restarts import Restarts

AUTO_RESUME = Directive("auto-resume", 1, "HyperPod restarts the ranks on healthy nodes")


def is_resumed_by_the_cluster(context: Context) -> bool:
    """Whether the cluster restarts the ranks; `srun: {auto-resume: false}` leaves it to the job."""
    spec, launcher = context.spec, context.launcher
    wants = spec.srun.get("auto-resume", context.facts.auto_resume)
    by_srun = launcher.calls_srun and not (launcher.over_ssh and spec.software.container)
    return by_srun and wants not in (False, "0")


def without_what_the_cluster_restarts(context: Context, written: Restarts) -> Restarts:
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
