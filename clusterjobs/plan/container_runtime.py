"""The container runtime of a spec that names none: the program that the cluster has for it.

It must not know what a runtime can do (`container_checks.py`).
"""

from __future__ import annotations

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment

_KEY = ("software", "container", "runtime")


def with_runtime(
    experiment: Experiment, facts: ClusterFacts, diagnostics: Diagnostics, provenance: Provenance
) -> Experiment:
    """The experiment with a runtime; without a container if none is known, which is a problem."""
    container = experiment.software.container
    if container is None or "runtime" in container.model_fields_set:
        return experiment
    if facts.container_program:
        provenance.record("container runtime", facts.container_program, f"that of {facts.name}")
        container = container.model_copy(update={"runtime": facts.container_program})
    else:
        what = "pyxis, apptainer, singularity, docker or shifter"
        diagnostics.problem(_KEY, "runtime is missing", f"add `runtime:` with {what}")
        container = None
    software = experiment.software.model_copy(update={"container": container})
    return experiment.model_copy(update={"software": software})
