"""What an invariant compares, and how it reports what is broken."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from clusterjobs import resources
from clusterjobs.render.invariants.script_parts import Line, ScriptParts, code_of
from clusterjobs.render.site.templates import SiteFile


@dataclass(frozen=True)
class Scripts:
    """A script with a site's templates, and the one without. `secrets`: names of variables."""

    site: ScriptParts
    packaged: ScriptParts
    secrets: tuple[str, ...]
    inserted: tuple[SiteFile, ...]

    def added(self) -> Iterator[Line]:
        """The lines that only the site's script has."""
        return (one for one in self.site.lines if one.code and not self.is_packaged(one))

    def is_packaged(self, line: Line) -> bool:
        """Whether the packaged templates print this line, in this job or in another one."""
        return line.code in self._known or line.code in _packaged_codes()

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(one.code for one in self.packaged.lines)


class Broken(NamedTuple):
    """An invariant that a script does not keep: what, and what to do.

    `line` of the script; or, if something is missing, the packaged `template` that has it.
    """

    what: str
    hint: str
    line: str = ""
    template: str = ""


@functools.cache
def _packaged_codes() -> frozenset[str]:
    texts = resources.template_texts().values()
    return frozenset(code_of(line) for text in texts for line in text.split("\n"))


def first(lines: tuple[Line, ...], pattern: str) -> Line | None:
    """The first line whose code has the pattern."""
    return next((one for one in lines if re.search(pattern, one.code)), None)
