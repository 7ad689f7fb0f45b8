"""The sbatch directives, in the order in which people read them, and srun's options."""

import functools
import re
from collections.abc import Iterator, Mapping

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.sections.context import Context
from clusterjobs.sections.job.checks import check_sbatch, check_srun
from clusterjobs.sections.placement.gpu_requests import GPU_REQUESTS, HINT, hint_of, is_gpu_request
from clusterjobs.sections.plan import Placement
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import gpu_type
from clusterjobs.spec.known_references import TRAINING_NODES
from clusterjobs.spec.model import known_keys
from clusterjobs.text import show, variable, variable_names, without_slash

# ------------------------------------------------------------------ arrays
# Job arrays: `sbatch: {array: 0-99%10}` runs one command once for each index.
# Source: sbatch(1), --array; slurm.conf(5), MaxArraySize.


_RANGE = r"\d{1,7}(?:-\d{1,7}(?::[1-9]\d{0,6})?)?"
_ARRAY = re.compile(rf"({_RANGE}(?:,{_RANGE})*)(?:%\d{{1,7}})?", re.ASCII)
_DEFAULT_MAX_ARRAY_SIZE = 1001  # one more than the largest index
_PATH = ("sbatch", "array")
_OF_ONE_TASK = {"SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "job_dir"}


def is_array(spec: Experiment) -> bool:
    """Whether the spec is an array of jobs."""
    return "array" in spec.sbatch


def check_array(context: Context) -> None:
    """The indexes, and what tasks must not share."""
    spec = context.spec
    if not is_array(spec):
        return
    if spec.sweep is not None:
        hint = "remove it: sweep.max_running limits how many run at a time"
        context.problem(_PATH, "a sweep already runs its points as a job array", hint)
        return
    text = str(spec.sbatch["array"])
    match = _ARRAY.fullmatch(text)
    if match is None or any(first > last for first, last in _ranges(match[1])):
        hint = "write 0-99, 0-99%10 (at most ten at a time), 1,5,7 or 0-100:10"
        context.problem(_PATH, f"{text!r} is not a list of indexes", hint)
    elif (highest := max(last for _, last in _ranges(match[1]))) >= _DEFAULT_MAX_ARRAY_SIZE:
        context.problem(
            _PATH,
            f"{highest} is more than the highest index of a Slurm with its default settings, 1000",
            "use several arrays, or let an administrator raise MaxArraySize",
            warning=True,
        )
    if spec.framework != "command":
        context.problem(
            _PATH,
            "an array runs the same command once for each index: a training would run unchanged",
            "write it as framework: command, with {{ job.array_index }}",
        )
    _check_checkpoints(context)


def _ranges(text: str) -> list[tuple[int, int]]:
    """First and last index of each range."""
    bounds = [part.partition(":")[0].partition("-") for part in text.split(",")]
    return [(int(first), int(last or first)) for first, _, last in bounds]


def _check_checkpoints(context: Context) -> None:
    spec = context.spec
    if spec.checkpoints is None:
        return
    if not _OF_ONE_TASK.intersection(variable_names(spec.checkpoints.path)):
        path = show(without_slash(spec.checkpoints.path))
        context.problem(
            ("checkpoints", "path"),
            "all tasks of the array would write into this folder",
            f"{path}/{{{{ job.array_index }}}}",
        )


def sbatch_directives(context: Context) -> tuple[Directive, ...]:
    """The directives: derived ones, then the spec's own, which may replace a default."""
    spec = context.spec
    derived = [*_derived(spec, context.placement, context.facts)]
    derived += context.restarts.directives if context.restarts else ()
    _check_names_of_the_cluster(context)
    check_array(context)
    check_sbatch(context)
    return _with_own(context, "sbatch", derived, spec.sbatch)


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def _check_names_of_the_cluster(context: Context) -> None:
    """Refuse names with `,` or `|`, which are syntax to Slurm: the source does not check names."""
    placement = context.placement
    features = placement.constraint.split("|") if placement.constraint else []
    for key, name in (
        ("queue", placement.partition),
        *(("instance_type", one) for one in features),
    ):
        if not _NAME.fullmatch(name):
            context.problem(
                (key,),
                f"{name!r} of the cluster's config cannot be a name in Slurm",
                "rename it there: only letters, digits, - and _",
            )


def srun_options(context: Context, by_pyxis: bool) -> tuple[Directive, ...]:
    """The options of the training's srun. `by_pyxis`: it also starts the containers."""
    own, hint = context.spec.srun, hint_of(context.spec)
    derived = [*derived_srun_options(context.placement)]
    if hint is not None and (HINT in own or "cpu-bind" not in own):
        derived = [one for one in derived if one.name != "cpu-bind"]
        derived.append(Directive(HINT, hint, "sbatch's; it binds each rank to its CPUs"))
    derived += limits_for_ranks(context.spec)
    check_srun(context, by_pyxis)
    return _with_own(context, "srun", derived, own)


def limits_for_ranks(spec: Experiment) -> Iterator[Directive]:
    """All limits of the script: names alone would exclude those that `setup` changes."""
    if spec.ulimit:
        yield Directive("propagate", "ALL", "ulimit, also where slurm.conf propagates no limits")


def derived_srun_options(placement: Placement) -> Iterator[Directive]:
    """The options of srun that follow from the placement."""
    shape, ntasks = placement.shape, placement.ntasks_per_node
    planned = "as planned, even if sbatch got other options"
    yield Directive("nodes", shape.nodes, planned)
    yield Directive("ntasks", shape.nodes * ntasks, planned)
    yield Directive("ntasks-per-node", ntasks, planned)
    yield Directive("label", True, "every line says which task wrote it")
    reason = "a failed task ends the step, and one that is done does not"
    yield Directive("kill-on-bad-exit", 1, reason)
    yield Directive("wait", 0, reason)
    yield Directive("cpu-bind", "none", "threads may move; data loaders need it")
    if (cpus := placement.cpus_per_task) is not None:
        yield Directive("cpus-per-task", cpus, "not inherited in Slurm 22.05-23.02")
    if placement.role_nodes:
        yield Directive("nodelist", variable(TRAINING_NODES), "the other nodes have roles")
    yield from _share_of_a_node(placement)


def _share_of_a_node(placement: Placement) -> Iterator[Directive]:
    """The options for a point that runs beside others. Source: srun(1), --exact and --mem."""
    if placement.per_node == 1:
        return
    yield Directive("exact", True, "use only this point's share of the node")
    if placement.shape.gpus_per_node:
        yield Directive("gpus-per-node", placement.shape.gpus_per_node, "GPUs for this point only")
    yield Directive("mem", 0, "reserve no memory: otherwise the first point gets all of it")
    yield Directive("job-name", variable("point_name"), "step name, used to send it signals")


def _derived(spec: Experiment, placement: Placement, cluster: ClusterFacts) -> Iterator[Directive]:
    yield Directive("job-name", spec.name, "name")
    if cluster.write_partition or spec.queue:
        yield Directive("partition", placement.partition, "queue")
    yield Directive("nodes", placement.all_nodes, "nodes")
    points = placement.per_node
    each = " x sweep.per_node" if points > 1 else ""
    yield Directive("ntasks-per-node", points * placement.ntasks_per_node, f"launcher{each}")
    if placement.cpus_per_task is not None:
        yield Directive("cpus-per-task", placement.cpus_per_task, "CPUs / tasks of a node")
    yield from _gpu_request(spec, placement, f"gpus_per_node{each}")
    if placement.constraint:
        yield Directive("constraint", placement.constraint, "the queue has nodes of several types")
    if placement.exclusive:
        yield Directive("exclusive", True, "whole nodes: the network cards are not divided")
        yield Directive("mem", 0, "--exclusive alone leaves the default memory limit")
    for name, option in _directives_of_keys():
        if (value := getattr(spec, name)) is not None:
            yield Directive(option, value, name)
    yield Directive("propagate", "NONE", "limits of the node, not of the calling shell: ulimit -s")
    output = "%x-%A_%a.out" if is_array(spec) else "%x-%j.out"
    yield Directive("output", output, "beside where sbatch was called; always exists")
    yield Directive("open-mode", "append", "a requeued job goes on in the same log")
    if spec.checkpoints is not None:
        yield Directive("requeue", True, "a lost node: it starts again, from its checkpoints")
    else:
        yield Directive("no-requeue", True, "without checkpoints it would start from nothing")


@functools.cache
def _directives_of_keys() -> tuple[tuple[str, str], ...]:
    keys = known_keys(Experiment).items()
    return tuple((name, key.directive) for name, key in keys if key and key.directive)


def _gpu_request(spec: Experiment, placement: Placement, reason: str) -> Iterator[Directive]:
    """The request for GPUs in the form of the site; points that share a node need the usual one."""
    points, form = placement.per_node, placement.node_type.request_gpus
    count, kind = points * placement.shape.gpus_per_node, gpu_type(spec.gpus_per_node)
    if not count or (form == "none" and points == 1):
        return
    tasks = placement.ntasks_per_node
    per_task = form == "gpus-per-task" and points == 1 and count % tasks == 0
    number = count // tasks if per_task else count
    request = f"{kind}:{number}" if kind else number
    if per_task:
        yield Directive("gpus-per-task", request, f"{reason}; what the site asks for")
    elif form == "gres" and "gres" not in spec.sbatch:  # it may ask for another resource
        yield Directive("gres", f"gpu:{request}", f"{reason}; what the site asks for")
    else:
        yield Directive("gpus-per-node", request, reason)


# Pairs that Slurm refuses together.
_REPLACES = {
    "requeue": "no-requeue",
    "no-requeue": "requeue",
    "mem-per-cpu": "mem",
    "mem-per-gpu": "mem",
}


def _with_own(
    context: Context, key: str, derived: list[Directive], own: Mapping[str, str | bool]
) -> tuple[Directive, ...]:
    replaced = {*own, *(_REPLACES[name] for name in own if name in _REPLACES)}
    if any(is_gpu_request(name, value) for name, value in own.items()):
        replaced.update(one.name for one in derived if one.name in GPU_REQUESTS)
    kept = [one for one in derived if one.name not in replaced]
    said = [
        Directive(name, value, f"{key}: {context.diagnostics.line_of((key, name))}")
        for name, value in own.items()
        if value is not False
    ]
    return (*kept, *said)
