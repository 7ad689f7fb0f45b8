"""What a check says about a config, before it is known where in the file that stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from clusterjobs.errors import Problem
from clusterjobs.yaml_source import Document, Path, dotted

Level = Literal["error", "warning", "info"]


@dataclass(frozen=True)
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
    where = document.locate_key(path) if finding.at_key else document.locate(path)
    return Problem(
        finding.text,
        where,
        dotted(finding.path),
        finding.hint,
        warning=finding.level != "error",
        info=finding.level == "info",
        validator=finding.validator,
    )


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once; where ParallelCluster says it too, its words with our hint."""
    found = list(dict.fromkeys(findings))
    ours = {f.path: f for f in found if not f.validator}
    merged: dict[Path, Finding] = {}
    for finding in found:
        own = ours.get(finding.path)
        if finding.validator and own and own.level == finding.level == "error":
            merged[finding.path] = finding
    kept = [f for f in found if f.validator or f.path not in merged]
    return [
        Finding(f.text, f.path, f.level, f.validator, ours[f.path].hint, ours[f.path].at_key)
        if merged.get(f.path) is f and ours[f.path].hint
        else f
        for f in kept
    ]
