"""Detects, by its text, whether a file is a description of a Slurm cluster.

It knows the keys by which a file of another kind, or one that is not valid YAML, is told apart. It
must not know what they mean.
"""

from __future__ import annotations

import re

_KIND = re.compile(r"""^(?:\{[ \t]*)?["']?(kind)["']?[ \t]*:[ \t]*["']?slurm\b""", re.MULTILINE)
_ANY_KIND = re.compile(r"""^(?:\{[ \t]*)?["']?kind["']?[ \t]*:""", re.MULTILINE)
_SECTION = re.compile(r"^(?:node_types|partitions)[ \t]*:", re.MULTILINE)
_OTHER = re.compile(r"^(?:[ \t]*(?:Scheduling|SlurmQueues)|framework|cluster)[ \t]*:", re.MULTILINE)


def find_kind(text: str) -> re.Match[str] | None:
    """Where `kind: slurm` stands at the top; its key is group 1."""
    return _KIND.search(text.removeprefix("\ufeff"))


def is_description(text: str) -> bool:
    """Whether it is meant to be one: by `kind: slurm`, or by sections that no other file has."""
    if find_kind(text):
        return True
    sections = _SECTION.search(text) or _ANY_KIND.search(text.removeprefix("\ufeff"))
    return bool(sections) and not _OTHER.search(text)
