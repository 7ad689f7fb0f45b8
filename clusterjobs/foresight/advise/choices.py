"""What may change in a framework's layouts, and how a layout is written in a spec.

It knows the keys and arguments of the frameworks that decide a layout; it must not know speeds.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts, NodeGroup, NodeType, Partition
from clusterjobs.errors import one_problem
from clusterjobs.foresight.foresee import price_of
from clusterjobs.foresight.formulas.layouts import RuledOut, SearchSpace
from clusterjobs.foresight.formulas.training_time import HourlyPrice
from clusterjobs.foresight.job import ForeseenJob, Nodes, gpu_of
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.models.records import Gpu, Layout, Network
from clusterjobs.sites.folders import STDIN, read_text
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec
from clusterjobs.yaml.document import Path, dotted
from clusterjobs.yaml.edit import set_value


class Setting(NamedTuple):
    """A value of the spec at a path."""

    path: Path
    value: Any

    def written(self) -> str:
        """As `--set` takes it: `batch.micro=4`."""
        value = self.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"{dotted(self.path)}={text}"


def search_space(spec: Spec, layout: Layout) -> SearchSpace:
    """What advise may change in this spec. A mixture of experts keeps its expert parallelism."""
    name = spec.experiment.framework
    keys = FRAMEWORKS[name].parallel_keys
    is_megatron = name in ("megatron-lm", "megatron-deepspeed", "gpt-neox")
    if name == "megatron-lm":
        zero: tuple[int, ...] = (0, 1)
    elif "zero" in _options(spec) and layout.engine in ("deepspeed", "megatron-deepspeed"):
        zero = (0, 1, 2, 3)
    else:
        zero = (layout.zero,)
    return SearchSpace(
        tensor=is_megatron and "tensor" in keys and layout.expert == 1,
        pipeline=is_megatron and "pipeline" in keys,
        virtual_pipeline=name == "megatron-lm",
        sequence_parallel=name == "megatron-lm",
        zero=zero,
        recompute=_recomputations(name, layout),
        layers_beside=False,
    )


def _recomputations(name: str, layout: Layout) -> tuple[Any, ...]:
    if name == "megatron-lm":
        return ("none", "selective", "full")
    if name == "megatron-deepspeed" or name == "huggingface":
        return ("none", "full")
    return (layout.recompute,)


def settings_of(wanted: Layout, base: Layout, spec: Spec) -> list[Setting]:
    """What to set in the spec for a layout: only what differs from the spec's own, `base`."""
    return [
        *_batch(wanted, base, spec.experiment),
        *_parallel(wanted, base),
        *_memory(wanted, base, spec),
    ]


def _batch(wanted: Layout, base: Layout, experiment: Experiment) -> Iterator[Setting]:
    batch = experiment.batch
    moved = wanted.micro_batch != base.micro_batch or wanted.data != base.data
    if not moved or batch is None:
        return
    if wanted.micro_batch != base.micro_batch:
        yield Setting(("batch", "micro"), wanted.micro_batch)
    if batch.global_ is None:
        yield Setting(("batch", "global"), wanted.global_batch)
    if batch.accumulation is not None:
        yield Setting(("batch", "accumulation"), int(wanted.micro_batches))


def _parallel(wanted: Layout, base: Layout) -> Iterator[Setting]:
    for key, field in (
        ("tensor", "tensor"),
        ("pipeline", "pipeline"),
        ("virtual_pipeline", "virtual_pipeline"),
        ("sequence", "sequence_parallel"),
    ):
        if getattr(wanted, field) != getattr(base, field):
            yield Setting(("parallel", key), getattr(wanted, field))


def _memory(wanted: Layout, base: Layout, spec: Spec) -> Iterator[Setting]:
    name = spec.experiment.framework
    if wanted.zero != base.zero:
        if name == "megatron-lm":
            yield Setting(("args", "use-distributed-optimizer"), wanted.zero == 1)
        else:
            yield Setting(("zero", "stage"), wanted.zero)
    if wanted.recompute == base.recompute:
        return
    if name == "megatron-deepspeed":
        yield Setting(("activation_checkpointing",), wanted.recompute == "full")
    elif name == "huggingface":
        yield Setting(("args", "gradient_checkpointing"), wanted.recompute == "full")
    elif name == "megatron-lm":
        is_full = wanted.recompute == "full"
        granularity = False if wanted.recompute == "none" else wanted.recompute
        yield Setting(("args", "recompute-granularity"), granularity)
        if is_full or base.recompute == "full":
            yield Setting(("args", "recompute-method"), "uniform" if is_full else False)
            yield Setting(("args", "recompute-num-layers"), 1 if is_full else False)


def _options(spec: Spec) -> set[str]:
    return set(type(spec.options).model_fields) if spec.options else set()


# ------------------------------------------------------------------ write spec
#
# Writes settings into a spec's file; comments and order are kept.


def write_settings(file: pathlib.Path, settings: Sequence[Setting]) -> None:
    """Raises InputError if the file cannot be written, or a value has another form there."""
    if file == STDIN:
        raise one_problem("--write: standard input cannot be written", hint="name a file")
    file = file.resolve()  # a link stays one
    text = read_text(file)
    for one in settings:
        try:
            text = set_value(text, str(file), one.path, one.value)
        except (ValueError, KeyError):
            raise one_problem(
                f"--write: {dotted(one.path)} cannot be written into {file}",
                hint=f"write it by hand: {one.written()}",
            ) from None
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(file.stat().st_mode & 0o7777)
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None


# ------------------------------------------------------------------ node options
#
# Where a job could run: node types of clusters, or GPUs that are given without a cluster.
#
# It joins clusters, prices and the catalogue; it


MOST_NODES = 1024  # that are tried where no limit is known


class NodeOption(NamedTuple):
    """A node type that the job could use. `price`: a text says why there is none.

    `settings`: what to set in the spec to run there.
    """

    name: str
    gpu: Gpu
    gpus_per_node: int
    network: Network
    price: HourlyPrice | str
    max_nodes: int | None
    settings: tuple[Setting, ...] = ()


def own_nodes(
    job: ForeseenJob, sites: Sequence[tuple[str, str]], facts: ClusterFacts
) -> NodeOption:
    """Where the spec runs the job."""
    name, price = job.nodes.node_type, price_of(job.nodes, sites)
    groups = [one for partition in facts.partitions for one in partition.node_groups]
    limits = [one.max_nodes for one in groups if one.node_type.name == name]
    most = max(filter(None, limits), default=None)
    return NodeOption(name, job.gpu, job.layout.gpus_per_node, job.network, price, most)


def node_options_of(
    facts: ClusterFacts, cluster: str, sites: Sequence[tuple[str, str]]
) -> Iterator[NodeOption]:
    """Each node type with GPUs of each partition, once."""
    seen: set[str] = set()
    for partition in facts.partitions:
        for group in partition.node_groups:
            kind = group.node_type
            gpu = gpu_of(kind)
            if gpu is None or not kind.gpus or kind.name in seen:
                continue
            seen.add(kind.name)
            yield _node_option(facts, cluster, partition, group, gpu, kind.gpus, sites)


def _node_option(
    facts: ClusterFacts,
    cluster: str,
    partition: Partition,
    group: NodeGroup,
    gpu: Gpu,
    gpus: int,
    sites: Sequence[tuple[str, str]],
) -> NodeOption:
    kind = group.node_type
    nodes = Nodes(1, kind.name, facts.region, facts.name, group.purchase)
    settings = [Setting(("cluster",), cluster)]
    if len(facts.partitions) > 1 and partition.name:
        settings.append(Setting(("queue",), partition.name))
    if len(partition.node_groups) > 1 and group.type_names:
        settings.append(Setting(("instance_type",), group.type_names[0]))
    return NodeOption(
        f"{cluster}: {kind.name}",
        gpu,
        gpus,
        Network(kind.network_gbps or 0.0, group.fabric),
        price_of(nodes, sites),
        group.max_nodes,
        tuple(settings),
    )


def facts_of_gpus(gpu: Gpu, per_node: int, gbps: float, name: str) -> ClusterFacts:
    """A cluster that has such nodes and nothing else is known of."""
    kind = NodeType(
        name,
        gpus=per_node,
        gpu_model=gpu.name.partition("-")[0],
        gpu_memory_gib=gpu.memory_gib,
        network_gbps=gbps,
        gpudirect_rdma=True,
    )
    partition = Partition(
        name, (NodeGroup(name, kind, (name,), None, "infiniband"),), exclusive=True
    )
    return ClusterFacts(name, (partition,), mounts_complete=False, default_partition=name)


def node_counts(node_option: NodeOption, gpus: int, wanted: Iterable[int]) -> list[int]:
    """Nodes to try: those of --nodes, else as many as give the spec's GPUs, and a quarter
    to four times of that."""
    same = max(1, round(gpus / node_option.gpus_per_node))
    counts = {same, *(max(1, round(same * factor)) for factor in (0.25, 0.5, 2, 4))}
    return sorted(set(wanted) or counts)


def within_limit(node_option: NodeOption, counts: Iterable[int]) -> Iterator[int | RuledOut]:
    """The numbers that its cluster has."""
    limit = node_option.max_nodes or MOST_NODES
    for one in counts:
        if one <= limit:
            yield one
        else:
            yield RuledOut(f"{one} nodes", f"{node_option.name} has at most {limit}")
