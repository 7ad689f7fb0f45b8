"""`model: {config: FILE}`: the sizes of the model from a config.json in Hugging Face's format.

It joins the file's text with the spec; what its keys mean is in models/huggingface.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import InputError, Problem
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.model import Model, ModelOfConfig
from clusterjobs.text import Text, Value, expanding, show
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document

if TYPE_CHECKING:
    from clusterjobs.models.huggingface import Found
    from clusterjobs.models.records import ModelShape


_SIZES = ("layers", "hidden", "heads", "sequence")


def config_of(model: Model | None) -> tuple[str, ...]:
    """The file, if the model has one."""
    return (show(model.config),) if isinstance(model, ModelOfConfig) else ()


def with_model_config(
    spec: Experiment, texts: Mapping[str, str], diagnostics: Diagnostics
) -> Experiment:
    """The spec with the sizes of the file, where the spec has none of its own."""
    model = spec.model
    if not isinstance(model, ModelOfConfig):
        return spec
    shape = _shape(model.config, texts, diagnostics)
    if shape is None:  # all sizes are 0, also those of the spec, and nothing else is said of them
        unknown = model.model_copy(update=dict.fromkeys(_SIZES, 0))
        return spec.model_copy(update={"model": unknown})
    return spec.model_copy(update={"model": completed(model, shape)})


def completed(model: ModelOfConfig, shape: ModelShape) -> ModelOfConfig:
    """All keys of `model`: its own first, then the file's, which were checked as they were read."""
    experts = shape.experts
    found: dict[str, Any] = {
        **{name: getattr(shape, name) for name in (*_SIZES, "vocab", "tied")},
        "kv_heads": shape.kv_heads if shape.kv_heads != shape.heads else None,
        "ffn": experts.ffn if experts else shape.ffn,
        "glu": shape.gated,
        "experts": experts.number if experts else None,
        "experts_per_token": experts.top_k if experts else None,
    }
    own = {name: getattr(model, name) for name in model.model_fields_set}
    return ModelOfConfig.model_construct(**{**found, **own})


def record_sequence(written: Model | None, model: Model | None, provenance: Provenance) -> None:
    """The file says the longest sequence that the model takes; few trainings are that long."""
    if isinstance(written, ModelOfConfig) and model and model.layers and not written.sequence:
        why = f"the longest that {show(written.config)} allows; model.sequence may be shorter"
        provenance.record("model.sequence", model.sequence, why)


def shape_in_text(name: str, text: str) -> ModelShape | None:
    """The shape that the file describes; None if it is wrong, which `with_model_config` reports."""
    from clusterjobs.models.huggingface import shape_of_config

    try:
        data = _document(name, text).value
    except InputError:
        return None
    return shape_of_config(data).shape if isinstance(data, dict) else None


def _shape(file: Value, texts: Mapping[str, str], diagnostics: Diagnostics) -> ModelShape | None:
    where = ("model", "config")
    name = expanding(file)
    if isinstance(name, Text):
        what = "the file is read when the job is rendered"
        diagnostics.problem(where, what, "write its path without variables")
        return None
    if name not in texts:
        what = f"there is no file {name} beside the spec or in workdir"
        hint = "copy the model's config.json there, or write layers, hidden, heads and sequence"
        diagnostics.problem(where, what, hint)
        return None
    try:
        document = _document(name, texts[name])
    except InputError as error:
        diagnostics.add(error.problems)
        return None
    if not isinstance(document.value, dict):
        what = f"{show(name)} is not a config.json, which is a mapping of keys"
        diagnostics.problem(where, what, "save_pretrained() of transformers writes one")
        return None
    from clusterjobs.models.huggingface import shape_of_config

    found = shape_of_config(document.value)
    diagnostics.add(_problems(found, document))
    return found.shape


def _document(name: str, text: str) -> Document:
    # In JSON, a tab can only be indentation, which YAML does not allow.
    return yaml_document.load(text.replace("\t", " "), name)


def _problems(found: Found, document: Document) -> list[Problem]:
    return [
        Problem(one.what, document.locate((one.key,)), one.key, one.hint) for one in found.mistakes
    ]
