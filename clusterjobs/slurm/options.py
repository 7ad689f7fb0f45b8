"""The options that sbatch and srun accept: their names, and whether they take a value.

The data is in `slurm_options.json`, with its date and source. It must not know which of them a spec
may set.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from clusterjobs.text import Value

DATA_FILE = pathlib.Path(__file__).with_name("slurm_options.json")

OLDEST = "22.05"  # version that jobs were tried with: KnownOptions.oldest, without reading the file

Program = Literal["sbatch", "srun"]


class KnownOptions(NamedTuple):
    """The options of one program, in any version from `oldest` to `newest`, and those of pyxis.

    `takes_value`: long name -> "required", "optional" or "none". `short`: letter -> long name.
    `only_in`: long name -> the versions that have it, of `versions`, if others have not.
    """

    takes_value: Mapping[str, str]
    short: Mapping[str, str]
    only_in: Mapping[str, tuple[str, ...]]
    versions: tuple[str, ...]

    @property
    def oldest(self) -> str:
        return self.versions[0]

    @property
    def newest(self) -> str:
        return self.versions[-1]

    def lacks(self, name: str, version: str) -> bool:
        """Whether no `version` near this one, "25.11.8", has the option: it was tried in few.

        Those are the same version, or the ones before and after it.
        """
        wanted, known = _number(version), self.only_in.get(name, self.versions)
        before = [one for one in self.versions if _number(one) <= wanted][-1:]
        after = [one for one in self.versions if _number(one) >= wanted][:1]
        return not {*before, *after} & {*known}


def is_untried(version: str) -> bool:
    """Whether it is older than every version that jobs were tried with."""
    return _number(version) < _number(OLDEST)


def _number(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@functools.cache
def known_options(program: Program) -> KnownOptions:
    """The options of sbatch or srun."""
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    own = data[program]
    kinds = {name: kind for kind in ("required", "optional", "none") for name in own[kind]}
    only_in = {
        name: tuple(versions.split())
        for versions, names in own["only_in"].items()
        for name in names
    }
    return KnownOptions(kinds, own["short"], only_in, tuple(data["versions"]))


class Directive(NamedTuple):
    """One sbatch or srun option: `value` True is a bare flag."""

    name: str
    value: Value | int | bool
    reason: str
