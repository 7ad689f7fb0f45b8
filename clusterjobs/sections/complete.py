"""Completes a spec: its launcher and runtime, numbers of config files, references, the cluster."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.errors import did_you_mean, nearest
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.arguments import argument_key, given_arguments
from clusterjobs.frameworks.base import Framework
from clusterjobs.launchers import LAUNCHERS, Launcher, LauncherOptions
from clusterjobs.sections.context import Context
from clusterjobs.sections.model import (
    check_model_keys,
    plan_batch,
    plan_parallelism,
    record_sequence,
    with_model_config,
)
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.environment import Forced, SiteValue
from clusterjobs.spec.known_references import AFTER_THE_PLAN
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import DerivedValue, Text, replaced
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ framework and launcher


def find_framework(context: Context) -> Framework | None:
    """The framework; None if the name is unknown, with a problem that suggests a known one."""
    name = context.spec.framework
    framework = FRAMEWORKS.get(name)
    if framework is None:
        hint = did_you_mean(name, list(FRAMEWORKS))
        context.problem(("framework",), f"no framework {name!r}", hint)
    return framework


def find_launcher(context: Context, framework: Framework | None) -> Launcher:
    """The launcher. The framework's default replaces a wrong one, so that planning can continue."""
    name, choices = context.spec.launcher, framework.launchers if framework else tuple(LAUNCHERS)
    default = LAUNCHERS[choices[0]]
    if name is None:
        if framework:
            context.record("launcher", default.name, f"the default of {framework.name}")
        return default
    found = LAUNCHERS.get(name)
    if found and (name in choices or (framework and framework.name in found.frameworks)):
        return found
    what = f"no launcher {name!r}"
    if framework:
        what = f"{framework.name} is not started by {name}" if found else what
        others = [one.name for one in LAUNCHERS.values() if framework.name in one.frameworks]
        choices = (*choices, *others)
    match = None if found else nearest(name, choices)
    hint = f"did you mean {match}? " if match else ""
    context.problem(("launcher",), what, f"{hint}known: {', '.join(choices)}")
    return default


def find_launcher_options(context: Context, loaded: LoadedSpec) -> LauncherOptions | None:
    """The launcher's own options, with their defaults if the spec has none.

    Those of another launcher are a problem in a spec.
    In a defaults.yaml they are not: there they are for the specs that use that launcher.
    """
    launcher = context.launcher
    for name in loaded.launcher_options:
        if name != launcher.name and loaded.source.origin((name,)).layer.role != "default":
            what = f"these are options of the launcher {name}, and this job uses {launcher.name}"
            context.problem((name,), what, f"remove it, or write launcher: {name}", at_key=True)
    found = loaded.launcher_options.get(launcher.name) or (launcher.options and launcher.options())
    return found if isinstance(found, LauncherOptions) else None


# ------------------------------------------------------------------ container runtime


def with_runtime(context: Context) -> Experiment:
    """The spec with the cluster's container runtime if it names none.

    Without a container if none is known, which is a problem.
    """
    spec, facts = context.spec, context.facts
    container = spec.software.container
    if container is None or "runtime" in container.model_fields_set:
        return spec
    if facts.container_program:
        context.record("container runtime", facts.container_program, f"that of {facts.name}")
        container = container.model_copy(update={"runtime": facts.container_program})
    else:
        path, what = ("software", "container", "runtime"), "runtime is missing"
        hint = "add `runtime:` with pyxis, apptainer, singularity, docker or shifter"
        context.problem(path, what, hint)
        container = None
    software = spec.software.model_copy(update={"container": container})
    return spec.model_copy(update={"software": software})


# ------------------------------------------------------------------ after the placement


def complete_spec(context: Context, texts: Mapping[str, str]) -> None:
    """Complete the spec with the config files, the derived numbers and the cluster's settings.

    `texts`: of all config files, by their names.
    """
    written = context.spec.model
    context.spec = with_model_config(context.spec, texts, context.diagnostics)
    record_sequence(written, context.spec.model, context.provenance)
    check_model_keys(context)
    context.numbers = context.framework.completed(
        context.spec, context.options, context.texts, context.diagnostics
    )
    context.parallelism = plan_parallelism(context)
    context.batch = plan_batch(context)
    _add_length(context)
    context.spec = _with_site_settings(context, _with_derived(context))
    _check_site(context)


def _add_length(context: Context) -> None:
    """Give the program the length that `training` says, if nothing else says one.

    Of tokens the sequence must be known, and the batch unless `training` counts steps.
    """
    spec, training, framework = context.spec, context.spec.training, context.framework
    if not training or not framework.length_arguments:
        return
    name = framework.length_arguments[0]
    model, batch = context.numbers.model or spec.model, context.batch and context.batch.global_
    sequence = model.sequence if model else 0
    steps, reason = training.steps, "training.steps"
    if batch and training.samples is not None:
        steps = training.samples / batch
        reason = f"training.samples / batch {batch}"
    elif batch and sequence and training.tokens is not None:
        steps = training.tokens / (batch * sequence)
        reason = f"training.tokens / (batch {batch} x sequence {sequence})"
    if framework.has_length(spec, context.options, context.texts):
        _compare_lengths(context, steps)
    elif steps is None:
        unknown = "model.sequence" if batch else "batch"
        what = f"the program gets no {name} from it, since {unknown} is unknown"
        hint = f"add {unknown}, or write training: {{steps: 10000}}"
        context.problem(("training",), what, hint, warning=True)
    else:
        number = max(1, math.ceil(steps))
        context.record(f"{framework.length_key}.{name}", number, reason)
        context.spec, context.options = framework.with_length(spec, context.options, number)


def _compare_lengths(context: Context, steps: float | None) -> None:
    """Compare the length that `training` says with that of the arguments, which the program gets.

    Epochs cannot be compared, so a note says how many samples the data must have.
    """
    training, batch = context.spec.training, context.batch and context.batch.global_
    assert training
    numbers: dict[str, float] = {}
    for one in given_arguments(context.spec):
        with contextlib.suppress(ValueError, IndexError):
            numbers[one.key] = float(one.texts[0])
    first, *_ = names = context.framework.length_arguments
    given, hint = numbers.get(argument_key(first), 0), f"and {first} follows from training"
    in_epochs = (argument_key(one) for one in names if "epoch" in one)
    epochs = next((one for one in in_epochs if numbers.get(one, 0) > 0), "")
    if given > 0:
        if training.steps in (None, given):
            return
        what = f"training is {steps:,.0f} steps, but args.{first} makes it {given:,.0f} steps"
        hint = f"the program follows {first}: correct one of them, or remove training"
    elif epochs:
        what = f"the program trains for {epochs} {numbers[epochs]:g}"
        if samples := training.samples or (batch and steps and steps * batch):
            equal = f"{samples / numbers[epochs]:,.0f} samples"
            what += f": the same as training if its data has {equal}"
        hint = f"remove {epochs}, {hint}"
    elif argument_key(first) in numbers:
        what, hint = f"the program trains for {first} {given:g}", f"remove {first}, {hint}"
    else:
        return
    is_note = given <= 0 and bool(epochs)
    context.problem(("training",), what, hint, warning=True, info=is_note)


def _with_derived(context: Context) -> Experiment:
    """The spec, in which every reference such as `{{ world_size }}` is replaced by its value."""
    spec, placement, shape = context.spec, context.placement, context.placement.shape
    parallelism, batch = context.parallelism, context.batch
    values = {
        "nodes": placement.all_nodes,
        "gpus_per_node": shape.gpus_per_node,
        "ranks_per_node": shape.ranks_per_node,
        "cpus_per_task": placement.cpus_per_task,
        "world_size": shape.world_size,
        "parallel.tensor": parallelism.tensor,
        "parallel.pipeline": parallelism.pipeline,
        "parallel.virtual_pipeline": parallelism.virtual_pipeline,
        "parallel.context": parallelism.context,
        "parallel.expert": parallelism.expert,
        "data_parallel": parallelism.data,
        "batch.micro": batch and batch.micro,
        "batch.accumulation": batch and batch.accumulation,
        "batch.global": batch and batch.global_,
    }

    def known(value: Any, path: Path) -> Any:
        if isinstance(value, Text):
            return replaced(
                value, lambda one: text_of(one.name, path) if isinstance(one, DerivedValue) else one
            )
        if isinstance(value, Forced):
            return value._replace(value=known(value.value, path))
        if isinstance(value, tuple):
            return tuple(known(item, (*path, index)) for index, item in enumerate(value))
        if isinstance(value, dict):
            return {key: known(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, SpecModel):
            fields = {key: getattr(value, key) for key in value.model_fields_set}
            changed = {key: known(item, (*path, key)) for key, item in fields.items()}
            return value.model_copy(update=changed)
        return value

    def text_of(name: str, path: Path) -> str:
        if values[name] is None and not context.diagnostics.failed:
            context.problem(path, f"{name} is not known", _HINTS[name.partition(".")[0]])
        return str(values[name])

    written = {key: getattr(spec, key) for key in AFTER_THE_PLAN}
    found = {key: known(value, (key,)) for key, value in written.items()}
    return spec if found == written else spec.model_copy(update=found)


_HINTS = {
    "batch": "add `batch:`, or write the value here",
    "cpus_per_task": "add `cpus_per_task:`: the CPUs of this instance type are unknown",
}


def _with_site_settings(context: Context, spec: Experiment) -> Experiment:
    """The spec with what its nodes need, but for `setup`. Its own variables and secrets win.

    The cluster's setup is no part of it: it runs before the spec loads modules.
    """
    node_type, software = context.placement.node_type, spec.software
    taken = {*spec.env, *spec.parameters, *spec.secrets}
    variables = {
        one.name: SiteValue(one.value, one.reason)
        for one in node_type.variables
        if one.name not in taken
    }
    sources = (*node_type.source, *software.source)
    return spec.model_copy(
        update={
            "env": {**variables, **spec.env},
            "software": software.model_copy(update={"source": sources}),
        }
    )


def _check_site(context: Context) -> None:
    """Warn of names that the cluster lacks; refuse to divide GPUs that Slurm does not count."""
    facts, placement = context.facts, context.placement
    if placement.per_node > 1 and placement.node_type.request_gpus == "none":
        what = f"the Slurm of {facts.name} does not count GPUs, so it cannot divide those of a node"
        context.problem(("sweep", "per_node"), what, "remove it")
    for path, value, known, denied, whose in _named(context):
        if value in denied:
            context.problem(path, f"{whose} refuses {value}", "name another, or another queue")
        elif known and value not in known:
            what = f"{value} is not in the description of {whose}"
            context.problem(path, what, did_you_mean(value, known), warning=True)


_Names = tuple[str, ...]


def _named(context: Context) -> Iterator[tuple[Path, str, _Names, _Names, str]]:
    """Keys whose values are names of the cluster, with the known and refused ones, and of what.

    Slurm ignores a list of refused ones beside one of those that it takes.
    """
    spec, facts = context.spec, context.facts
    partition = facts.partition(context.placement.partition)
    for name, known, here, denied in (
        ("account", facts.accounts, partition.accounts, partition.deny_accounts),
        ("qos", facts.qos, partition.qos, partition.deny_qos),
    ):
        value = spec.sbatch.get(name)
        if isinstance(value, str):
            of_partition = here or value in denied
            whose = f"partition {partition.name} of {facts.name}" if of_partition else facts.name
            yield ("sbatch", name), value, here or known, () if here else denied, whose
    container = spec.software.container
    if container and facts.container_program:
        known = (facts.container_program,)
        yield ("software", "container", "runtime"), container.runtime, known, (), facts.name
