"""Merges the layers of a spec, and keeps the origin of every value.

Mappings merge by key; everything else replaces, except where a layer says that it adds to a list.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Location, Problem, did_you_mean
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import OptionModels, SpecModel, keys_below
from clusterjobs.yaml.document import Path, dotted, look_at

# ------------------------------------------------------------------ added lists
#
# The lists of a spec that a layer can add to: `setup: {prepend: [...]}`, `append`, `replace`.

Lists = Mapping[Path, bool]  # path -> whether the list may also be one block of text
WORDS = ("prepend", "append", "replace")


def lists_to_add_to(option_models: OptionModels, framework: object = None) -> Lists:
    """Those of every spec, and of the framework; of all frameworks, if it is not known."""
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

    def with_part(self, step: str | int, part: Origin) -> Origin:
        """The same with another origin of the value at `step`."""
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
