"""What `submit` says of the specs and jobs that a spec needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterjobs.commands.show import printable, table
from clusterjobs.commands.submit_needs import NeedRow


def needs_table(rows: Sequence[NeedRow]) -> str:
    """A row for each spec that is needed: its jobs, and why it was submitted, or why not."""
    titles = ("needs", "submitted", "job", "why")
    cells = [
        (printable(one.spec), _answer(one), ", ".join(one.job_ids), printable(one.why))
        for one in rows
    ]
    return table([titles, *cells])


def _answer(row: NeedRow) -> str:
    """A dry run has no ids."""
    if not row.submitted:
        return "no"
    return "yes" if row.job_ids else "would be"


def needs_data(rows: Sequence[NeedRow]) -> list[dict[str, Any]]:
    """The same as data. Names are stable across versions."""
    return [
        {
            "spec": one.spec,
            "job_ids": list(one.job_ids),
            "submitted": one.submitted,
            "why": one.why,
        }
        for one in rows
    ]
