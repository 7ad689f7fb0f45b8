"""The frameworks by name, from the entry points `clusterjobs.frameworks` of all installed packages.

A framework is one file here (or a package) and a line in pyproject.toml. Only the spec's framework
is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from clusterjobs.frameworks.base import Framework
from clusterjobs.registry import Registry
from clusterjobs.spec.model import SpecModel

FRAMEWORKS: Mapping[str, Framework] = Registry("clusterjobs.frameworks", Framework)  # type: ignore[type-abstract]  # only for isinstance


class _OptionModels(Mapping[str, type[SpecModel] | None]):
    def __getitem__(self, name: str) -> type[SpecModel] | None:
        return FRAMEWORKS[name].options

    def __contains__(self, name: object) -> bool:
        return name in FRAMEWORKS

    def __iter__(self) -> Iterator[str]:
        return iter(FRAMEWORKS)

    def __len__(self) -> int:
        return len(FRAMEWORKS)


def option_models() -> Mapping[str, type[SpecModel] | None]:
    """Each framework's own keys of the spec."""
    return _OptionModels()
