"""config.json in Hugging Face's format: what a file says, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from clusterjobs.models.huggingface import ARCHITECTURES, shape_of_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "max_position_embeddings": 8192,
    "vocab_size": 128_256,
}


def mistakes(**changes: Any) -> dict[str, str]:
    found = shape_of_config({**LLAMA, **changes})
    assert found.shape is None
    return {one.key: f"{one.what}: {one.hint}" for one in found.mistakes}


def test_shape_of_a_llama() -> None:
    shape = shape_of_config(LLAMA).shape
    assert shape is not None
    assert (shape.kv_heads, shape.head_dim, shape.gated, shape.tied) == (8, 128, True, False)
    assert (shape.norm, shape.positions, shape.bias) == ("rms", "rotary", False)


def test_roberta_has_two_more_positions_than_tokens() -> None:
    config = {**LLAMA, "model_type": "roberta", "max_position_embeddings": 514}
    shape = shape_of_config(config).shape
    assert shape is not None
    assert (shape.sequence, shape.position_rows, shape.causal) == (512, 514, False)


def test_null_is_the_default() -> None:
    shape = shape_of_config({**LLAMA, "head_dim": None, "num_key_value_heads": None}).shape
    assert shape is not None
    assert (shape.head_dim, shape.kv_heads) == (128, 32)


@pytest.mark.parametrize("value", [0, -1, 4096.5, "4096", True, [], {}, 10**12, float("nan")])
def test_a_size_that_is_no_count_is_refused(value: Any) -> None:
    assert (
        "is not a count: an integer, 1 to 10,000,000" in mistakes(hidden_size=value)["hidden_size"]
    )


def test_all_wrong_keys_are_reported_at_once() -> None:
    assert list(mistakes(hidden_size=0, vocab_size="x", tie_word_embeddings="no")) == [
        "hidden_size",
        "vocab_size",
        "tie_word_embeddings",
    ]


def test_kv_heads_must_divide_heads() -> None:
    assert mistakes(num_key_value_heads=64)["num_key_value_heads"].startswith(
        "64 kv heads, and only 32 heads"
    )
    assert "5 kv heads do not divide 32 heads" in mistakes(num_key_value_heads=5).popitem()[1]


def test_unknown_architecture_says_which_keys_are_missing() -> None:
    told = shape_of_config({"model_type": "mamba2", "hidden_size": 64, "vocab_size": 100})
    (mistake,) = told.mistakes
    assert mistake.what.startswith("'mamba2' is not an architecture that is known: ")
    assert "{hidden: 64, vocab: 100, layers: ..., heads: ..., sequence: ...}" in mistake.hint
    assert told.is_unknown
    assert not shape_of_config({"hidden_size": 64}).is_unknown
    assert not shape_of_config({**LLAMA, "hidden_size": 0}).is_unknown


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_an_empty_file_of_each_architecture_is_answered(kind: str) -> None:
    found = shape_of_config({"model_type": kind})
    assert found.shape is None
    assert found.mistakes
