"""Collects what happens to each spec: counts, and one example for each kind of change.

Its size grows with the number of different changes, not with the number of specs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from clusterjobs.commands.impact.differences import difference, elided
from clusterjobs.commands.impact.rendering import Rendered

# The states, in the order of a report.
FAILS = "fails"
REFUSED = "refused"
CHANGED = "changed"
MENDED = "mended"
NEW = "new"
FAILED_BEFORE = "failed_before"
UNCHANGED = "unchanged"
BASE = "base"
STATES = (FAILS, REFUSED, CHANGED, MENDED, NEW, FAILED_BEFORE, UNCHANGED, BASE)
FAILURES = (FAILS, REFUSED, FAILED_BEFORE)

_MAX_PATHS = 100  # named for each group
_MAX_EXAMPLES = 1_000  # groups whose example is kept


class Outcome(NamedTuple):
    """What happens to one spec. Outcomes with the same state and key are one group."""

    spec: str
    state: str
    key: str = ""
    text: str = ""
    rule: str = ""


@dataclass
class Group:
    """Specs with the same outcome. `text` is a message or a diff of the first one."""

    state: str
    text: str
    rule: str
    count: int = 0
    specs: list[str] = field(default_factory=list)  # the first ones


class Groups:
    """All outcomes so far."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(STATES, 0)
        self._groups: dict[tuple[str, str], Group] = {}

    def add(self, outcome: Outcome) -> None:
        """Count one more spec."""
        self.counts[outcome.state] += 1
        if outcome.state in (UNCHANGED, BASE):
            return
        text = outcome.text if len(self._groups) < _MAX_EXAMPLES else "(too many to keep: diff it)"
        key = (outcome.state, outcome.key)
        group = self._groups.setdefault(key, Group(outcome.state, text, outcome.rule))
        group.count += 1
        if len(group.specs) < _MAX_PATHS:
            group.specs.append(outcome.spec)

    def of(self, state: str) -> list[Group]:
        """The groups of a state, the largest first."""
        found = [group for group in self._groups.values() if group.state == state]
        return sorted(found, key=lambda group: (-group.count, group.specs[0]))

    @property
    def specs(self) -> int:
        """How many specs were rendered; incomplete bases of other specs do not count."""
        return sum(self.counts.values()) - self.counts[BASE]

    @property
    def any_fails(self) -> bool:
        return any(self.counts[state] for state in FAILURES)


def outcome_of(
    spec: str, before: Rendered | None, after: Rendered, words: tuple[str, ...], is_base: bool
) -> Outcome:
    """Compare both renders of a spec; `before` is None for one that did not exist.

    `words` are names that differ from spec to spec, such as its path. A base of other specs may
    be incomplete: then its failure does not count.
    """
    if after.failed:
        failed_before = before is not None and before.failed
        if is_base and (failed_before or before is None):
            return Outcome(spec, BASE)
        state = FAILED_BEFORE if failed_before else REFUSED if after.rule else FAILS
        key = after.rule or elided(after.reason, words)
        return Outcome(spec, state, key, after.message, after.rule)
    if before is None:
        return Outcome(spec, NEW)
    if before.failed:
        return Outcome(spec, MENDED, elided(before.reason, words), before.message, before.rule)
    found = difference(before.files, after.files, (after.name, before.name, *words))
    return Outcome(spec, CHANGED, *found) if found else Outcome(spec, UNCHANGED)
