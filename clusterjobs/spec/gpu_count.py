"""The number of GPUs in a spec, with or without Slurm's type of them: `4`, `a100:4`."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import ValidatorFunctionWrapHandler, WrapValidator

from clusterjobs.spec.field_types import CountOrNone


class Gpus(int):
    """A number of GPUs; `type` as in Slurm's Gres, "" if the spec names none."""

    type = ""


_TYPED_GPUS = re.compile(r"([A-Za-z][\w.-]*):([0-9]{1,6})", re.ASCII)


def gpus(value: Any, checked: ValidatorFunctionWrapHandler) -> Gpus:
    """`4`, or with Slurm's type of the GPUs, `a100:4`."""
    if value is False:
        raise ValueError(
            "expected a number: to request no GPUs from Slurm, write sbatch: {gpus-per-node: false}"
        )
    typed = _TYPED_GPUS.fullmatch(value) if isinstance(value, str) else None
    number = Gpus(checked(int(typed[2]) if typed else value))
    number.type = typed[1] if typed else ""
    return number


def gpu_type(number: int | None) -> str:
    """The type that `gpus_per_node` names, else ""."""
    return number.type if isinstance(number, Gpus) else ""


GpuCount = Annotated[CountOrNone, WrapValidator(gpus)]
