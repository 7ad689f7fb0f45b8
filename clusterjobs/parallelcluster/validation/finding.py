"""What a check says about a config, before it is known where in the file that stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

from clusterjobs.errors import Problem
from clusterjobs.yaml.document import Document, Path, dotted

Level = Literal["error", "warning", "info"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One result: `validator` is the name of ParallelCluster's own check, "" for ours.

    `path` is the place in the config that it is about; `at_key` where the key is wrong and not
    its value. `text` is kept as the check wrote it.
    """

    text: str
    path: Path
    level: Level = "error"
    validator: str = ""
    hint: str = ""
    at_key: bool = False


def problems(document: Document, base: Path, findings: Iterable[Finding]) -> list[Problem]:
    """The findings with their lines, `base` being the config's place in the file; in file order."""
    located = [_problem(document, base, finding) for finding in merge(findings)]
    return sorted(located, key=lambda p: (p.where.line, p.where.column) if p.where else (0, 0))


def _problem(document: Document, base: Path, finding: Finding) -> Problem:
    path = (*base, *finding.path)
    at_key = finding.at_key or _is_section(document.value, path)
    return Problem(
        finding.text,
        document.locate_key(path) if at_key else document.locate(path),
        dotted(finding.path),
        finding.hint,
        warning=finding.level != "error",
        info=finding.level == "info",
        validator=finding.validator,
    )


def _is_section(value: Any, path: Path) -> bool:
    """Whether a map or list stands there: its key says more than its first line."""
    for step in path:
        known: Any = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(known, dict) or step not in known:
            return False
        value = known[step]
    return isinstance(value, (dict, list))


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once; where ParallelCluster says it too, its words with our hint."""
    found = list(dict.fromkeys(findings))
    ours = [f for f in found if not f.validator]
    said = {own: next((f for f in found if _says_the_same(f, own)), None) for own in ours}
    hints = {theirs: own.hint for own, theirs in said.items() if theirs}
    return [
        dataclasses.replace(f, hint=f.hint or hints.get(f, ""))
        for f in found
        if f.validator or not said[f]
    ]


def _says_the_same(theirs: Finding, ours: Finding) -> bool:
    if not theirs.validator or theirs.path != ours.path:
        return False
    return theirs.level in ("error", ours.level)
