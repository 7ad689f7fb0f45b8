"""What DeepSpeed's config says about memory: ZeRO's stage, and what is offloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.frameworks.ds_config import Zero


def offload_of(config: Mapping[str, Any]) -> str:
    """What is kept in the host's memory: `none`, `optimizer` or `parameters`."""
    section = config.get("zero_optimization")
    if not isinstance(section, Mapping):
        return "none"
    for key, name in (("offload_param", "parameters"), ("offload_optimizer", "optimizer")):
        found = section.get(key)
        if isinstance(found, Mapping) and found.get("device") in ("cpu", "nvme"):
            return name
    return "none"


def stage_of(zero: Zero | None, config: Mapping[str, Any]) -> int:
    """ZeRO's stage: that of the spec, else of the config; 0 without one."""
    if zero:
        return zero.stage
    section = config.get("zero_optimization")
    stage = section.get("stage") if isinstance(section, Mapping) else None
    return stage if stage in (0, 1, 2, 3) else 0


def deepspeed_layout(zero: Zero | None, config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of Layout for a program that calls DeepSpeed."""
    return {
        "engine": "deepspeed",
        "zero": stage_of(zero, config),
        "offload": offload_of(config),
    }
