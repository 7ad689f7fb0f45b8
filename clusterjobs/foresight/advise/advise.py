"""Makes the advice for one spec: tries its layouts, ranks them, and lets its own checks refuse."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    within_limit,
)
from clusterjobs.foresight.advise.request import Request
from clusterjobs.foresight.foresee import IN_FP32, NO_NETWORK, OFFLOADED
from clusterjobs.foresight.formulas.constants import range_factors
from clusterjobs.foresight.formulas.layouts import (
    TIE,
    Candidate,
    RuledOut,
    SearchSpace,
    layouts,
    ranked,
)
from clusterjobs.foresight.formulas.memory import (
    DOES_NOT_FIT,
    Memory,
    estimate_memory,
    memory_share,
)
from clusterjobs.foresight.formulas.speed import NAMES, Speed, estimate_speed, region
from clusterjobs.foresight.formulas.step import step_seconds
from clusterjobs.foresight.formulas.training_time import Cost, cost_of
from clusterjobs.models.records import Layout, Range
from clusterjobs.plugins import Unknown
from clusterjobs.runs.content import OwnConfigs
from clusterjobs.runs.load import read_spec
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.runs.training import Training, training_of
from clusterjobs.sections.order import resolve
from clusterjobs.sites.folders import read_sites, site_files
from clusterjobs.spec.load import LoadedSpec

STEPS_OF_A_PRICE = 1000  # the cost of so many steps is compared if the length is unknown


class Found(NamedTuple):
    """What a search found. `tried` counts all layouts; `too_large` those that do not fit."""

    candidates: list[Candidate]
    ruled_out: list[RuledOut]
    tried: int
    too_large: int
    smallest_share: float


def search(
    job: Training,
    space: SearchSpace,
    node_options: Mapping[str, NodeOption],
    nodes: Mapping[str, Sequence[int]],
) -> Found:
    """All candidates that fit or nearly fit. `nodes`: the numbers of nodes to try of each.

    Thousands of layouts take a second: only their step time and memory are computed.
    """
    candidates: list[Candidate] = []
    out: dict[RuledOut, None] = {}
    tried = too_large = 0
    smallest = float("inf")
    steps = steps_of_job(job)
    for name, node_option in node_options.items():
        price = node_option.price  # of one node for all steps, per second that a step takes
        per_step = None if isinstance(price, str) else price.usd_per_hour / 3600 * steps
        for number in within_limit(node_option, nodes[name]):
            if isinstance(number, RuledOut):
                out[number] = None
                continue
            base = job.layout._replace(
                gpus=number * node_option.gpus_per_node, gpus_per_node=node_option.gpus_per_node
            )
            found, ruled = layouts(job.model, base, space)
            out |= dict.fromkeys(ruled)
            tried += len(found)
            for layout in found:
                share = memory_share(job.model, layout, node_option.gpu)
                if share > DOES_NOT_FIT:
                    too_large += 1
                    smallest = min(smallest, share)
                    continue
                seconds = step_seconds(job.model, layout, node_option.gpu, node_option.network)
                usd = per_step and seconds * per_step * number
                trust = region(job.model, layout, node_option.gpu, node_option.network).trust
                risk = range_factors(trust).high
                candidates.append(Candidate(name, number, layout, seconds, share, usd, risk))
    return Found(candidates, list(out), tried, too_large, smallest)


def steps_of_job(job: Training) -> int:
    """Steps whose time and cost are compared."""
    if job.length is None:
        return STEPS_OF_A_PRICE
    return job.length.steps_with(job.layout.global_batch, job.model.sequence)


class Option(NamedTuple):
    """A layout on some nodes. `seconds` and `cost`: of all steps, without start and saves."""

    candidate: Candidate
    node_option: NodeOption
    settings: tuple[Setting, ...]
    speed: Speed
    memory: Memory
    seconds: Range
    cost: Cost | None
    is_tie: bool = False
    why: str = ""

    @property
    def layout(self) -> Layout:
        return self.candidate.layout


def option_of(
    one: Candidate,
    node_option: NodeOption,
    settings: list[Setting],
    job: Training,
) -> Option:
    speed = estimate_speed(
        job.model, one.layout, node_option.gpu, node_option.network, with_nearest=False
    )
    assert speed  # advise refuses offloaded states
    memory = estimate_memory(job.model, one.layout, node_option.gpu)
    seconds = speed.step_seconds.times(steps_of_job(job))
    price = node_option.price
    cost = None if isinstance(price, str) else cost_of(seconds, one.nodes, price, None)
    return Option(one, node_option, tuple(settings), speed, memory, seconds, cost)


def in_order(options: Sequence[Option], by_cost: bool) -> list[Option]:
    """The options sorted by what the table shows, with a mark for those that tie with the first."""

    def value(one: Option) -> float:
        return one.cost.usd.high if by_cost and one.cost else one.seconds.high

    def is_doubtful(one: Option) -> bool:
        return one.candidate.share > 1

    ordered = sorted(options, key=lambda one: (is_doubtful(one), value(one)))
    tied = [
        value(one) <= value(ordered[0]) * (1 + TIE) and is_doubtful(one) == is_doubtful(ordered[0])
        for one in ordered
    ]
    return [
        one._replace(is_tie=is_tie and sum(tied) > 1)
        for one, is_tie in zip(ordered, tied, strict=True)
    ]


def with_reasons(options: list[Option]) -> list[Option]:
    """Why each stands where it stands: the first by what limits it, others by what they lose."""
    if not options:
        return []
    first = options[0]
    reasons = [
        ", ".join(map(str, first.speed.limits)),
        *(_against(one, first) for one in options[1:]),
    ]
    return [
        one._replace(why=why if one.speed.validated else f"{why}, not validated")
        for one, why in zip(options, reasons, strict=True)
    ]


def _against(one: Option, first: Option) -> str:
    """The part of the step that grows most against the first, and the one that shrinks most."""
    parts = first.speed.parts._asdict()
    changes = {NAMES[key]: new - parts[key] for key, new in one.speed.parts._asdict().items()}
    whole = first.speed.step_seconds.mid
    change = one.speed.step_seconds.mid / whole - 1
    text = f"step {change:+.0%}"
    if (one.layout.gpus, one.node_option.gpu) == (first.layout.gpus, first.node_option.gpu):
        more = max(changes, key=lambda name: changes[name])
        less = min(changes, key=lambda name: changes[name])
        named = [name for name in (more, less) if abs(changes[name]) > 0.01 * whole]
        text += "".join(f", {name} {changes[name] / whole:+.0%}" for name in dict.fromkeys(named))
    if one.memory.verdict != first.memory.verdict:
        text += f", memory {one.memory.verdict.replace('_', ' ')}"
    return text


def layout_text(layout: Layout) -> str:
    """`tensor 8, pipeline 4, micro 2, ZeRO 1`: what an option decides."""
    parts = (
        (f"tensor {layout.tensor}", True),
        (f"pipeline {layout.pipeline}", True),
        (f"virtual {layout.virtual_pipeline}", layout.virtual_pipeline > 1),
        ("sequence", layout.sequence_parallel),
        (f"context {layout.context}", layout.context > 1),
        (f"expert {layout.expert}", layout.expert > 1),
        (f"micro {layout.micro_batch}", True),
        (f"ZeRO {layout.zero}", layout.zero),
        (f"recompute {layout.recompute.replace('_', ' ')}", layout.recompute != "none"),
    )
    return ", ".join(text for text, is_shown in parts if is_shown)


MOST_CHECKED = 60  # candidates of a node type that the spec's own checks see


class Planned:
    """A spec on its cluster, or on GPUs that are given instead; planned again by `refusal`."""

    def __init__(self, file: pathlib.Path, settings: Sequence[str], request: Request) -> None:
        hardware = request.hardware
        self._settings = list(settings)
        self._supposed: ClusterFacts | None = None
        if hardware:
            name = hardware.gpu.name
            self._supposed = facts_of_gpus(hardware.gpu, hardware.per_node, hardware.gbps, name)
            nodes = hardware.gpus // hardware.per_node
            self._settings += [
                f"cluster={name}",
                f"nodes={nodes}",
                f"gpus_per_node={hardware.per_node}",
            ]
        self.loaded, self.files = read_spec(file, self._settings)
        self._configs = OwnConfigs(file)
        self.facts = self._facts(self.loaded, self.files)
        self.sites = read_sites(site_files(file, self.files.site))

    def _facts(self, loaded: LoadedSpec, files: SpecFiles) -> ClusterFacts:
        if self._supposed:
            return self._supposed
        where = loaded.source.locate(("cluster",))
        return files.cluster(loaded.spec.cluster, where).source.facts

    def job(self) -> Training:
        """The job. Raises InputError if nothing can be predicted of it."""
        texts = self._configs.texts(self.loaded)
        plan = resolve(self.loaded, self.facts, texts)
        found = training_of(plan, self.loaded, self.facts, texts)
        if isinstance(found, Unknown):
            raise one_problem(found.why, self.loaded.source.locate(()), hint=found.hint)
        if found.layout.offload != "none":
            raise one_problem(OFFLOADED, hint="advise ranks layouts whose states are on the GPUs")
        if found.layout.precision == "fp32":
            raise one_problem(IN_FP32, hint="write precision: bf16, or fp16 for V100")
        return found

    def refusal(self, settings: Sequence[Setting]) -> str:
        """Why the spec's own checks refuse these settings; "" if they do not."""
        more = [one.written() for one in settings]
        try:
            spec = self.files.load([*self._settings, *more])
            resolve(spec, self._facts(spec, self.files), self._configs.texts(spec))
        except InputError as error:
            first = next(one for one in error.problems if not one.warning)
            return f"{first.path}: {first.what}" if first.path else first.what
        return ""


class Advice(NamedTuple):
    """The answer of `advise`. `refused`: layouts that the spec's own checks refuse, and why.

    `point`: the point of a sweep that was ranked, "" without a sweep. `of_clusters`: it compares
    several node types.
    """

    job: Training
    by_cost: bool
    found: Found
    options: list[Option]
    refused: list[tuple[Candidate, str]]
    no_prices: list[str]
    point: str = ""
    of_clusters: bool = False


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
    for name, node_option in node_options.items():
        if not node_option.network.gbps and max(nodes[name]) > 1:
            hint = "add network_gbps to the cluster's description, or try --nodes 1"
            raise one_problem(f"{name}: {NO_NETWORK}", hint=hint)
    found = search(job, search_space(planned.loaded, job.layout), node_options, nodes)
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
    options: list[Option] = []
    refused = []
    checked = dict.fromkeys(node_options, 0)
    missing = set(node_options)  # of which no layout is among the options
    for one in ordered:
        is_full = len(options) >= request.top
        if (is_full and one.where not in missing) or checked[one.where] >= MOST_CHECKED:
            continue
        checked[one.where] += 1
        node_option = node_options[one.where]
        changes = [*node_option.settings]
        if one.nodes != planned.loaded.spec.nodes:
            changes.append(Setting(("nodes",), one.nodes))
        changes += settings_of(one.layout, job.layout, planned.loaded)
        if why := planned.refusal(changes):
            refused.append((one, why))
        else:
            missing.discard(one.where)
            options.append(option_of(one, node_option, changes, job))
        if len(options) >= request.top and not missing:
            break
    return Advice(
        job,
        request.by_cost,
        found,
        with_reasons(in_order(options, request.by_cost)),
        refused,
        list(dict.fromkeys(no_prices)),
        planned.loaded.point.name if planned.loaded.point else "",
        len(node_options) > 1,
    )


def _node_options(planned: Planned, job: Training, request: Request) -> dict[str, NodeOption]:
    """The kinds of nodes on which the job is tried. Raises InputError for unknown clusters."""
    if not request.clusters:
        return {job.nodes.node_type: own_nodes(job, planned.sites, planned.facts)}
    clusters = {name: planned.files.cluster(name) for name in request.clusters}
    node_options = {
        one.name: one
        for name, cluster in clusters.items()
        for one in node_options_of(cluster.source.facts, name, cluster.sites)
    }
    if not node_options:
        raise one_problem(
            f"--clusters: no nodes with known GPUs in {', '.join(request.clusters)}",
            hint="clusterjobs clusters list shows them",
        )
    return node_options
