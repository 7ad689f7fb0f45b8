"""Makes the advice for one spec: reads it, searches, and lets the spec's own checks refuse."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.errors import InputError, one_problem
from clusterjobs.foresight.advise.choices import (
    NodeOption,
    Setting,
    facts_of_gpus,
    node_counts,
    node_options_of,
    own_nodes,
    search_space,
    settings_of,
)
from clusterjobs.foresight.advise.command import Request
from clusterjobs.foresight.advise.options import option_of, search, with_reasons
from clusterjobs.foresight.advise.report import Advice
from clusterjobs.foresight.foresee import NO_NETWORK, OFFLOADED
from clusterjobs.foresight.formulas.ranking import Candidate, ranked, ties
from clusterjobs.foresight.job import ForeseenJob, Unknown, foreseen_job
from clusterjobs.models.records import Layout
from clusterjobs.runs.load import read_spec
from clusterjobs.runs.spec_files import OwnConfigs, SpecFiles
from clusterjobs.sections.resolve import resolve
from clusterjobs.sites.folders import read_sites, site_files
from clusterjobs.spec.load import Spec

# ------------------------------------------------------------------ checked
#
# Plans the spec with a layout's settings: what the spec's own checks refuse is no advice.


MOST_CHECKED = 60


def settings_for(
    one: Candidate, node_option: NodeOption, base: Layout, spec: Spec, nodes: int
) -> list[Setting]:
    """Everything to set in the spec for a candidate."""
    found = [*node_option.settings]
    if one.nodes != nodes:
        found.append(Setting(("nodes",), one.nodes))
    return [*found, *settings_of(one.layout, base, spec)]


def accepted(
    candidates: Sequence[Candidate],
    settings: Callable[[Candidate], list[Setting]],
    refusal: Callable[[Sequence[Setting]], str],
    most: int,
) -> Iterator[tuple[Candidate, list[Setting], str]]:
    """The best candidates with their settings; those that are refused come with the reason."""
    good = 0
    for one in candidates[:MOST_CHECKED]:
        if good == most:
            return
        wanted = settings(one)
        why = refusal(wanted)
        good += not why
        yield one, wanted, why


class Planned:
    """A spec on its cluster, or on GPUs that are given instead, which other settings can plan
    again."""

    def __init__(self, file: pathlib.Path, settings: Sequence[str], request: Request) -> None:
        """Raises InputError."""
        hardware = request.hardware
        self._settings = list(settings)
        self._supposed: ClusterFacts | None = None
        if hardware:
            name = hardware.gpu.name
            self._supposed = facts_of_gpus(hardware.gpu, hardware.per_node, hardware.gbps, name)
            nodes = hardware.gpus // hardware.per_node
            self._settings += [f"cluster={name}", f"nodes={nodes}"]
            self._settings += [f"gpus_per_node={hardware.per_node}"]
        self.spec, self.files = read_spec(file, self._settings)
        self._configs = OwnConfigs(file)
        self.facts = self._facts(self.spec, self.files)
        self.sites = read_sites(site_files(file, self.files.site))

    def _facts(self, spec: Spec, files: SpecFiles) -> ClusterFacts:
        if self._supposed:
            return self._supposed
        where = spec.source.locate(("cluster",))
        return files.cluster(spec.experiment.cluster, where).source.facts

    def job(self) -> ForeseenJob:
        """The job. Raises InputError if nothing can be predicted of it."""
        plan = resolve(self.spec, self.facts, self._configs.texts(self.spec))
        found = foreseen_job(plan, self.spec, self.facts, self._configs)
        if isinstance(found, Unknown):
            raise one_problem(found.why, self.spec.source.locate(()), hint=found.hint)
        if found.layout.offload != "none":
            raise one_problem(OFFLOADED, hint="advise ranks layouts whose states are on the GPUs")
        return found

    def refusal(self, wanted: Sequence[Setting]) -> str:
        """Why the spec's own checks refuse these settings; "" if they do not."""
        more = [one.written() for one in wanted]
        try:
            spec = self.files.load([*self._settings, *more])
            resolve(spec, self._facts(spec, self.files), self._configs.texts(spec))
        except InputError as error:
            first = next(one for one in error.problems if not one.warning)
            return f"{first.path}: {first.what}" if first.path else first.what
        return ""


def advice_of(file: pathlib.Path, settings: Sequence[str], request: Request) -> Advice:
    """The advice. Raises InputError."""
    planned = Planned(file, settings, request)
    job = planned.job()
    node_options = _node_options(planned, job, request)
    nodes = {
        name: node_counts(node_option, job.layout.gpus, request.nodes)
        if request.nodes or request.clusters
        else [job.layout.nodes]
        for name, node_option in node_options.items()
    }
    _refuse_unknown_networks(node_options, nodes)
    found = search(job, search_space(planned.spec, job.layout), node_options, nodes)
    no_prices = [
        node_option.price
        for node_option in node_options.values()
        if isinstance(node_option.price, str)
    ]
    if request.hardware:
        no_prices = ["no price: --gpu names no cluster or region"]
    if request.by_cost and len(no_prices) == len(node_options):
        hint = "--by time" if request.hardware else "add prices to site.yaml, or --by time"
        raise one_problem(f"--by cost: {no_prices[0]}", hint=hint)
    ordered = ranked(found.candidates, request.by_cost)
    count = ties(ordered, request.by_cost)
    tied = {id(one) for one in ordered[:count]} if count > 1 else set()

    def wanted(one: Candidate) -> list[Setting]:
        node_option = node_options[one.where]
        return settings_for(
            one, node_option, job.layout, planned.spec, planned.spec.experiment.nodes
        )

    options, refused = [], []
    for one, changes, why in accepted(ordered, wanted, planned.refusal, request.top):
        if why:
            refused.append((one, why))
        else:
            option = option_of(one, node_options[one.where], changes, job, id(one) in tied)
            options.append(option)
    return Advice(
        job,
        request.by_cost,
        found,
        with_reasons(options),
        refused,
        list(dict.fromkeys(no_prices)),
        planned.spec.point.name if planned.spec.point else "",
    )


def _refuse_unknown_networks(
    node_options: Mapping[str, NodeOption], nodes: Mapping[str, Sequence[int]]
) -> None:
    """Raises InputError for several nodes that a network of unknown speed joins."""
    for name, node_option in node_options.items():
        if not node_option.network.gbps and max(nodes[name]) > 1:
            hint = "add network_gbps to the cluster's description, or try --nodes 1"
            raise one_problem(f"{name}: {NO_NETWORK}", hint=hint)


def _node_options(planned: Planned, job: ForeseenJob, request: Request) -> dict[str, NodeOption]:
    """Where the job is tried. Raises InputError for clusters that are unknown."""
    if not request.clusters:
        return {job.nodes.node_type: own_nodes(job, planned.sites, planned.facts)}
    node_options: dict[str, NodeOption] = {}
    for name in request.clusters:
        cluster = planned.files.cluster(name)
        for node_option in node_options_of(cluster.source.facts, name, cluster.sites):
            node_options[node_option.name] = node_option
    if not node_options:
        raise one_problem(
            f"--clusters: no nodes with known GPUs in {', '.join(request.clusters)}",
            hint="clusterjobs clusters list shows them",
        )
    return node_options
