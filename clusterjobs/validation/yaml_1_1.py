"""Values that ParallelCluster's parser, of YAML 1.1, reads as another number than they look.

12:00:00 is the number 43200 there, and 010 is 8.
"""

import re
from collections.abc import Iterator

import yaml

from clusterjobs.validation.finding import Finding, has, scalars
from clusterjobs.yaml.document import Document, Path, look_at

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_PLAIN = (True, False)
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*|0x[0-9a-fA-F]+|[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?|\.inf)")


def find_misread(document: Document, base: Path) -> Iterator[Finding]:
    """Values without quotes that YAML 1.1 alone takes for that number."""
    for path, _ in scalars(look_at(document.value, base)):
        whole = (*base, *path)
        if not has(document.value, whole):
            continue
        start, end = document.span(whole)
        written = document.text[start:end].strip()
        theirs = _read(written)
        if theirs is not None and not _DECIMAL.fullmatch(written):
            what = f"ParallelCluster reads {written} as the number {theirs}, by YAML 1.1"
            yield Finding(what, path, hint=f'write it in quotes: "{written}"')


def _read(written: str) -> float | None:
    """The number that YAML 1.1 reads; None if it reads none."""
    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, written, _PLAIN)  # type: ignore[no-untyped-call]
    if tag not in _NUMBERS:
        return None
    try:
        number = loader.construct_object(yaml.ScalarNode(tag, written))
    except ValueError:
        return None
    return number if isinstance(number, (int, float)) else None
