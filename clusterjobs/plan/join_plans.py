"""Joins the plans of several points into one plan, and finds differences that prevent it.

Plans are compared leaf by leaf. A text of `TEXTS` that differs becomes a shell variable; what only
informs a reader may differ; every other difference needs a plan, and so a script, of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.counted import counted
from clusterjobs.plan.directives import Directive
from clusterjobs.plan.join_texts import Columns
from clusterjobs.plan.plan import Plan
from clusterjobs.spec.references import show, split_marks

_Path = tuple[str, ...]

# Texts that the script quotes where it expands them: a path in the plan, `*` for every item of a
# list -> the name of a variable for them, "" for that of the option or variable it belongs to.
TEXTS: Mapping[str, str] = {
    "job.folder": "folder",
    "job.log_copy": "log_copy",
    "job.workdir": "workdir",
    "job.parameters.*.default": "",
    "environment.variables.*.value": "",
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
        *("environment.variables.*.reason", "environment.variables.*.source"),
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
        if path in TEXTS and all(type(one) is str for one in values):
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
            before = word if isinstance(word, str) and word.startswith("-") else ""
        return tuple(found)

    def _text(self, texts: Sequence[str], path: str, hint: str) -> str:
        # The marks stay outside of the table: they are set at other times.
        marks = tuple("".join(split_marks(text)[1::2]) for text in texts)
        if len(set(marks)) > 1:
            shown = (f"with {show(one)}" if one else "without variables" for one in marks)
            self.differences.append(Difference(path, tuple(shown)))
            return texts[0]
        if path == "files.configs.*.text":
            return self._columns.joined_config(tuple(text.rstrip("\n") for text in texts))
        return self._columns.joined(tuple(texts), hint or "value")

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
    return "" if isinstance(first, str) else first
