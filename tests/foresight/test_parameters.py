"""Parameter counts of public models, and what one rank holds of them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from clusterjobs.foresight.formulas.memory_parts import count_parameters, rank_parameters
from clusterjobs.models.huggingface import shape_of_config
from clusterjobs.models.records import Layout, ModelShape

# The counts are those of the modules that transformers makes from these configs.
MODELS: dict[str, dict[str, Any]] = json.loads(
    pathlib.Path(__file__).with_name("public_models.json").read_text()
)
GPT = ModelShape(24, 1024, 16, 16, 64, 4096, 1024, 51_200)


def shape(name: str) -> ModelShape:
    found = shape_of_config(MODELS[name]["config"]).shape
    assert found is not None
    return found


@pytest.mark.parametrize("name", MODELS)
def test_count_of_a_public_model_is_exact(name: str) -> None:
    assert count_parameters(shape(name)) == MODELS[name]["parameters"]


def test_at_least_20_public_models_are_counted() -> None:
    assert len(MODELS) >= 20


def test_count_of_a_gpt_is_that_of_the_published_formula() -> None:
    """arXiv 2104.04473, eq. 2, whose last term is the positions and the final norm."""
    layers, h, s, vocab = 24, 1024, 1024, 51_200
    published = 12 * layers * h * h * (1 + 13 / (12 * h) + (vocab + s) / (12 * layers * h))
    assert count_parameters(GPT) == round(published) + 2 * h


def layout(**fields: Any) -> Layout:
    ranks = fields.get("tensor", 1) * fields.get("pipeline", 1)
    return Layout(ranks, 8, 1, 8, "megatron-core", **fields)


def test_one_rank_holds_all_parameters() -> None:
    for name in ("gpt2", "llama-3-8b", "mixtral-8x7b", "falcon-40b", "bert-large-mlm"):
        held = rank_parameters(shape(name), layout(), 0)
        assert held.dense + held.experts == MODELS[name]["parameters"], name


def test_stages_hold_all_parameters_and_a_tied_table_twice() -> None:
    stages = [rank_parameters(GPT, layout(pipeline=4), stage).dense for stage in range(4)]
    assert sum(stages) == count_parameters(GPT) + GPT.vocab * GPT.hidden


def test_tensor_ranks_divide_matrices_and_not_norms() -> None:
    whole, half = (rank_parameters(GPT, layout(tensor=t), 0).dense for t in (1, 2))
    norms_and_positions = 24 * (4 + 2) * 1024 + 2 * 1024 + 1024 * 1024
    assert 2 * half == whole + norms_and_positions


def test_expert_ranks_divide_the_experts_alone() -> None:
    model = shape("mixtral-8x7b")
    one = rank_parameters(model, layout(), 0)
    four = rank_parameters(model, layout(expert=4), 0)
    assert four.dense == one.dense
    assert 4 * four.experts == one.experts
