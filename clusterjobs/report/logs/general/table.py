"""Rows of a table, as lines with names: a head of names stands above rows of numbers.

step,loss,sec/it            |  step |  loss |  tok/s |
10,4.2,0.5                  |    10 |   4.2 | 51,200 |
"""

import re

from clusterjobs.report.logs.general.names import OWN, field_of

# The first of these that a head has is between its cells; names have spaces beside others alone.
_SEPARATORS = tuple(map(re.compile, (r"[|\u2502]", r"\t", r"[,;]", r" +")))
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*(?:e[-+]?\d+)?|nan|inf)[a-z%]{0,3}")
_WORD = re.compile(r"[a-z0-9]+")
_FEWEST, _MOST = 2, 60  # columns
_LONGEST = 1000  # characters of a head
HEAD = re.compile(
    rb"(?im)^[^\d\n]{0,200}\b(?:global_)?(?:step|iter|iteration|update)s?\b[^\d\n]{0,800}$"
)


class Table:
    """The columns of a head."""

    def __init__(self, names: list[str], cells: re.Pattern[str]) -> None:
        self._names, self._cells = names, cells

    def named(self, line: str) -> str | None:
        """`step: 10 | loss: 4.2` of a row; None if the line is none. In small letters."""
        cells = _cells_of(line, self._cells)
        if len(cells) != len(self._names):
            return None
        known = [
            pair for pair in zip(self._names, cells, strict=True) if _NUMBER.fullmatch(pair[1])
        ]
        if not known or known[0][0] != self._names[0]:
            return None
        return " | ".join(f"{name}: {cell}" for name, cell in known)


def table_of(line: str) -> Table | None:
    """The table whose head this line is, in small letters; None if it is none."""
    if len(line) > _LONGEST or any(map(str.isdigit, line)):
        return None
    line = line.strip()
    separator = next((one for one in _SEPARATORS if one.search(line)), _SEPARATORS[-1])
    names = _cells_of(line, separator)
    if not _FEWEST <= len(names) <= _MOST or len(set(names)) < len(names):
        return None
    fields = [field_of(tuple(_WORD.findall(name)), "", OWN) for name in names]
    meanings = [one.meaning for one in fields if one]
    is_head = len(meanings) > 1 and meanings[0] in ("step", "epoch") and "step" in meanings
    return Table(names, separator) if is_head else None


def _cells_of(line: str, separator: re.Pattern[str]) -> list[str]:
    return [cell for part in separator.split(line.strip(" |\u2502")) if (cell := part.strip())]
