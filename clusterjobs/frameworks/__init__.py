"""The frameworks by name. A new one is a file beside these and a line in this list."""

from __future__ import annotations

from pydantic import BaseModel

from clusterjobs.frameworks import (
    command,
    deepspeed,
    fairseq,
    gpt_neox,
    horovod,
    megatron_deepspeed,
    torchrun,
)
from clusterjobs.frameworks.contract import Framework

FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        command.Command(),
        deepspeed.DeepSpeed(),
        fairseq.Fairseq(),
        gpt_neox.GptNeoX(),
        horovod.Horovod(),
        megatron_deepspeed.MegatronDeepSpeed(),
        torchrun.Torchrun(),
    )
}


def option_models() -> dict[str, type[BaseModel] | None]:
    """Each framework's own keys of the spec."""
    return {name: framework.options for name, framework in FRAMEWORKS.items()}
