"""Puts the plan's own values in place of references such as `{{ world_size }}`.

It knows the values; where they may be used is known by spec/known_references.py.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import Parallelism, Samples
from clusterjobs.sections.placement.plan import Placement
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.environment import Forced
from clusterjobs.spec.known_references import AFTER_THE_PLAN, with_values
from clusterjobs.spec.model import SpecModel
from clusterjobs.yaml.document import Path


def with_derived(
    experiment: Experiment,
    placement: Placement,
    parallelism: Parallelism,
    batch: Samples | None,
    diagnostics: Diagnostics,
) -> Experiment:
    """The experiment, in which every such reference is replaced by its value."""
    shape = placement.shape
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

    def replaced(value: Any, path: Path) -> Any:
        if isinstance(value, str):
            if "\0" not in value:
                return value
            text = with_values(value, lambda name: text_of(name, path))
            return Forced(text, value.reason) if isinstance(value, Forced) else text
        if isinstance(value, tuple):
            return tuple(replaced(item, (*path, index)) for index, item in enumerate(value))
        if isinstance(value, dict):
            return {key: replaced(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, SpecModel):
            fields = {key: getattr(value, key) for key in value.model_fields_set}
            changed = {key: replaced(item, (*path, key)) for key, item in fields.items()}
            return value.model_copy(update=changed)
        return value

    def text_of(name: str, path: Path) -> str:
        if values[name] is None and not diagnostics.failed:
            diagnostics.problem(path, f"{name} is not known", _HINTS[name.partition(".")[0]])
        return str(values[name])

    written = {key: getattr(experiment, key) for key in AFTER_THE_PLAN}
    found = {key: replaced(value, (key,)) for key, value in written.items()}
    return experiment if found == written else experiment.model_copy(update=found)


_HINTS = {
    "batch": "add `batch:`, or write the value here",
    "cpus_per_task": "add `cpus_per_task:`: the CPUs of this instance type are unknown",
}
