"""The base of all models of a spec: what pydantic is asked for everywhere.

It knows pydantic's options; it must not know any key of a spec.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """A mapping of the spec: unknown keys are errors, and the values cannot be changed.

    `defer_build`: a validator is built when it is first used, because a run uses few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


# ------------------------------------------------------------------ option models
#
# The keys that frameworks and launchers add to a spec.


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
