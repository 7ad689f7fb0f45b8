"""The report of `submit` about the specs and jobs that a spec needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from clusterjobs.commands.show import printable, table
from clusterjobs.commands.submit.needed_states import BY_NAME, KnownJobs
from clusterjobs.jobs.resume import counts_in_words
from clusterjobs.spec.need_graph import NeedingSpec


class NeedRow(NamedTuple):
    """One needed spec, or job, for people and scripts: its jobs, and why they were submitted, or
    why not."""

    spec: str
    job_ids: tuple[str, ...]
    submitted: bool
    why: str


def row_to_submit(one: NeedingSpec, known: KnownJobs, names: tuple[str, ...]) -> NeedRow:
    """The row of a spec whose named points will be submitted."""
    states = [known.states[name] for name in names]
    points = f"{len(names)} of {len(known.states)} points: " if one.is_sweep else "it is "
    why = counts_in_words(states) if one.is_sweep else states[0].state
    return NeedRow(one.file, (), True, f"{points}{why}")


def row_of_others(one: NeedingSpec, known: KnownJobs) -> NeedRow:
    """The row of a spec that needs no submission."""
    states = known.states.values()
    ids = tuple(dict.fromkeys(s.job_id.partition("_")[0] for s in states if s.job_id))
    state = counts_in_words(states) if one.is_sweep else next(iter(states)).state
    by_name = ", found by its name" if any(s.reason == BY_NAME for s in states) else ""
    return NeedRow(one.file, ids, False, f"there already: {state}{by_name}")


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
