"""The job as Slurm and people see it: its name, directives, folders and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import Variable, folder_on_the_node
from clusterjobs.sections.environment.checks import is_unset
from clusterjobs.sections.job.directives import sbatch_directives
from clusterjobs.sections.placement.plan import Placement
from clusterjobs.sections.points.plan import SweepJob, job_folder
from clusterjobs.slurm.options import Directive
from clusterjobs.spec import experiment as spec
from clusterjobs.spec.experiment import Experiment, Logs
from clusterjobs.spec.references import has_variable, variable, variable_names

# ------------------------------------------------------------------ parameters
#
# Parameters: values that can be changed when the job is submitted.


# Type -> its description, and its pattern as a regular expression of Python and of bash.
_KINDS = {
    "integer": ("an integer", "^[-+]?[0-9]+$"),
    "number": ("a number", r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"),
    "text": ("a text", ""),
}


class Parameter(NamedTuple):
    """A value must match `pattern` ("" matches anything) and be one of `choices`, if there are any.

    `wanted` describes this for messages: "an integer", "one of a, b".
    """

    name: str
    default: str
    pattern: str
    choices: tuple[str, ...]
    wanted: str


def plan_parameters(
    parameters: Mapping[str, spec.Parameter], env: Mapping[str, str], diagnostics: Diagnostics
) -> tuple[Parameter, ...]:
    """The spec's parameters. Their names must differ from the variables in `env`."""
    for name, one in parameters.items():
        _check(name, one, env, diagnostics)
    return tuple(_parameter(name, one) for name, one in parameters.items())


def variables_of_parameters(
    parameters: Mapping[str, spec.Parameter], env: Mapping[str, str]
) -> tuple[Variable, ...]:
    """The parameters that the ranks also get as environment variables."""
    return tuple(
        Variable(name, variable(name), "the parameter")
        for name, one in parameters.items()
        if one.env and name not in env
    )


def _parameter(name: str, parameter: spec.Parameter) -> Parameter:
    what, pattern = _KINDS[_kind(parameter)]
    choices = parameter.choices
    wanted = f"one of {', '.join(choices)}" if choices else what
    return Parameter(name, parameter.default, pattern, choices, wanted)


def _kind(parameter: spec.Parameter) -> str:
    """The declared type, else the type of the default."""
    if parameter.type or parameter.choices:
        return parameter.type or "text"
    return next(kind for kind in _KINDS if _is_of_kind(parameter.default, kind))


def _is_of_kind(text: str, kind: str) -> bool:
    pattern = _KINDS[kind][1]
    return not pattern or re.fullmatch(pattern, text) is not None


def _check(
    name: str, parameter: spec.Parameter, env: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    """Check that the default is one of the choices, and of the declared type."""
    path, default = ("parameters", name), parameter.default
    if has_variable(default):
        diagnostics.problem(
            (*path, "default"), "a default cannot be another parameter", "write it out"
        )
    elif is_unset(name):
        diagnostics.problem(
            path,
            f"{name} never arrives: the job unsets it first",
            "choose another name, or set it under env:",
        )
    elif name in env and env[name] != variable(name):
        diagnostics.problem(path, f"{name} is set by env: too", "choose another name for one")
    elif parameter.choices and default not in parameter.choices:
        known = ", ".join(parameter.choices)
        diagnostics.problem(path, f"the default {default!r} is not a choice: {known}")
    elif not _is_of_kind(default, _kind(parameter)):
        diagnostics.problem(
            path,
            f"the default {default!r} is not of type {parameter.type}",
            "change one of the two",
        )


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
