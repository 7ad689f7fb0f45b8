"""The job as Slurm and people see it: its name, directives, folders and parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.plan.directives import Directive, sbatch_directives
from clusterjobs.plan.parameters import Parameter
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.sweep import SweepJob, job_folder
from clusterjobs.spec.experiment import Experiment, Logs
from clusterjobs.spec.references import variable_names


class Job(NamedTuple):
    """`title`: "2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun".

    `path`: folders of commands that the script needs, whatever PATH the caller has. `folder`: the
    job's own folder. `log_copy`: a file that also gets the lines of job.log. `workdir`: where the
    ranks run; None: where sbatch was called.
    """

    name: str
    cluster: str
    framework: str
    title: str
    directives: tuple[Directive, ...]
    path: tuple[str, ...]
    folder: str
    log_copy: str | None
    workdir: str | None
    parameters: tuple[Parameter, ...]
    time_limit: str | None


def plan_job(
    experiment: Experiment,
    cluster: ClusterFacts,
    launcher: str,
    placement: Placement,
    parameters: tuple[Parameter, ...],
    sweep: SweepJob | None,
    further: Iterable[Directive],
    diagnostics: Diagnostics,
) -> Job:
    """The section `job`. `further`: directives that other sections need."""
    _check_logs(experiment.logs, diagnostics)
    return Job(
        experiment.name,
        cluster.name,
        experiment.framework,
        _title(placement, experiment, launcher),
        sbatch_directives(experiment, placement, cluster, further, diagnostics),
        (*filter(None, [cluster.slurm_commands]), "/usr/bin", "/bin"),
        job_folder(experiment, sweep),
        folder_on_the_node(experiment.logs.copy_) if experiment.logs.copy_ else None,
        folder_on_the_node(experiment.workdir) if experiment.workdir else None,
        parameters,
        experiment.time_limit,
    )


def _check_logs(logs: Logs, diagnostics: Diagnostics) -> None:
    if "job_dir" in variable_names(logs.copy_ or ""):
        diagnostics.problem(
            ("logs", "copy"),
            "the job's folder has its log already: job.log",
            "remove it, or write a file elsewhere: /fsx/logs/all.log",
        )
    if {"job_dir", "attempt"}.intersection(variable_names(logs.path)):
        diagnostics.problem(
            ("logs", "path"),
            "all attempts of a job share one folder, which is made below this path",
            "of the job's values, only {{ job.id }} and {{ job.array_index }} are known before it",
        )


def _title(placement: Placement, experiment: Experiment, launcher: str) -> str:
    shape, node_type = placement.shape, placement.node_type.name
    gpus, ranks = counted(shape.gpus_per_node, "GPU"), counted(shape.ranks_per_node, "rank")
    each = gpus if shape.gpus_per_node else ranks
    if placement.per_node > 1:
        each = f"{placement.per_node} points x {each}"
    node = f" ({node_type})" if node_type else ""
    nodes, framework = f"{counted(shape.nodes, 'node')} x {each}{node}", experiment.framework
    if experiment.roles:
        nodes += f" + {counted(placement.role_nodes, 'node')} for {', '.join(experiment.roles)}"
    starter = "its own launcher" if launcher == framework else launcher
    return f"{nodes}, {framework} started by {starter}"
