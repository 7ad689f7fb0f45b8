"""How many parameters a model has, and how many of them one rank holds.

Knows shapes of matrices; it must not know bytes. Source of the counts: arXiv 2104.04473, eq. 2,
and the modules of Hugging Face's transformers for the biases and norms.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.records import Layout, ModelShape


class LayerParameters(NamedTuple):
    """The parameters of one layer: matrices that tensor parallelism divides, and the rest.

    `experts`: the matrices of all routed experts. `router`: their gate, which every rank has.
    """

    attention: int
    feed_forward: int
    experts: int
    router: int
    divided_biases: int
    whole: int

    @property
    def total(self) -> int:
        return sum(self)


def layer_parameters(model: ModelShape) -> LayerParameters:
    """One layer: 2hq + 2hk + M·h·f, where M = 3 matrices if gated, else 2, and biases and norms."""
    h, q, kv, f = model.hidden, model.query_width, model.kv_width, model.ffn
    matrices = 3 if model.gated else 2
    experts = router = 0
    feed_forward = matrices * h * f
    if found := model.experts:
        experts, router = found.number * matrices * h * found.ffn, h * found.number
        feed_forward = matrices * h * found.shared_ffn
    attention_bias = model.attention_bias or ("all" if model.bias else "none")
    divided = q + 2 * kv if attention_bias != "none" else 0
    whole = model.norms * h * (1 if model.norm == "rms" else 2)
    whole += h if attention_bias == "all" else 0
    if model.bias and not model.experts:
        divided += (matrices - 1) * f
        whole += h
    return LayerParameters(2 * h * (q + kv), feed_forward, experts, router, divided, whole)


def count_parameters(model: ModelShape) -> int:
    """All parameters of the model, with its embeddings and its head."""
    return model.layers * layer_parameters(model).total + _beside_layers(model)


def count_active(model: ModelShape) -> int:
    """The parameters that one token uses: of the experts, `top_k`."""
    if not model.experts:
        return count_parameters(model)
    layer = layer_parameters(model)
    unused = layer.experts * (model.experts.number - model.experts.top_k) // model.experts.number
    return count_parameters(model) - model.layers * unused


def _beside_layers(model: ModelShape) -> int:
    """Embeddings and head, learned positions, the norm behind the layers (BERT: before them)."""
    tables = model.vocab * model.hidden * (1 if model.tied else 2)
    norm = model.hidden * (1 if model.norm == "rms" else 2)
    return tables + position_rows(model) * model.hidden + norm + model.further


def position_rows(model: ModelShape) -> int:
    """Rows of the table of learned positions; by default as many as tokens in a sequence."""
    if model.positions != "learned":
        return 0
    return model.sequence if model.position_rows is None else model.position_rows


class RankParameters(NamedTuple):
    """Parameters of one rank: those that all data-parallel ranks share, and its experts'."""

    dense: float
    experts: float
    layer: float
    table: float


def layers_of_stage(model: ModelShape, layout: Layout, stage: int) -> int:
    """The layers of a pipeline stage. Embedding and head count as layers where that divides."""
    layers, p = model.layers, layout.pipeline
    if layers % p and (layers + 2) % p == 0:
        return (layers + 2) // p - (stage in (0, p - 1))
    return -(-layers // p)


def rank_parameters(model: ModelShape, layout: Layout, stage: int) -> RankParameters:
    """The parameters of a rank of pipeline stage `stage` (from 0).

    Tensor parallelism divides matrices and tables. With several stages, a tied table is on the
    first and again on the last.
    """
    t, p = layout.tensor, layout.pipeline
    is_first, is_last = stage == 0, stage == p - 1
    of_layer = layer_parameters(model)
    divided = of_layer.attention + of_layer.feed_forward + of_layer.divided_biases
    layer = divided / t + of_layer.router + of_layer.whole
    layers = layers_of_stage(model, layout, stage)
    table = model.vocab * model.hidden / t
    tables = (1 if model.tied else 2) if p == 1 else (1 if is_first or is_last else 0)
    dense = layers * layer + tables * table
    if is_first:
        dense += position_rows(model) * model.hidden
    if is_last:
        dense += model.further + model.hidden * (1 if model.norm == "rms" else 2)
    experts = layers * of_layer.experts / (layout.expert * (layout.expert_tensor or t))
    return RankParameters(dense, experts, layer, table)
