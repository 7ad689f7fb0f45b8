"""`--set key=value`: changes of a merged spec from the command line, with their positions."""

from __future__ import annotations

from typing import Any, NamedTuple

from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.spec.layers import Layer, Merged, Merging, Origin, Role, Source, add_to_list
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Path


class Setting(NamedTuple):
    """One value that replaces that of a spec, and the positions of it and of its key.

    It comes from `--set key=value`, or from a point of a sweep.
    """

    path: Path
    value: Any
    where: Location
    key: Location
    role: Role = "--set"

    def locate(self, path: Path) -> Location:  # noqa: ARG002
        """The position of the value: the same for everything in it."""
        return self.where

    def instead(self, outer: str) -> str:
        """What to write if there is no such value inside `outer`."""
        if self.role == "--set":
            return f"replace all of it: --set {outer}=..."
        return f"sweep all of it: {outer}: [...]"

    def locate_key(self, path: Path) -> Location:
        """The position of the key, also for mappings on the way to it and parts of the value."""
        return self.key if _holds(self.value, path[len(self.path) :]) else self.where


def _holds(data: Any, path: Path) -> bool:
    """Whether the data has a value at `path`."""
    for step in path:
        if isinstance(data, list):
            if not (isinstance(step, int) and step < len(data)):
                return False
        elif not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True


def read_setting(item: str, number: int) -> Setting:
    """Read `key=value`; `number` counts the settings from 1. Raises InputError."""
    shown = item.encode(errors="backslashreplace").decode()
    if shown != item:
        raise one_problem(
            "not UTF-8 text", Location("--set", number, 1, shown), hint="write it as UTF-8"
        )
    key, sign, text = item.partition("=")
    if not sign or not key:
        whole = Location("--set", number, 1, item, len(item))
        raise one_problem(f"{item!r} is not key=value", whole, hint="write --set nodes=4")
    where = Location("--set", number, len(key) + 2, item, max(1, len(text)))
    at_key = Location("--set", number, 1, item, len(key))
    path = path_of(key)
    if len(path) > yaml_document.MAX_DEPTH:
        raise one_problem(f"nested deeper than {yaml_document.MAX_DEPTH} levels", at_key)
    if path[0] == "extends":
        hint = "write it into a spec, which can extend this one"
        raise one_problem("extends cannot be set on the command line", at_key, "extends", hint)
    try:
        value = yaml_document.load(text, "--set").value
    except InputError as error:
        raise InputError([Problem(p.what, where, key, p.hint) for p in error.problems]) from None
    return Setting(path, value, where, at_key)


_SWEPT = tuple(("sweep", section) for section in ("grid", "zip", "random"))


def path_of(key: str) -> Path:
    """`batch.micro` as a path. Keys of a sweep are paths themselves: `sweep.grid.batch.micro`."""
    path = tuple(_step(part) for part in key.split("."))
    if path[:2] in _SWEPT and len(path) > 3:
        return (*path[:2], ".".join(map(str, path[2:])))
    return path


def _step(part: str) -> str | int:
    return int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part


def apply_setting(merged: Merged, setting: Setting, problems: list[Problem]) -> Merged:
    """The merged spec with one value set; missing mappings are made. Raises InputError."""
    change = _Change(setting, Merging(merged.lists, problems))
    data, origin = change.applied(merged.data, merged.source.root, 0)
    added = {setting.path} if change.adds_to_list else set()
    return Merged(data, Source(origin), merged.added | added, merged.lists)


class _Change:
    """Puts the value of a setting into data, and its origin into a copy of the origins."""

    def __init__(self, setting: Setting, merging: Merging) -> None:
        self.setting, self.merging = setting, merging
        self.adds_to_list = setting.path in merging.lists and isinstance(setting.value, dict)
        self.layer = Layer(setting.role, setting, setting.value)

    def applied(self, data: Any, origin: Origin, depth: int) -> tuple[Any, Origin]:
        """The value that replaces `data`, which is at the first `depth` steps, and its origin."""
        path = self.setting.path
        if depth == len(path):
            return self._last(data, origin)
        step = path[depth]
        if isinstance(data, list) and isinstance(step, int) and step < len(data):
            new, part = self.applied(data[step], origin.part(step), depth + 1)
            return [*data[:step], new, *data[step + 1 :]], origin.with_part(step, part)
        if data is None or isinstance(data, dict):
            whole = ".".join(map(str, path[depth:]))
            if data and whole in data:  # an argument's name may have dots
                new, part = self._last(data[whole], origin.part(whole))
                return {**data, whole: new}, origin.with_part(whole, part)
            if data is None:
                data, origin = {}, Origin(self.layer, path[:depth])
            name = str(step)
            new, part = self.applied(data.get(name), origin.part(name), depth + 1)
            return {**data, name: new}, origin.with_part(name, part)
        raise self._no_such_value(data, depth)

    def _last(self, data: Any, origin: Origin) -> tuple[Any, Origin]:
        path, own = self.setting.path, Origin(self.layer, self.setting.path)
        if not self.adds_to_list:
            return self.setting.value, own
        below = [] if data is None else data
        return add_to_list(below, origin, self.setting.value, own, path, self.merging).resolved()

    def _no_such_value(self, data: Any, depth: int) -> InputError:
        path = self.setting.path
        shown, outer = (".".join(map(str, one)) for one in (path, path[:depth]))
        kind = (
            f"has {counted(len(data), 'item')}" if isinstance(data, list) else "is a single value"
        )
        what = f"there is no {path[depth]} in {outer}, which {kind}"
        return one_problem(what, self.setting.key, shown, self.setting.instead(outer))
