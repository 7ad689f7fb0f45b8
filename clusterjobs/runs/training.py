"""What a planned job trains: model, layout, GPU, network, nodes and length.

Joins the plan, the cluster's facts and the catalogue. Predictions and reports start from it.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts, NodeType
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import Foreseen, Framework
from clusterjobs.frameworks.torch_foreseen import USUAL_RANK, unread_arguments
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Experts, Gpu, Layout, ModelShape, Network
from clusterjobs.plugins import Unknown
from clusterjobs.sections.model import config_of, shape_in_text, with_model_config
from clusterjobs.sections.order import texts_of_the_framework
from clusterjobs.sections.plan import Placement, Plan
from clusterjobs.sections.storage import is_below
from clusterjobs.sites.prices import Nodes
from clusterjobs.slurm.options import seconds_of
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Model, ModelOfConfig
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.text import show
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ length
# How long a training is, and how often it saves, as the spec or its arguments say.


# Arguments as argparse stores them. Megatron-LM and Megatron-DeepSpeed: arguments.py. Hugging Face:
# TrainingArguments. fairseq: --max-update, --save-interval-updates.
_STEPS = ("train_iters", "max_steps", "max_update", "steps")
_SAMPLES = ("train_samples",)
_TOKENS = ("train_tokens",)
_SAVES = ("save_interval", "save_steps", "save_interval_updates", "save_every", "checkpoint_factor")


class Length(NamedTuple):
    """One of three is given; `origin` says where."""

    tokens: float | None
    samples: float | None
    steps: float | None
    origin: str

    def steps_with(self, batch: int, sequence: int) -> int:
        """Optimizer steps, at least one; `sequence`: tokens of a sample."""
        if self.steps is not None:
            return max(1, math.ceil(self.steps))
        samples = self.samples
        if samples is None:
            assert self.tokens is not None
            samples = self.tokens / sequence
        return max(1, math.ceil(samples / batch))


def length_of(spec: Experiment) -> Length | None:
    """The length; None if it is unknown. `training` wins over the arguments."""
    training = getattr(spec, "training", None)
    if training is not None:
        return Length(training.tokens, training.samples, training.steps, "training")
    return length_in_arguments(spec)


def length_in_arguments(spec: Experiment) -> Length | None:
    """The length that the program's arguments say; None if they say none."""
    if found := _argument(spec, _TOKENS):
        return Length(found[1], None, None, f"args.{found[0]}")
    if found := _argument(spec, _SAMPLES):
        return Length(None, found[1], None, f"args.{found[0]}")
    if found := _argument(spec, _STEPS):
        return Length(None, None, found[1], f"args.{found[0]}")
    return None


def save_steps(spec: Experiment) -> int | None:
    """Steps between two checkpoints; None if it is unknown, or if the interval is no number."""
    found = _argument(spec, _SAVES)
    return int(found[1]) if found and found[1] >= 1 else None


def steps_argument(spec: Experiment) -> tuple[Path, str] | None:
    """The path of the argument that decides the length, and what it counts."""
    for names, unit in ((_TOKENS, "tokens"), (_SAMPLES, "samples"), (_STEPS, "steps")):
        for one in given_arguments(spec):
            if one.key in names:
                return one.path, unit
    return None


def _argument(spec: Experiment, names: Sequence[str]) -> tuple[str, float] | None:
    """The first of these arguments that has a positive number, as the spec names it."""
    written = {one.key: one for one in given_arguments(spec)}
    for name in names:
        with contextlib.suppress(KeyError, ValueError, IndexError):
            number = float(written[name].texts[0])
            if 0 < number < 1e18:
                return written[name].name.lstrip("-"), number
    return None


# ------------------------------------------------------------------ model and layout
# What the framework's arguments and files say is taken from there; the keys of the spec win.


UNKNOWN_MODEL = "the model is unknown"
UNKNOWN_SHARDING = "how the script shards the model is unknown"
UNREAD = "it is unknown what these arguments change"
UNKNOWN_BATCH = "the batch size is unknown"
NO_DIFFUSION = "nothing is predicted for models of kind diffusion"
NO_SEQUENCE = "the sequence length is unknown"
_NEEDED = ("layers", "hidden", "heads", "sequence", "vocab")
# What a model with a gate has, unless a file or the spec says otherwise.
_LIKE_LLAMA = {"tied": False, "positions": "rotary", "bias": False, "norm": "rms"}
_GATED_MULTIPLE = 64  # Megatron's default width of a gated feed-forward part: 8/3 h in 64s


def model_and_layout(
    plan: Plan, loaded: LoadedSpec, texts: Mapping[str, str]
) -> tuple[ModelShape, Layout] | str:
    """The model and the layout, or what is unknown of them. `texts`: as in `resolve`."""
    framework = FRAMEWORKS[loaded.spec.framework]
    spec, found = foreseen_of(loaded, texts)
    if "engine" not in found.layout:
        return f"nothing is predicted for framework: {show(loaded.spec.framework)}"
    if spec.model and spec.model.kind == "diffusion":
        return NO_DIFFUSION
    in_file = _in_file(loaded.spec, texts)
    if in_file and not _writes_sequence(loaded.spec.model) and found.is_own_script:
        # The file has the longest sequence that the model takes; few trainings are that long.
        sequence = found.model.get("sequence")
        if sequence is None:
            return f"{NO_SEQUENCE}: {in_file.sequence} is the longest that the model takes"
        assert spec.model
        model = spec.model.model_copy(update={"sequence": sequence})
        spec = spec.model_copy(update={"model": model})
    is_sharding_known = found.layout["engine"] or (spec.model and spec.model.sharding)
    shape = _shape(spec.model, in_file, found, plan)
    layout = _layout(plan, spec, found, framework)
    unread = ", ".join(unread_arguments(spec, found.layout)) if found.is_own_script else ""
    unknown = [
        *([shape] if isinstance(shape, str) else []),
        *([] if is_sharding_known else [UNKNOWN_SHARDING]),
        *([f"{UNREAD}: {unread}"] if unread else []),
        *([layout] if isinstance(layout, str) else []),
    ]
    if isinstance(shape, str) or isinstance(layout, str) or unknown:
        return "; ".join(unknown)
    return shape, layout


def _writes_sequence(model: Model | None) -> bool:
    return bool(model and model.sequence)


def foreseen_of(loaded: LoadedSpec, texts: Mapping[str, str]) -> tuple[Experiment, Foreseen]:
    """The spec with the numbers of all config files, and what the framework says."""
    framework, silent = FRAMEWORKS[loaded.spec.framework], Diagnostics(loaded.source)
    own = texts_of_the_framework(loaded, texts)
    spec = with_model_config(loaded.spec, texts, silent)
    spec = framework.completed(spec, loaded.options, own, silent)
    return spec, framework.foreseen(spec, loaded.options, own)


def _in_file(spec: Experiment, texts: Mapping[str, str]) -> ModelShape | None:
    names = config_of(spec.model)
    return shape_in_text(names[0], texts[names[0]]) if names and names[0] in texts else None


# ------------------------------------------------------------------ the model


def _shape(
    model: Model | None, in_file: ModelShape | None, found: Foreseen, plan: Plan
) -> ModelShape | str:
    """The file first, then what the framework says, then the keys of the spec."""
    fields: dict[str, Any] = in_file._asdict() if in_file else {}
    fields |= _plain(found.model)
    fields |= _of_spec(model)
    if model and model.kind == "vision":
        fields = {**_LIKE_VIT, **fields}
    if fields.get("gated") and not found.vocab_multiple and not in_file:
        fields = {**_LIKE_LLAMA, **fields}
    missing = [name for name in _NEEDED if not fields.get(name)]
    if missing:
        return f"{UNKNOWN_MODEL}: {', '.join(missing)} missing"
    heads, hidden = fields["heads"], fields["hidden"]
    if not fields.get("causal", True) and fields.get("predicted_share") != 0:  # BERT's head
        fields.setdefault("further", hidden * hidden + 3 * hidden + fields["vocab"])
    fields.setdefault("kv_heads", heads)
    fields.setdefault("head_dim", max(1, hidden // heads))
    fields.setdefault("ffn", _usual_ffn(hidden, bool(fields.get("gated"))))
    if model and model.experts:
        width = model.ffn or fields["ffn"]
        fields["experts"] = Experts(model.experts, model.experts_per_token or 1, width)
    if multiple := found.vocab_multiple:
        multiple *= plan.parallelism.tensor
        fields["vocab"] = -(-fields["vocab"] // multiple) * multiple
    return ModelShape(**fields)


def _plain(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ModelShape: some words of the frameworks only switch something off."""
    fields = dict(said)
    if fields.pop("untied", False):
        fields["tied"] = False
    if fields.pop("unbiased", False):
        fields["bias"] = False
    if fields.pop("encoder", False):
        fields["causal"] = False
    return fields


# A vision transformer has no vocabulary: its patches and its classes are small matrices.
_LIKE_VIT: dict[str, Any] = {"vocab": 1, "predicted_share": 0.0, "positions": "learned"}


def _of_spec(model: Model | None) -> dict[str, Any]:
    """The keys of `model` that are written, by their names in ModelShape."""
    names = {"glu": "gated", "ffn": "ffn", "tied": "tied", "kv_heads": "kv_heads"}
    sizes = {name: name for name in _NEEDED}
    if model is None:
        return {}
    found = {field: getattr(model, key) for key, field in {**sizes, **names}.items()}
    if model.kind:
        found["causal"] = model.kind == "decoder"
    return {field: value for field, value in found.items() if value is not None}


def _usual_ffn(hidden: int, gated: bool) -> int:
    if not gated:
        return 4 * hidden
    return max(1, int(8 * hidden / 3) // _GATED_MULTIPLE) * _GATED_MULTIPLE


# ------------------------------------------------------------------ the layout


def _layout(plan: Plan, spec: Experiment, found: Foreseen, framework: Framework) -> Layout | str:
    shape, sizes, batch = plan.placement.shape, plan.parallelism, plan.batch
    if batch is None:
        return UNKNOWN_BATCH
    fields: dict[str, Any] = {
        "sequence_parallel": sizes.sequence and sizes.tensor > 1,
        "precision": spec.precision or "bf16",  # fp32 alone is rare on these GPUs
        **found.layout,
        **_of_model(spec.model),
    }
    per_node = shape.gpus_per_node or shape.ranks_per_node  # without GPUs, ranks are counted
    if not framework.one_rank_uses_all_gpus:
        per_node = min(per_node, shape.ranks_per_node)
    return Layout(
        gpus=shape.nodes * per_node,
        gpus_per_node=per_node,
        micro_batch=batch.micro,
        global_batch=batch.global_,
        tensor=sizes.tensor,
        pipeline=sizes.pipeline,
        virtual_pipeline=sizes.virtual_pipeline,
        context=sizes.context,
        expert=sizes.expert,
        **fields,
    )


_SHARDINGS: dict[str, dict[str, Any]] = {
    "ddp": {"engine": "ddp", "zero": 0},
    "fsdp": {"engine": "fsdp", "zero": 3},
    **{f"zero{stage}": {"engine": "deepspeed", "zero": stage} for stage in (1, 2, 3)},
}


def _of_model(model: Model | None) -> dict[str, Any]:
    """What the spec says of sharding, and of what is trained."""
    if model is None:
        return {}
    found = dict(_SHARDINGS.get(model.sharding or "", {}))
    if model.trainable:
        is_adapter = model.trainable == "lora"
        found["adapter_rank"] = (model.rank or USUAL_RANK) if is_adapter else 0
        found["weight_bits"] = model.quantized or 16
    return found


def _assumed(spec: Experiment, found: Foreseen) -> tuple[str, ...]:
    """What neither the spec nor the framework says of a program of the user's own."""
    if not found.is_own_script:
        return ()
    model = spec.model
    has_kind = model and (model.kind or isinstance(model, ModelOfConfig))
    is_said = (model and model.trainable) or "adapter_rank" in found.layout
    parts = (
        ("a decoder", has_kind),
        ("all parameters are trained", is_said),
        ("in bf16", spec.precision),
    )
    return tuple(text for text, is_known in parts if not is_known)


HINTS = {
    UNKNOWN_MODEL: "add model: {layers, hidden, heads, sequence, vocab}",
    UNKNOWN_SHARDING: "add sharding to model: ddp, fsdp, zero1, zero2 or zero3",
    UNREAD: "say it in model: trainable, rank, quantized or sharding",
    UNKNOWN_BATCH: "add batch: {micro: 4, global: 64}",
    NO_DIFFUSION: "a diffusion transformer is a model of kind: vision",
    NO_SEQUENCE: "add sequence to model, the tokens of one sample",
}
CPU = "CPU of "  # and a node type, in place of the name of a GPU


class Training(NamedTuple):
    """The training of a job. `disk_rate`: bytes/s of the checkpoints' file system.

    `assumed`: what neither the spec nor the framework says of the model.
    """

    model: ModelShape
    layout: Layout
    gpu: Gpu
    network: Network
    nodes: Nodes
    length: Length | None
    save_steps: int | None
    time_limit: int | None
    disk_rate: float | None = None
    software: str = ""
    assumed: tuple[str, ...] = ()


def training_of(
    plan: Plan,
    loaded: LoadedSpec,
    facts: ClusterFacts,
    texts: Mapping[str, str],
    with_cpus: bool = False,
) -> Training | Unknown:
    """The training, or what is missing. `texts` as in `sections.resolve.resolve`.

    `with_cpus`: a rank without a GPU counts as one.
    """
    described = model_and_layout(plan, loaded, texts)
    if isinstance(described, str):
        hints = [HINTS.get(one.partition(":")[0], "") for one in described.split("; ")]
        return Unknown(described, "; ".join(filter(None, hints)))
    model, layout = described
    placement = plan.placement
    gpu = gpu_of(placement.node_type) or (_cpus_of(placement) if with_cpus else None)
    if gpu is None:
        return _unknown_gpu(placement.node_type)
    limit = plan.job.time_limit
    said = foreseen_of(loaded, texts)[1]
    return Training(
        model,
        layout,
        gpu,
        Network(placement.node_type.network_gbps or 0.0, placement.fabric),
        nodes_of(plan, facts),
        length_of(loaded.spec) or _length_in(said),
        save_steps(loaded.spec) or said.save_steps,
        seconds_of(limit) if limit else None,
        disk_rate=_disk_rate(plan, facts),
        software=show(loaded.spec.framework),
        assumed=_assumed(loaded.spec, said),
    )


def _length_in(said: Foreseen) -> Length | None:
    """The length that the framework's own config files say."""
    return Length(None, None, said.steps, "the configs") if said.steps else None


def _unknown_gpu(kind: NodeType) -> Unknown:
    hint = "name a node type with GPUs of NVIDIA: clusterjobs clusters list"
    if not kind.gpus:
        return Unknown(f"{kind.name} has no GPU: nothing is predicted for it", hint)
    if not kind.gpu_model:
        return Unknown(f"the GPUs of {kind.name} are unknown", "describe them: gpu_model: A100")
    memory = f" with {kind.gpu_memory_gib:.3g} GiB" if kind.gpu_memory_gib else ""
    gpus = f"{kind.gpu_model}{memory}, the GPUs of {kind.name}"
    return Unknown(f"no numbers are known for {gpus}", hint)


def _disk_rate(plan: Plan, facts: ClusterFacts) -> float | None:
    """Bytes/s of the file system with the checkpoints; of nested mounts the innermost counts."""
    folder = plan.checkpoints.path
    if not folder:
        return None
    mounts = [one for one in facts.mounts if is_below(folder, one.path)]
    inner = max(mounts, key=lambda one: len(one.path), default=None)
    return inner.throughput_mbs * 1e6 if inner and inner.throughput_mbs else None


def _cpus_of(placement: Placement) -> Gpu | None:
    """Stands for the CPUs of one rank where nodes have no GPU: for measurements alone.

    Its numbers are only compared with themselves.
    """
    kind, ranks = placement.node_type, placement.shape.ranks_per_node
    if kind.gpus or kind.accelerator_ranks:
        return None
    memory = (kind.memory_mib or 0) / 1024 / ranks or 1.0
    return Gpu(CPU + kind.name, "", 1e12, None, 50e9, 10e9, memory)


def gpu_of(node_type: NodeType) -> Gpu | None:
    """The GPU of a node type; None without one, or if its numbers are unknown."""
    if not node_type.gpus or not node_type.gpu_model:
        return None
    return find_gpu(node_type.gpu_model, node_type.gpu_memory_gib)


def nodes_of(plan: Plan, facts: ClusterFacts) -> Nodes:
    """The nodes of the plan; how they are bought is unknown if their groups differ in it."""
    placement = plan.placement
    groups = facts.partition(placement.partition).node_groups
    ways = {one.purchase for one in groups if one.node_type.name == placement.node_type.name}
    purchase = ways.pop() if len(ways) == 1 else ""
    number = placement.all_nodes / placement.per_node
    return Nodes(number, placement.node_type.name, facts.region, facts.name, purchase)
