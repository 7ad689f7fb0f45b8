"""Merges the layers of a spec, and keeps the origin of every value.

Mappings merge by key; everything else replaces, except where a layer says that it adds to a list.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import (
    InputError,
    Location,
    Problem,
    counted,
    did_you_mean,
    nearest,
    one_problem,
)
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import OptionModels, SpecModel, keys_below
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Path, dotted, look_at

# ------------------------------------------------------------------ added lists
# The lists of a spec that a layer can add to: `setup: {prepend: [...]}`, `append`, `replace`.

Lists = Mapping[Path, bool]  # path -> whether the list may also be one block of text
WORDS = ("prepend", "append", "replace")


def lists_to_add_to(option_models: OptionModels, framework: object = None) -> Lists:
    """The lists of every spec and of the framework; of all frameworks, if it is not known."""
    found = option_models.frameworks
    known = isinstance(framework, str) and framework in found
    models = [option_models.of_framework(framework)] if known else found.values()
    return {path: lines for one in (Experiment, *models) if one for path, lines in _lists_in(one)}


@functools.cache
def _lists_in(model: type[SpecModel]) -> tuple[tuple[Path, bool], ...]:
    return tuple(
        (path, key.adds_to == "lines") for path, key in keys_below(model).items() if key.adds_to
    )


def read_words(
    value: Any, path: Path, place: Path, text: Locator, merging: Merging
) -> dict[str, Any] | None:
    """The words of `value` that are valid; None if it is no mapping.

    `path` is the list's key, and `place` where `value` is in `text`.
    """
    lists, problems = merging
    if not isinstance(value, dict):
        return None
    if value and not any(word in WORDS or nearest(str(word), WORDS) for word in value):
        return None  # a mapping in place of the list
    found: dict[str, Any] = {}
    for word, items in value.items():
        inner, name = (*place, word), dotted((*path, word))
        if word not in WORDS:
            hint = did_you_mean(word, WORDS)
            problems.append(Problem(f"unknown key {word}", text.locate_key(inner), name, hint))
        elif not can_be_added_to(items, lists[path]):
            hint = "write `[a, b]`, or lines that start with `- `"
            problems.append(Problem("expected a list", text.locate(inner), name, hint))
        elif word == "replace" and len(value) > 1:
            what = "replace cannot be combined with the others"
            hint = "put all items into its list"
            problems.append(Problem(what, text.locate_key(inner), name, hint))
        else:
            found[word] = items
    return found


def can_be_added_to(value: Any, may_be_text: bool) -> bool:
    """Whether the value of a list's key is a list, or a block of text where that is one."""
    return isinstance(value, list) or (isinstance(value, str) and may_be_text)


Role = Literal["default", "base", "spec", "--set"]


class Layer(NamedTuple):
    """A mapping with keys of the spec, at `base` in a text: a file, or one `--set`."""

    role: Role
    text: Locator
    value: Any
    base: Path = ()


class Origin:
    """The origin of a value: `path` in a layer's text. `parts`: the origins of what is inside it.

    What is inside and has no origin of its own is in the same text.
    """

    __slots__ = ("layer", "parts", "path")

    def __init__(self, layer: Layer, path: Path) -> None:
        self.layer, self.path = layer, path
        self.parts: dict[str | int, Origin] = {}

    def part(self, step: str | int) -> Origin:
        """The origin of the value at `step`."""
        return self.parts.get(step) or Origin(self.layer, (*self.path, step))

    def without_part(self, step: str | int) -> Origin:
        """The origin without what is known of the value at `step`."""
        found = Origin(self.layer, self.path)
        found.parts = {key: part for key, part in self.parts.items() if key != step}
        return found

    def with_part(self, step: str | int, part: Origin) -> Origin:
        """The origin with another one of the value at `step`."""
        found = Origin(self.layer, self.path)
        found.parts = {**self.parts, step: part}
        return found


class Source(NamedTuple):
    """Where each value of a merged spec was written. `root` is the origin of the whole."""

    root: Origin

    def origin(self, path: Path) -> Origin:
        """The one origin of the value at `path`."""
        found = self.root
        for step in path:
            found = found.part(step)
        return found

    def locate(self, path: Path) -> Location:
        """The position of the value at `path`, or of its nearest parent if it is missing."""
        found = self.origin(path)
        return found.layer.text.locate(found.path)

    def locate_key(self, path: Path) -> Location:
        """The position of the key at `path`."""
        found = self.origin(path)
        return found.layer.text.locate_key(found.path)


class Merging(NamedTuple):
    """The lists that layers can add to, and the problems that were found."""

    lists: Lists
    problems: list[Problem]


class Merged(NamedTuple):
    """Layers merged: plain data, where it was written, and the lists that a layer adds to.

    `lists`: those that it could add to.
    """

    data: dict[str, Any]
    source: Source
    added: frozenset[Path]
    lists: Lists


def merge(layers: Sequence[Layer], lists: Lists, problems: list[Problem]) -> Merged:
    """The layers merged, the lowest precedence first. The last one must be a mapping."""
    first, merging = layers[0], Merging(lists, problems)
    if len(layers) == 1 and not any(isinstance(look_at(first.value, one), dict) for one in lists):
        return Merged(first.value, Source(Origin(first, first.base)), frozenset(), lists)
    data: Any = {}
    origin = Origin(first, ())
    for layer in layers:
        above = Origin(layer, layer.base)
        data, origin = _merge(data, origin, layer.value, above, (), merging)
    added = frozenset(_resolve_lists(data, origin, (), lists))
    return Merged(data, Source(origin), added, lists)


_NOTHING = object()
_NULL_IS_A_VALUE = ("secrets",)  # `A_KEY: null` is the name of a secret


def _merge(
    below: Any,
    below_origin: Origin,
    value: Any,
    origin: Origin,
    path: Path,
    merging: Merging,
) -> tuple[Any, Origin]:
    """`value` at `path` merged into what is below it."""
    if path in merging.lists:
        return add_to_list(below, below_origin, value, origin, path, merging), origin
    if not isinstance(value, dict):
        return value, origin
    merged = dict(below) if isinstance(below, dict) else {}
    parts = {key: below_origin.part(key) for key in merged}
    for key, item in value.items():
        if item is None and key in merged and path != _NULL_IS_A_VALUE:
            del merged[key], parts[key]  # `conda: null` removes what is below
            continue
        under = parts.get(key, below_origin)
        merged[key], parts[key] = _merge(
            merged.get(key, _NOTHING), under, item, origin.part(key), (*path, key), merging
        )
    origin.parts.update(parts)
    return merged, origin


# ------------------------------------------------------------------ lists that layers add to


class AddedList(NamedTuple):
    """A list in the making: the `core` that one layer gives, and what others put around it.

    `may_be_text`: a block of text is a list, too. `by_words`: a layer says how its items are added.
    """

    core: Any
    core_origin: Origin
    may_be_text: bool
    before: tuple[tuple[Any, Origin], ...] = ()
    after: tuple[tuple[Any, Origin], ...] = ()
    by_words: bool = False

    def resolved(self) -> tuple[Any, Origin]:
        """The list with its origin; the core alone if nothing can be added to it."""
        is_list = self.core is _NOTHING or can_be_added_to(self.core, self.may_be_text)
        if self.core is not _NOTHING and not (is_list and (self.before or self.after)):
            return self.core, self.core_origin
        core = () if self.core is _NOTHING else _items(self.core, self.core_origin)
        items = (*self.before, *core, *self.after)
        origin = Origin(self.core_origin.layer, self.core_origin.path)
        origin.parts = {index: item[1] for index, item in enumerate(items)}
        return [value for value, _ in items], origin


def add_to_list(
    below: Any,
    below_origin: Origin,
    value: Any,
    origin: Origin,
    path: Path,
    merging: Merging,
) -> AddedList:
    """A list's value, or the words that add to it, on top of what is below."""
    may_be_text = merging.lists[path]
    old = below if isinstance(below, AddedList) else AddedList(below, below_origin, may_be_text)
    words = read_words(value, path, origin.path, origin.layer.text, merging)
    if words is None:
        return old._replace(core=value, core_origin=origin)
    if "replace" in words:
        return AddedList(words["replace"], origin.part("replace"), may_be_text, by_words=True)
    before, after = (
        _items(words.get(word, []), origin.part(word)) for word in ("prepend", "append")
    )
    core_origin = origin if old.core is _NOTHING else old.core_origin
    return AddedList(
        old.core, core_origin, may_be_text, before + old.before, old.after + after, by_words=True
    )


def _items(values: Any, origin: Origin) -> tuple[tuple[Any, Origin], ...]:
    if not isinstance(values, list):  # a block of text
        return ((values, origin),)
    return tuple((value, origin.part(index)) for index, value in enumerate(values))


def _resolve_lists(
    data: dict[str, Any], origin: Origin, path: Path, lists: Lists
) -> Iterator[Path]:
    """Put the value of each AddedList into `data`. The paths of those that were added to."""
    for key, value in data.items():
        inner = (*path, key)
        if isinstance(value, AddedList):
            data[key], origin.parts[key] = value.resolved()
            if value.by_words:
                yield inner
        elif isinstance(value, dict) and any(one[: len(inner)] == inner for one in lists):
            yield from _resolve_lists(value, origin.parts[key], inner, lists)


# ------------------------------------------------------------------ settings
# `--set key=value`: changes of a merged spec from the command line, with their positions.


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


_PAIR = re.compile(r"(\w[\w.-]*)\s*[:\s]\s*(\S+)")  # `nodes: 4`


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
        found = _PAIR.fullmatch(item)
        hint = f"write --set {found[1]}={found[2]}" if found else "for example --set nodes=4"
        raise one_problem(f"{item!r} is not KEY=VALUE", whole, hint=hint)
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
            # an argument's name may have dots
            name = whole if data and whole in data else str(step)
            if data and self._removes(data, name, depth):
                left = {key: item for key, item in data.items() if key != name}
                return left, origin.without_part(name)
            if data and whole in data:
                new, part = self._last(data[whole], origin.part(whole))
                return {**data, whole: new}, origin.with_part(whole, part)
            if data is None:
                data, origin = {}, Origin(self.layer, path[:depth])
            new, part = self.applied(data.get(name), origin.part(name), depth + 1)
            return {**data, name: new}, origin.with_part(name, part)
        raise self._no_such_value(data, depth)

    def _removes(self, data: dict[str, Any], name: str, depth: int) -> bool:
        """`--set software.conda=null` removes the key, as in a file, if it is there."""
        path, role = self.setting.path, self.setting.role
        is_last = depth + 1 == len(path) or name != str(path[depth])
        is_null = is_last and self.setting.value is None and role == "--set"
        return is_null and name in data and path[:-1] != _NULL_IS_A_VALUE

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
