"""From a plan to the records of foresight: the model's shape, and the layout of its ranks.

What the framework's arguments and files say is taken from there; the keys of the spec win.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.foresight.records import Experts, Layout, ModelShape
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Foreseen, Framework
from clusterjobs.plan.model_config import config_of, shape_in_text, with_model_config
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import texts_of_the_framework
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec
from clusterjobs.spec.model_keys import Model
from clusterjobs.spec.references import show

UNKNOWN_MODEL = "the model is unknown"
NO_SEQUENCE = "the sequence length is unknown"
_NEEDED = ("layers", "hidden", "heads", "sequence", "vocab")
# What a model with a gate has, unless a file or the spec says otherwise.
_LIKE_LLAMA = {"tied": False, "positions": "rotary", "bias": False, "norm": "rms"}
_GATED_MULTIPLE = 64  # Megatron's default width of a gated feed-forward part: 8/3 h in 64s


def model_and_layout(
    plan: Plan, spec: Spec, texts: Mapping[str, str]
) -> tuple[ModelShape, Layout] | str:
    """Both, or what is unknown. `texts` as in `plan.resolve.resolve`."""
    framework = FRAMEWORKS[spec.experiment.framework]
    experiment, found = foreseen_of(spec, texts)
    if "engine" not in found.layout:
        return f"nothing is predicted for framework: {show(spec.experiment.framework)}"
    in_file = _in_file(spec.experiment, texts)
    if in_file and not _writes_sequence(spec.experiment.model) and _decides_sequence(found):
        # The file has the longest sequence that the model takes; few trainings are that long.
        sequence = found.model.get("sequence")
        if sequence is None:
            return f"{NO_SEQUENCE}: {in_file.sequence} is the longest that the model takes"
        assert experiment.model
        model = experiment.model.model_copy(update={"sequence": sequence})
        experiment = experiment.model_copy(update={"model": model})
    shape = _shape(experiment.model, in_file, found, plan)
    if isinstance(shape, str):
        return shape
    layout = _layout(plan, experiment, found, framework)
    return layout if isinstance(layout, str) else (shape, layout)


def _writes_sequence(model: Model | None) -> bool:
    return bool(model and model.sequence)


def _decides_sequence(found: Foreseen) -> bool:
    """Whether the program decides it, and does not get `model.sequence` as an argument."""
    return found.layout["engine"] in ("ddp", "fsdp", "deepspeed", "horovod", "jax")


def foreseen_of(spec: Spec, texts: Mapping[str, str]) -> tuple[Experiment, Foreseen]:
    """The experiment with the numbers of all config files, and what the framework says."""
    framework, silent = FRAMEWORKS[spec.experiment.framework], Diagnostics(spec.source)
    own = texts_of_the_framework(spec, texts)
    experiment = with_model_config(spec.experiment, texts, silent)
    experiment = framework.completed(experiment, spec.options, own, silent)
    return experiment, framework.foreseen(experiment, spec.options, own)


def _in_file(experiment: Experiment, texts: Mapping[str, str]) -> ModelShape | None:
    names = config_of(experiment.model)
    return shape_in_text(names[0], texts[names[0]]) if names and names[0] in texts else None


# ------------------------------------------------------------------ the model


def _shape(
    model: Model | None, in_file: ModelShape | None, found: Foreseen, plan: Plan
) -> ModelShape | str:
    """The file first, then what the framework says, then the keys of the spec."""
    fields: dict[str, Any] = in_file._asdict() if in_file else {}
    fields |= _plain(found.model)
    fields |= _of_spec(model)
    if fields.get("gated") and not found.vocab_multiple and not in_file:
        fields = {**_LIKE_LLAMA, **fields}
    missing = [name for name in _NEEDED if not fields.get(name)]
    if missing:
        return f"{UNKNOWN_MODEL}: {', '.join(missing)} missing"
    heads, hidden = fields["heads"], fields["hidden"]
    if not fields.get("causal", True):  # BERT's head: a layer, a norm and a bias
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


def _of_spec(model: Model | None) -> dict[str, Any]:
    """The keys of `model` that are written, by their names in ModelShape."""
    names = {"glu": "gated", "ffn": "ffn", "tied": "tied", "kv_heads": "kv_heads"}
    sizes = {name: name for name in _NEEDED}
    if model is None:
        return {}
    found = {field: getattr(model, key) for key, field in {**sizes, **names}.items()}
    return {field: value for field, value in found.items() if value is not None}


def _usual_ffn(hidden: int, gated: bool) -> int:
    if not gated:
        return 4 * hidden
    return max(1, int(8 * hidden / 3) // _GATED_MULTIPLE) * _GATED_MULTIPLE


# ------------------------------------------------------------------ the layout


def _layout(
    plan: Plan, experiment: Experiment, found: Foreseen, framework: Framework
) -> Layout | str:
    shape, sizes, batch = plan.placement.shape, plan.parallelism, plan.batch
    if batch is None:
        return "the batch size is unknown"
    fields: dict[str, Any] = {
        "sequence_parallel": sizes.sequence and sizes.tensor > 1,
        "precision": _precision(experiment),
        **found.layout,
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


def _precision(experiment: Experiment) -> str:
    """Mixed precision in bf16, if a script decides it itself: fp32 alone is rare on these GPUs."""
    return experiment.precision or "bf16"
