"""Megatron-DeepSpeed's own keys of a spec."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from clusterjobs.frameworks.ds_config import Zero
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import SpecModel


class ActivationCheckpointing(SpecModel):
    """Activations computed again in the backward pass, by DeepSpeed's implementation.

    One checkpoint per `layers` layers; `partition` divides it over the tensor ranks, `cpu` moves
    it to the host's memory.
    """

    layers: Count = 1
    partition: bool = False
    cpu: bool = False


def _switch(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    if not isinstance(value, (dict, ActivationCheckpointing)):
        raise ValueError(
            "expected true, false or a mapping: {layers: 1, partition: true, cpu: false}"
        )
    return value


class Options(SpecModel):
    """`zero`, `activation_checkpointing`, and `ds_config` for the keys that are not derived."""

    zero: Zero = Zero(stage=0)
    activation_checkpointing: Annotated[
        ActivationCheckpointing | None, BeforeValidator(_switch)
    ] = None
    ds_config: dict[str, Any] = Field(default_factory=dict)
