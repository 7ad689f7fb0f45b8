"""What advise may change: a framework's layouts, as a spec writes them, and the nodes to run on."""

import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts, NodeGroup, NodeType, Partition
from clusterjobs.errors import one_problem
from clusterjobs.foresight.formulas.layouts import RuledOut, SearchSpace
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.models.records import Gpu, Layout, Network, Recompute
from clusterjobs.runs.training import Training, gpu_of
from clusterjobs.sites.folders import STDIN, read_text
from clusterjobs.sites.prices import HourlyPrice, Nodes, price_of
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.yaml.document import Path, dotted
from clusterjobs.yaml.edit import set_value


class Setting(NamedTuple):
    path: Path
    value: Any

    def written(self) -> str:
        """The choice as `--set` takes it: `batch.micro=4`."""
        value = self.value
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return f"{dotted(self.path)}={text}"


RECOMPUTATIONS: dict[str, tuple[Recompute, ...]] = {
    "megatron-lm": ("none", "selective", "full"),
    "megatron-deepspeed": ("none", "full"),
    "huggingface": ("none", "full"),
}


def search_space(loaded: LoadedSpec, layout: Layout) -> SearchSpace:
    """What advise may change in this spec. A mixture of experts keeps its expert parallelism."""
    name = loaded.spec.framework
    keys = FRAMEWORKS[name].parallel_keys
    is_megatron = name in ("megatron-lm", "megatron-deepspeed", "gpt-neox")
    if name == "megatron-lm":
        zero: tuple[int, ...] = (0, 1)
    elif layout.engine in ("deepspeed", "megatron-deepspeed") and "zero" in (
        type(loaded.options).model_fields if loaded.options else ()
    ):
        zero = (0, 1, 2, 3)
    else:
        zero = (layout.zero,)
    return SearchSpace(
        tensor=is_megatron and "tensor" in keys and layout.expert == 1,
        pipeline=is_megatron and "pipeline" in keys,
        virtual_pipeline=name == "megatron-lm",
        sequence_parallel=name == "megatron-lm",
        zero=zero,
        recompute=RECOMPUTATIONS.get(name, (layout.recompute,)),
    )


def settings_of(layout: Layout, base: Layout, loaded: LoadedSpec) -> Iterator[Setting]:
    """What to set in the spec for a layout: only what differs from the spec's own, `base`."""
    name, batch = loaded.spec.framework, loaded.spec.batch
    if batch and (layout.micro_batch, layout.data) != (base.micro_batch, base.data):
        if layout.micro_batch != base.micro_batch:
            yield Setting(("batch", "micro"), layout.micro_batch)
        if batch.global_ is None:
            yield Setting(("batch", "global"), layout.global_batch)
        if batch.accumulation is not None:
            yield Setting(("batch", "accumulation"), int(layout.micro_batches))
    for key, field in (
        ("tensor", "tensor"),
        ("pipeline", "pipeline"),
        ("virtual_pipeline", "virtual_pipeline"),
        ("sequence", "sequence_parallel"),
    ):
        if getattr(layout, field) != getattr(base, field):
            yield Setting(("parallel", key), getattr(layout, field))
    if layout.zero != base.zero:
        if name == "megatron-lm":
            yield Setting(("args", "use-distributed-optimizer"), layout.zero == 1)
        else:
            yield Setting(("zero", "stage"), layout.zero)
    if layout.recompute == base.recompute:
        return
    is_full = layout.recompute == "full"
    if name == "megatron-deepspeed":
        yield Setting(("activation_checkpointing",), is_full)
    elif name == "huggingface":
        yield Setting(("args", "gradient_checkpointing"), is_full)
    elif name == "megatron-lm":
        granularity = False if layout.recompute == "none" else layout.recompute
        yield Setting(("args", "recompute-granularity"), granularity)
        if is_full or base.recompute == "full":
            yield Setting(("args", "recompute-method"), "uniform" if is_full else False)
            yield Setting(("args", "recompute-num-layers"), 1 if is_full else False)


def write_settings(file: pathlib.Path, settings: Sequence[Setting]) -> None:
    """Writes settings into a spec's file; comments and order are kept.

    Raises InputError if the file cannot be written, or a value has another form there.
    """
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


def own_nodes(job: Training, sites: Sequence[tuple[str, str]], facts: ClusterFacts) -> NodeOption:
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
            settings = [Setting(("cluster",), cluster)]
            if len(facts.partitions) > 1 and partition.name:
                settings.append(Setting(("queue",), partition.name))
            if len(partition.node_groups) > 1 and group.type_names:
                settings.append(Setting(("instance_type",), group.type_names[0]))
            yield NodeOption(
                f"{cluster}: {kind.name}",
                gpu,
                kind.gpus,
                Network(kind.network_gbps or 0.0, group.fabric),
                price_of(Nodes(1, kind.name, facts.region, facts.name, group.purchase), sites),
                group.max_nodes,
                tuple(settings),
            )


def facts_of_gpus(gpu: Gpu, per_node: int, gbps: float, name: str) -> ClusterFacts:
    """A cluster with such nodes, of which nothing else is known."""
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


def node_counts(node_option: NodeOption, gpus: int, chosen: Iterable[int]) -> list[int]:
    """Nodes to try: those of --nodes, else as many as give the spec's GPUs, and a quarter
    to four times of that."""
    same = max(1, round(gpus / node_option.gpus_per_node))
    counts = {same, *(max(1, round(same * factor)) for factor in (0.25, 0.5, 2, 4))}
    return sorted(set(chosen) or counts)


def within_limit(node_option: NodeOption, counts: Iterable[int]) -> Iterator[int | RuledOut]:
    """The numbers that its cluster has."""
    limit = node_option.max_nodes or MOST_NODES
    for one in counts:
        if one <= limit:
            yield one
        else:
            yield RuledOut(f"{one} nodes", f"{node_option.name} has at most {limit}")
