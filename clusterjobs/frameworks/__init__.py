"""The frameworks by name, from the entry points `clusterjobs.frameworks` of all installed packages.

A framework is one file here (or a package) and a line in pyproject.toml. Only the spec's framework
is loaded.
"""

from collections.abc import Iterator, Mapping

from clusterjobs.frameworks.base import Framework
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.registry import Registry
from clusterjobs.spec.model import OptionModels, SpecModel

FRAMEWORKS: Mapping[str, Framework] = Registry("clusterjobs.frameworks", Framework)  # type: ignore[type-abstract]  # only for isinstance


class _Options(Mapping[str, type[SpecModel] | None]):
    """The `options` of registered frameworks or launchers."""

    def __init__(self, registry: Mapping[str, Framework] | Mapping[str, Launcher]) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> type[SpecModel] | None:
        return self._registry[name].options

    def __contains__(self, name: object) -> bool:
        return name in self._registry

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry)

    def __len__(self) -> int:
        return len(self._registry)


def option_models() -> OptionModels:
    """The keys of the spec that each framework and each launcher has."""
    return OptionModels(_Options(FRAMEWORKS), _Options(LAUNCHERS))
