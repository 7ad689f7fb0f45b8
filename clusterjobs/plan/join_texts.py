"""Joins the texts of a sweep's points into one text with shell variables.

A variable stands for what differs; its values are a column of the script's table. This module knows
texts and marks (spec/references); it must not know plans.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from clusterjobs.plan.variable_names import free_name, names_of_keys, slug
from clusterjobs.spec.references import split_marks, variable

Values = tuple[str, ...]  # one for each point

# Strings and other scalars of JSON and YAML, with marks; what is between them is the same in all
# points.
_SCALAR = re.compile(r'("(?:\0[^\0]*\0|[^"\\\n\0]|\\.)*"|(?:\0[^\0]*\0|[^\s"{}\[\],:\0])+)')
_OPTION = re.compile(r"(?:--?|[+~]{1,2})?([A-Za-z][\w./@-]*)=")
_MAX_VARIABLES = 8  # in one text


class Column(NamedTuple):
    """A shell variable, and its value for each point."""

    name: str
    values: Values


class Columns:
    """The columns of a table, which grow as texts are joined.

    `known`: (key, values) that texts may contain, such as those of the swept keys. They become
    columns when they are used. `taken`: names that the script or the job already uses.
    """

    def __init__(
        self,
        fixed: Sequence[Column],
        known: Iterable[tuple[str, Values]],
        taken: Collection[str],
    ) -> None:
        self._fixed, self._new, self._used = tuple(fixed), list[Column](), set[str]()
        present = {one.values for one in fixed}
        differing = {key: values for key, values in known if len(set(values)) > 1}
        taken = {*taken, *(one.name for one in fixed)}
        self._known: list[Column] = []
        for name, values in zip(names_of_keys(differing, taken), differing.values(), strict=True):
            if values not in present:  # zipped keys may have the same values
                self._known.append(Column(name, values))
        self._taken = {*taken, *(one.name for one in self._known)}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the joined texts need: the known ones in their order, then new ones."""
        known = [one for one in self._known if one.name in self._used]
        return (*self._fixed, *known, *self._new)

    def joined(self, texts: Values, hint: str) -> str:
        """One text for all points; `hint` names a column that has to be made.

        The marks in the texts must be the same.
        """
        if len(set(texts)) == 1:
            return texts[0]
        parts = [split_marks(text) for text in texts]
        return "".join(self._literal(same, hint) for same in zip(*parts, strict=True))

    def joined_config(self, texts: Values) -> str:
        """One text for a config file of all points, compared scalar by scalar if possible."""
        if len(set(texts)) == 1:
            return texts[0]
        parts = [_SCALAR.split(text) for text in texts]
        if len({len(one) for one in parts}) > 1:
            return self.joined(texts, "config")
        same = list(zip(*parts, strict=True))
        if any(len(set(between)) > 1 for between in same[::2]):
            return self.joined(texts, "config")
        key, pieces = "value", []
        for number, one in enumerate(same):
            pieces.append(self._scalar(one, key))
            if number % 2 and same[number + 1][0].startswith(":"):
                key = one[0].strip('"')
        return "".join(pieces)

    def _scalar(self, texts: Values, hint: str) -> str:
        if len(set(texts)) == 1 or not all(text.startswith('"') for text in texts):
            return self.joined(texts, hint)
        return f'"{self.joined(tuple(text[1:-1] for text in texts), hint)}"'

    def _literal(self, texts: Values, hint: str) -> str:
        """One text for texts without marks."""
        if len(set(texts)) == 1:
            return texts[0]
        found = self._explained(texts, slug(hint))
        return found if found is not None else self._with_new(texts, hint)

    def _explained(self, texts: Values, wanted: str) -> str | None:
        """The text with variables of known columns; None if they do not explain the differences."""
        columns = [*self._fixed, *self._known, *self._new]
        columns.sort(key=lambda one: one.name != wanted)
        pieces: list[str] = []
        used: list[str] = []
        while len(set(texts)) > 1:
            found = _first_column(texts, columns)
            if found is None or len(used) == _MAX_VARIABLES:
                return None
            column, start = found
            pieces += (texts[0][:start], variable(column.name))
            used.append(column.name)
            both = zip(texts, column.values, strict=True)
            texts = tuple(text[start + len(value) :] for text, value in both)
        self._used.update(used)
        return "".join((*pieces, texts[0]))

    def _with_new(self, texts: Values, hint: str) -> str:
        """The text with a new variable, for all of it or for what follows an option's `=`."""
        option = _OPTION.match(_common(texts))
        before = option[0] if option else ""
        name = free_name(re.split(r"[./]", option[1])[-1] if option else hint, self._taken)
        self._taken.add(name)
        self._new.append(Column(name, tuple(text[len(before) :] for text in texts)))
        return before + variable(name)


def _first_column(texts: Values, columns: Sequence[Column]) -> tuple[Column, int] | None:
    """A column whose values are in all texts where they begin to differ, and where they start."""
    common = len(_common(texts))
    for column in columns:
        first = max(0, common - len(_common(column.values)))
        for start in range(common, first - 1, -1):
            both = zip(texts, column.values, strict=True)
            if all(_is_at(value, text, start) for text, value in both):
                return column, start
    return None


def _is_at(value: str, text: str, start: int) -> bool:
    """Whether the value occurs at this position, not as a part of a longer number."""
    if not text.startswith(value, start):
        return False
    end = start + len(value)
    cuts_before = value[:1].isdigit() and re.search(r"[0-9]\.?$", text[max(0, start - 2) : start])
    cuts_after = value[-1:].isdigit() and re.match(r"\.?[0-9]", text[end : end + 2])
    return not cuts_before and not cuts_after


def _common(texts: Values) -> str:
    """The characters with which all texts begin."""
    return os.path.commonprefix(texts)  # noqa: RUF071 - these are no paths
