"""The base of all models of a spec: what pydantic is asked for everywhere.

It knows pydantic's options; it must not know any key of a spec.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SpecModel(BaseModel):
    """A mapping of the spec: unknown keys are errors, and the values cannot be changed.

    `defer_build`: a validator is built when it is first used, because a run uses few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
