"""Detects, by its text, whether a file is a description of a Slurm cluster.

It knows the keys by which a file of another kind, or one that is not valid YAML, is told apart. It
must not know what they mean.
"""

from __future__ import annotations

import re

_KIND = re.compile(r"""^(?:\{[ \t]*)?["']?kind["']?[ \t]*:""", re.MULTILINE)
_SECTION = re.compile(r"^(?:node_types|partitions)[ \t]*:", re.MULTILINE)
_OTHER = re.compile(r"^[ \t]*(?:Scheduling|SlurmQueues|framework|cluster)[ \t]*:", re.MULTILINE)


def is_description(text: str) -> bool:
    """Whether it has `kind:` at the top, or sections that only a description has."""
    text = text.removeprefix("\ufeff")
    if _KIND.search(text):
        return True
    return bool(_SECTION.search(text)) and not _OTHER.search(text)
