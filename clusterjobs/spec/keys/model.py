"""The keys `model` and `training` of a spec: the size of a transformer, and how long it trains.

It knows the keys; whether they fit each other is checked by the plan.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag, model_validator

from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import Count, Flag
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.references import as_text

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


class Model(SpecModel):
    """The size of a transformer. `sequence` is in tokens; `vocab` is the size before padding.

    `kv_heads`: heads of keys and values, if fewer than `heads`. `ffn`: the width of the
    feed-forward part, of one expert if there are `experts`. `glu`: it has a gate, as SwiGLU.
    `tied`: the head is the embedding. `experts_per_token`: how many of them a token uses.
    """

    layers: Count
    hidden: Count
    heads: Count
    sequence: Count
    vocab: Count | None = None
    kv_heads: Count | None = None
    ffn: Count | None = None
    glu: Flag | None = None
    tied: Flag | None = None
    experts: Count | None = None
    experts_per_token: Count | None = None


class ModelOfConfig(Model):
    """A model that a file describes: a config.json in Hugging Face's format.

    Other keys replace what the file says. A size is 0 until the file has been read.
    """

    config: field_types.Path
    layers: Count = 0
    hidden: Count = 0
    heads: Count = 0
    sequence: Count = 0


def _kind(value: Any) -> str:
    has_file = isinstance(value, ModelOfConfig) or (isinstance(value, dict) and "config" in value)
    return "model of a file" if has_file else "model of sizes"


AnyModel = Annotated[
    Annotated[ModelOfConfig, Tag("model of a file")] | Annotated[Model, Tag("model of sizes")],
    Discriminator(_kind),
]


def _amount(value: Any) -> float:
    """A positive number, also as 300e9."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number: write 300e9 for 300 billion")
    if not 1 <= value <= _MOST or value != int(value):
        shown = as_text(value)[:40]
        raise ValueError(f"{shown} is not a whole number from 1 to 1e18: write, for example, 300e9")
    return float(value)


_MOST = 1e18
Amount = Annotated[float, BeforeValidator(_amount)]


class Training(SpecModel):
    """How long the training is, by one of the three."""

    tokens: Amount | None = None
    samples: Amount | None = None
    steps: Amount | None = None

    @model_validator(mode="after")
    def _one(self) -> "Training":
        given = [name for name, value in self if value is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of tokens, samples and steps"
            raise ValueError(f"{found} given: write one of them, training: {{tokens: 300e9}}")
        return self
