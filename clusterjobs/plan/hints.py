"""`--hint` of sbatch and srun: which CPUs Slurm binds the ranks to.

srun ignores the hint silently beside an option that binds CPUs or names a number of threads, so the
derived `--cpu-bind=none` is left out. Source: Slurm, validate_hint_option() in
src/common/slurm_opt.c; srun(1), --hint.
"""

from __future__ import annotations

from clusterjobs.cluster.facts import NodeType, Partition, Terms
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.launchers.base import Launcher
from clusterjobs.spec.experiment import Experiment

HINT = "hint"
_VALUES = ("compute_bound", "memory_bound", "multithread", "nomultithread")
_EXCLUDED = ("cpu-bind", "threads-per-core", "ntasks-per-core", "extra-node-info")


def hint_of(experiment: Experiment) -> str | None:
    """The hint for the ranks: srun takes sbatch's."""
    found = experiment.srun.get(HINT, experiment.sbatch.get(HINT))
    return found if isinstance(found, str) else None


def with_usable_cpus(partition: Partition, hint: str | None) -> Partition:
    """The partition with the CPUs that jobs may use: with `nomultithread`, a thread of each core.

    Slurm then counts cores, if it knows their threads, and refuses a job that asks for all CPUs.
    """
    if hint != "nomultithread":
        return partition
    groups = (
        one._replace(node_type=_one_thread_per_core(one.node_type)) for one in partition.node_groups
    )
    return partition._replace(node_groups=tuple(groups))


def _one_thread_per_core(node_type: NodeType) -> NodeType:
    if not node_type.cpus or not node_type.threads_per_core:
        return node_type
    return node_type._replace(cpus=node_type.cpus // node_type.threads_per_core)


def check_hint(
    experiment: Experiment,
    launcher: Launcher,
    node_type: NodeType,
    terms: Terms,
    diagnostics: Diagnostics,
) -> None:
    """Refuse hints that have no effect, and warn where the nodes have no threads to leave idle."""
    hint = hint_of(experiment)
    if hint is None:
        return
    key = "srun" if HINT in experiment.srun else "sbatch"
    if hint not in _VALUES:
        what = f"Slurm knows no hint {hint!r}"
        diagnostics.problem((key, HINT), what, did_you_mean(hint, _VALUES))
        return
    if experiment.sbatch.get(HINT, hint) != hint:
        what = f"sbatch has another hint: {experiment.sbatch[HINT]}"
        diagnostics.problem((key, HINT), what, "write one of them, under sbatch")
    for program in ("sbatch", "srun"):
        for name in _EXCLUDED:
            if name in getattr(experiment, program):
                what = f"Slurm ignores --hint beside --{name}"
                where = diagnostics.describe_key((key, HINT))
                diagnostics.problem((program, name), what, f"remove one of them: {where}")
    if not launcher.calls_srun:
        what = f"has no effect on the ranks: {launcher.name} starts its own steps"
        diagnostics.problem((key, HINT), what, "remove it", warning=True)
    elif hint == "nomultithread" and terms.one_thread_per_core and not node_type.cpus_are_cores:
        diagnostics.problem(
            (key, HINT),
            "on these nodes, Slurm counts each thread as a core: ranks are bound to their CPUs, "
            "but no thread stays idle, and cpus_per_task counts threads",
            terms.one_thread_per_core,
            warning=True,
        )
