"""What the cluster itself adds to a job: variables, files of bash, lines of setup.

They come below the spec's own keys, which win. It must not know who wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.clusters.facts import ClusterFacts, NodeType
from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import did_you_mean
from clusterjobs.sections.placement.plan import Placement
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.environment import SiteValue


def with_site_settings(experiment: Experiment, node_type: NodeType) -> Experiment:
    """The experiment with what its nodes need, but for `setup`. Its own variables and secrets win.

    The cluster's setup is no part of it: it runs before the spec loads modules.
    """
    taken = {*experiment.env, *experiment.parameters, *experiment.secrets}
    variables = {
        one.name: SiteValue(one.value, one.reason)
        for one in node_type.variables
        if one.name not in taken
    }
    software = experiment.software
    sources = (*node_type.source, *software.source)
    return experiment.model_copy(
        update={
            "env": {**variables, **experiment.env},
            "software": software.model_copy(update={"source": sources}),
        }
    )


def check_site(
    experiment: Experiment, placement: Placement, facts: ClusterFacts, diagnostics: Diagnostics
) -> None:
    """Warn of names that the cluster lacks; refuse to divide GPUs that Slurm does not count."""
    if placement.per_node > 1 and placement.node_type.request_gpus == "none":
        what = f"the Slurm of {facts.name} does not count GPUs, so it cannot divide those of a node"
        diagnostics.problem(("sweep", "per_node"), what, "remove it")
    for name, value, known in _named(experiment, facts):
        if known and value not in known:
            path = ("sbatch", name) if name in ("account", "qos") else ("software", *_RUNTIME)
            what = f"{value} is not in the description of {facts.name}"
            diagnostics.problem(path, what, did_you_mean(value, known), warning=True)


_RUNTIME = ("container", "runtime")


def _named(
    experiment: Experiment, facts: ClusterFacts
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for name, known in (("account", facts.accounts), ("qos", facts.qos)):
        value = experiment.sbatch.get(name)
        if isinstance(value, str):
            yield name, value, known
    container = experiment.software.container
    if container and facts.container_program:
        yield "runtime", container.runtime, (facts.container_program,)


# ------------------------------------------------------------------ container runtime
#
# The container runtime of a spec that names none: the program that the cluster has for it.
#
# py`).


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
