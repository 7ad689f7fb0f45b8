"""The most frequent lines of a log that no format knows, for a person who writes a pattern."""

from __future__ import annotations

import re
from collections import Counter

from clusterjobs.report.lines import clean_lines

_MOST = 3
_LENGTH = 160  # characters of a line that are shown
_NUMBER = re.compile(r"\d+")


def frequent_lines(text: bytes) -> tuple[str, ...]:
    """An example of each; lines that differ only in their numbers count as the same."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for raw in text.split(b"\n"):
        for line in clean_lines(raw[:_LENGTH]):
            form = _NUMBER.sub("0", line.text)
            counts[form] += 1
            examples.setdefault(form, line.text)
    return tuple(examples[form] for form, _ in counts.most_common(_MOST))
