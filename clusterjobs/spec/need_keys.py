"""The keys of `needs:`: the jobs that must run before this one.

It knows the keys and the types of single values.
"""

from __future__ import annotations

from typing import Literal

from clusterjobs.spec.field_types import Path
from clusterjobs.spec.model import SpecModel


class Need(SpecModel):
    """A spec, or the id of a job, and what this job waits for.

    `success`, `end`, `failure`, `start` of it; `each`: each point waits for the same point there.
    """

    spec: Path | None = None
    job: int | str | None = None
    on: Literal["success", "end", "failure", "each", "start"] = "success"
