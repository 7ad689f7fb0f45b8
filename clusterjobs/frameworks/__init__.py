"""The frameworks by name. A new one is a file beside these and a line in this list."""

from __future__ import annotations

from clusterjobs.frameworks import command, deepspeed, gpt_neox, megatron_deepspeed, torchrun
from clusterjobs.frameworks.contract import Framework
from clusterjobs.spec.part import Part

FRAMEWORKS: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        command.Command(),
        deepspeed.DeepSpeed(),
        gpt_neox.GptNeoX(),
        megatron_deepspeed.MegatronDeepSpeed(),
        torchrun.Torchrun(),
    )
}


def option_models() -> dict[str, type[Part] | None]:
    """Each framework's own keys of the spec."""
    return {name: framework.options for name, framework in FRAMEWORKS.items()}
