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

DATA_FILE = pathlib.Path(__file__).with_name("slurm_options.json")

Program = Literal["sbatch", "srun"]


class KnownOptions(NamedTuple):
    """The options of one program, in any version from `oldest` to `newest`, and those of pyxis.

    `takes_value`: long name -> "required", "optional" or "none". `short`: letter -> long name.
    """

    takes_value: Mapping[str, str]
    short: Mapping[str, str]
    oldest: str
    newest: str


@functools.cache
def known_options(program: Program) -> KnownOptions:
    """The options of sbatch or srun."""
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    own = data[program]
    kinds = {name: kind for kind in ("required", "optional", "none") for name in own[kind]}
    return KnownOptions(kinds, own["short"], data["oldest"], data["newest"])
