"""The keys that frameworks and launchers add to a spec.

It knows that they exist, by the name of their owner; it must not know any of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.spec.model import SpecModel


class OptionModels(NamedTuple):
    """Name -> model. A framework's keys are keys of the spec; a launcher's are below its name.

    Both load a framework or a launcher only when it is looked up.
    """

    frameworks: Mapping[str, type[SpecModel] | None]
    launchers: Mapping[str, type[SpecModel] | None]

    def all_keys(self) -> Iterator[tuple[str, Any]]:
        """The further keys of a spec, with their types. Loads all frameworks and launchers."""
        for model in filter(None, self.frameworks.values()):
            for name, field in model.model_fields.items():
                yield field.alias or name, field.annotation
        for name, options in self.launchers.items():
            if options:
                yield name, options
