"""GPT-NeoX's merged config: the keys of the user's files, of `neox` and of the spec, and findings.

Knows where a key is written; it must not know what any key means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Location, Problem
from clusterjobs.frameworks.ds_config import leaves
from clusterjobs.frameworks.rules import Finding
from clusterjobs.yaml.document import Document, Path, dotted


class Given(NamedTuple):
    """The value of a key.

    `where` is the key's position, `path` its place in the spec, and `document` the file that it is
    in, if it is one of the user's.
    """

    value: Any
    where: Location
    path: Path
    document: Document | None = None


Givens = Mapping[str, Given]


class Config(NamedTuple):
    """All keys that are known. `is_complete`: every file has been read.

    `pins`: versions of packages that the spec requires.
    """

    keys: Givens
    is_complete: bool
    pins: Mapping[str, str]

    def value(self, *names: str) -> Any:
        """The value of a key, or of a key in a mapping; None if there is none."""
        first, *rest = names
        found = self.keys[first].value if first in self.keys else None
        for name in rest:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def number(self, *names: str) -> float | None:
        """The same, if it is a number."""
        found = self.value(*names)
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return found if is_number else None

    def section(self, name: str) -> Mapping[str, Any]:
        """A mapping; empty where the key is missing or no mapping."""
        found = self.value(name)
        return found if isinstance(found, dict) else {}

    def lacks(self, name: str) -> bool:
        """Whether no file and no key of the spec has it, as far as all files have been read."""
        return self.is_complete and self.value(name) is None

    @property
    def precision(self) -> str | None:
        """fp16, bfloat16 or fp32, as GPT-NeoX derives it; None: neither key says it."""
        if self.value("precision") is not None:
            return str(self.value("precision")).lower()
        enabled = {"fp16": "fp16", "bf16": "bfloat16"}
        found = [name for key, name in enabled.items() if self.value(key, "enabled") is True]
        return found[0] if found else None


def report(finding: Finding, config: Config, diagnostics: Diagnostics) -> None:
    """Report a finding where its key is written, or at `configs` where it is missing."""
    given = config.keys.get(str(finding.path[0])) if finding.path else None
    if given is None:
        key = dotted(finding.path) or "configs"
        where = diagnostics.where(("configs",))
        diagnostics.add([Problem(finding.what, where, key, finding.hint, finding.warning)])
    elif given.document is None:
        path = (*given.path, *finding.path[1:])
        diagnostics.problem(path, finding.what, finding.hint, warning=finding.warning)
    else:
        where = _locate(given, finding.path[1:])
        key = dotted(finding.path)
        diagnostics.add([Problem(finding.what, where, key, finding.hint, finding.warning)])


def _locate(given: Given, path: Path) -> Location:
    """The position of a value in a file; of the key, where it is the key's own value."""
    assert given.document is not None
    return given.document.locate((*given.path, *path)) if path else given.where


def written_values(config: Config) -> Iterator[tuple[Path, Any]]:
    """The single values of the user's files, each with its path."""
    for name, given in config.keys.items():
        if given.document is not None:
            yield from leaves(given.value, (name,))
