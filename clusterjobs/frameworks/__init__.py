"""The frameworks by name. A new one is a file beside these and a function in this list.

Each is imported when it is asked for: a render needs one of them, and waits for no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from clusterjobs.frameworks.base import Framework
from clusterjobs.spec.model import SpecModel


def _command() -> Framework:
    from clusterjobs.frameworks.command import Command

    return Command()


def _deepspeed() -> Framework:
    from clusterjobs.frameworks.deepspeed import DeepSpeed

    return DeepSpeed()


def _fairseq() -> Framework:
    from clusterjobs.frameworks.fairseq.framework import Fairseq

    return Fairseq()


def _gpt_neox() -> Framework:
    from clusterjobs.frameworks.gpt_neox.framework import GptNeoX

    return GptNeoX()


def _horovod() -> Framework:
    from clusterjobs.frameworks.horovod import Horovod

    return Horovod()


def _megatron_deepspeed() -> Framework:
    from clusterjobs.frameworks.megatron_deepspeed import MegatronDeepSpeed

    return MegatronDeepSpeed()


def _torchrun() -> Framework:
    from clusterjobs.frameworks.torchrun import Torchrun

    return Torchrun()


_LOADED_BY: dict[str, Callable[[], Framework]] = {
    "command": _command,
    "deepspeed": _deepspeed,
    "fairseq": _fairseq,
    "gpt-neox": _gpt_neox,
    "horovod": _horovod,
    "megatron-deepspeed": _megatron_deepspeed,
    "torchrun": _torchrun,
}

_Value = TypeVar("_Value", covariant=True)


class _OfEach(Mapping[str, _Value]):
    """Something of each framework, which is loaded for it."""

    def __init__(self, value_of: Callable[[Framework], _Value]) -> None:
        self._value_of = value_of

    def __getitem__(self, name: str) -> _Value:
        return self._value_of(_LOADED_BY[name]())

    def __contains__(self, name: object) -> bool:
        return name in _LOADED_BY

    def __iter__(self) -> Iterator[str]:
        return iter(_LOADED_BY)

    def __len__(self) -> int:
        return len(_LOADED_BY)


FRAMEWORKS: Mapping[str, Framework] = _OfEach(lambda framework: framework)


def option_models() -> Mapping[str, type[SpecModel] | None]:
    """Each framework's own keys of the spec."""
    return _OfEach(lambda framework: framework.options)
