"""Joins the plans of several points into one plan, and finds differences that prevent it.

Plans are compared leaf by leaf. A text of `TEXTS` that differs becomes a shell variable; what only
informs a reader may differ; every other difference needs a plan, and so a script, of its own.
"""

import itertools
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import counted
from clusterjobs.sections.plan import Plan
from clusterjobs.slurm.options import Directive
from clusterjobs.spec.reserved_names import is_of_the_script
from clusterjobs.text import (
    Text,
    Value,
    changed,
    joined,
    literals,
    references,
    show,
    split_text,
    variable,
)

# ------------------------------------------------------------------ variable names
# Names for the shell variables that hold a point's values.
# They are in small letters, unlike variables of the ranks, and none is one of the script's own.


_MAX_CHARACTERS = 30
_OTHERS = re.compile(r"[^a-z0-9]+")
# Words and variables of bash, and variables that many programs read, in small letters.
_TAKEN = frozenset(
    (
        *("case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if"),
        *("in", "select", "then", "time", "until", "while", "histchars", "auto_resume"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    )
)


def slug(text: str) -> str:
    """The text as a name: `--weight-decay` is `weight_decay`."""
    name = _OTHERS.sub("_", text.lower())[:_MAX_CHARACTERS].strip("_")
    return name if name[:1].isalpha() else f"value_{name}".rstrip("_")


def free_name(hint: str, taken: Collection[str]) -> str:
    """A name like `hint`, with a number if that one is taken."""
    name, number = slug(hint), 1
    wanted = name
    while not _is_free(name, taken):
        number += 1
        name = f"{wanted}_{number}"
    return name


def names_of_keys(keys: Iterable[str], taken: Collection[str]) -> list[str]:
    """A name for each dotted key: its last word, or more words where names would be equal."""
    found: list[str] = []
    words = [key.split(".") for key in keys]
    for own in words:
        count = 1
        while count < len(own) and not _is_clear(own, count, words, taken):
            count += 1
        found.append(free_name("_".join(own[-count:]), {*taken, *found}))
    return found


def _is_clear(own: list[str], count: int, words: list[list[str]], taken: Collection[str]) -> bool:
    if own[-1].isdigit() and count == 1:  # the place in a list
        return False
    name = slug("_".join(own[-count:]))
    others = (slug("_".join(one[-count:])) for one in words if one is not own)
    return _is_free(name, taken) and name not in others


def _is_free(name: str, taken: Collection[str]) -> bool:
    return name not in taken and name not in _TAKEN and not is_of_the_script(name)


# ------------------------------------------------------------------ join texts
# Joins the texts of a sweep's points into one text with shell variables.
# A variable stands for what differs; its values are a column of the script's table.


Values = tuple[str, ...]  # one for each point

# Strings and other scalars of JSON and YAML; what is between them is the same in all points.
_SCALAR = re.compile(r'("(?:[^"\\\n]|\\.)*"|[^\s"{}\[\],:]+)')
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

    def joined(self, texts: Sequence[Value], hint: str) -> Value:
        """One text for all points; `hint` names a column that has to be made.

        The references in the texts must be the same.
        """
        if len(set(texts)) == 1:
            return texts[0]
        between = zip(*map(literals, texts), strict=True)
        pieces = [self._literal(same, hint) for same in between]
        return joined(*itertools.chain(*zip(pieces, (*references(texts[0]), ""), strict=True)))

    def joined_config(self, texts: Sequence[Value]) -> Value:
        """One text for a config file of all points, compared scalar by scalar if possible."""
        if len(set(texts)) == 1:
            return texts[0]
        parts = [split_text(text, _SCALAR.split) for text in texts]
        if len({len(one) for one in parts}) > 1:
            return self.joined(texts, "config")
        same = list(zip(*parts, strict=True))
        if any(len(set(between)) > 1 for between in same[::2]):
            return self.joined(texts, "config")
        key, pieces = "value", list[Value]()
        for number, one in enumerate(same):
            pieces.append(self._scalar(one, key))
            if number % 2 and same[number + 1][0].startswith(":"):
                key = show(one[0]).strip('"')
        return joined(*pieces)

    def _scalar(self, texts: Sequence[Value], hint: str) -> Value:
        if len(set(texts)) == 1 or not all(text.startswith('"') for text in texts):
            return self.joined(texts, hint)
        inner = [changed(text, lambda text: text[1:-1]) for text in texts]
        return joined('"', self.joined(inner, hint), '"')

    def _literal(self, texts: Values, hint: str) -> Value:
        """One text for texts without references."""
        if len(set(texts)) == 1:
            return texts[0]
        found = self._explained(texts, slug(hint))
        return found if found is not None else self._with_new(texts, hint)

    def _explained(self, texts: Values, wanted: str) -> Value | None:
        """The text with variables of known columns; None if they do not explain the differences."""
        columns = [*self._fixed, *self._known, *self._new]
        columns.sort(key=lambda one: one.name != wanted)
        pieces: list[Value] = []
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
        return joined(*pieces, texts[0])

    def _with_new(self, texts: Values, hint: str) -> Value:
        """The text with a new variable, for all of it or for what follows an option's `=`."""
        option = _OPTION.match(_common(texts))
        before = option[0] if option else ""
        name = free_name(re.split(r"[./]", option[1])[-1] if option else hint, self._taken)
        self._taken.add(name)
        self._new.append(Column(name, tuple(text[len(before) :] for text in texts)))
        return joined(before, variable(name))


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


# Texts that the script quotes where it expands them: a path in the plan, `*` for every item of a
# list -> the name of a variable for them, "" for that of the option or variable it belongs to.
TEXTS: Mapping[str, str] = {
    "job.folder": "folder",
    "job.log_copy": "log_copy",
    "job.workdir": "workdir",
    "job.parameters.*.default": "",
    "environment.variables.*.value": "",
    "environment.again.*.value": "",
    "environment.computed.*.*.*": "value",
    "environment.secrets.*.file": "",
    "environment.source.*": "source",
    "environment.modules.*.names.*": "module",
    "environment.conda": "conda",
    "environment.venv": "venv",
    "files.configs.*.text": "",
    "files.folders.*": "checkpoints",
    "preflight.checks.*.word": "check",
    "staging.inputs.*.path": "input",
    "container.image": "image",
    "container.mounts.*.source": "mount_source",
    "container.mounts.*.target": "mount_target",
    "container.options.*.value": "",
    "container.venv": "venv",
    **{
        f"steps.{key}.*.{text}": name
        for key in ("before", "after", "always", "sidecars")
        for text, name in (("words.*", ""), ("name", "step_name"), ("srun_options.*.value", ""))
    },
    "launch.prefix.*": "",
    "launch.words.*": "",
    "launch.own_options.*": "",
    "launch.srun_options.*.value": "",
    "roles.*.words.*": "",
    "roles.*.options.*.value": "",
    "checkpoints.path": "checkpoints",
    "checkpoints.marker": "marker",
    "checkpoints.exports.*.source": "export_source",
    "checkpoints.exports.*.target": "export_target",
}
# They only inform a reader.
_INFORMATION = frozenset(
    (
        *("job.title", "parallelism", "batch", "derived", "warnings"),
        "argument_check.lines",
        *("environment.variables.*.reason", "environment.variables.*.source"),
        *("environment.again.*.reason", "environment.again.*.source"),
        *("preflight.checks.*.reason", "staging.inputs.*.where", "container.mounts.*.reason"),
        *("container.options.*.reason", "launch.srun_options.*.reason", "launch.origins"),
        *(f"steps.{key}.*.srun_options.*.reason" for key in ("before", "after", "sidecars")),
        "roles.*.options.*.reason",
    )
)


class Difference(NamedTuple):
    """A difference that prevents joining: a path in the plan, and its value for each point."""

    path: str
    values: tuple[Any, ...]


class Joined(NamedTuple):
    """The joined plan; valid only if there are no `differences`."""

    plan: Plan
    differences: tuple[Difference, ...]


def joined_plan(plans: Sequence[Plan], columns: Columns) -> Joined:
    """One plan for all, whose texts have variables of `columns` where they differ."""
    if len(plans) == 1:
        return Joined(plans[0], ())
    join = _Join(columns)
    sections = [
        join.value(values, name, "")
        for name, values in zip(Plan._fields, zip(*plans, strict=True), strict=True)
    ]
    return Joined(Plan(*sections), tuple(join.differences))


class _Join:
    """Joins values at the same place of several plans, and collects what cannot be joined."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self.differences: list[Difference] = []

    def value(self, values: Sequence[Any], path: str, hint: str) -> Any:
        """The values as one. `hint`: the name of the option or variable that they belong to."""
        first = values[0]
        if all(one is first or one == first for one in values):
            return first
        if path in _INFORMATION:
            return _neutral(values)
        if path == "job.directives":
            return self._directives(values)
        if path in TEXTS and all(type(one) in (str, Text) for one in values):
            return self._text(values, path, TEXTS[path] or hint)
        shapes = tuple(map(_shape, values))
        if len(set(shapes)) == 1 and isinstance(first, tuple):
            join = self._items if type(first) is tuple else self._record
            return join(values, path)
        self.differences.append(Difference(path, shapes if len(set(shapes)) > 1 else tuple(values)))
        return first

    def _record(self, values: Sequence[Any], path: str) -> Any:
        fields = values[0]._fields
        name = _name_of(values[0])
        return type(values[0])(
            *(
                self.value(same, f"{path}.{field}", name)
                for field, same in zip(fields, zip(*values, strict=True), strict=True)
            )
        )

    def _items(self, values: Sequence[Any], path: str) -> tuple[Any, ...]:
        found, before = [], ""
        for same in zip(*values, strict=True):
            found.append(self.value(same, f"{path}.*", before))
            word = same[0]
            is_option = isinstance(word, (str, Text)) and word.startswith("-")
            before = " ".join(literals(word)) if is_option else ""
        return tuple(found)

    def _text(self, texts: Sequence[Value], path: str, hint: str) -> Value:
        # The references stay outside of the table: they are set at other times.
        found = tuple(joined(*references(text)) for text in texts)
        if len(set(found)) > 1:
            shown = (f"with {show(one)}" if one else "without variables" for one in found)
            self.differences.append(Difference(path, tuple(shown)))
            return texts[0]
        if path == "files.configs.*.text":
            return self._columns.joined_config(
                [changed(text, lambda text: text.rstrip("\n")) for text in texts]
            )
        return self._columns.joined(texts, hint or "value")

    def _directives(self, values: Sequence[tuple[Directive, ...]]) -> tuple[Directive, ...]:
        """The reasons for them may differ."""
        by_name = [{one.name: one.value for one in directives} for directives in values]
        for name in dict.fromkeys(name for one in by_name for name in one):
            same = tuple(one.get(name) for one in by_name)
            if len(set(same)) > 1:
                self.differences.append(Difference(f"--{name}", same))
        return values[0]


def _shape(value: Any) -> str:
    """The shape that values must share to be compared item by item."""
    if type(value) is tuple:
        return counted(len(value), "item")
    if isinstance(value, Text):
        return "str"
    return "none" if value is None else type(value).__name__


def _name_of(record: Any) -> str:
    """The name of the variable, parameter or option that a record is about."""
    name = getattr(record, "name", "")
    return name if isinstance(name, str) else ""


def _neutral(values: Sequence[Any]) -> Any:
    """For a reader: of a list what all have, no text, otherwise the first."""
    first = values[0]
    if type(first) is tuple:
        common = set(first).intersection(*values[1:])
        return tuple(one for one in first if one in common)
    return "" if isinstance(first, (str, Text)) else first
