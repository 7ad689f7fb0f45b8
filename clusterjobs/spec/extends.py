"""`extends: base.yaml` in a spec: the bases, each below the file that extends it.

It knows the key `extends`; the caller reads the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.spec.layers import Layer, Role
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document

KEY = "extends"
_MAX_BASES = 100
_HINT = "write extends: base.yaml, or a list, [team.yaml, model.yaml]"


class BaseFile(NamedTuple):
    """A file that a spec extends. `identity`: the same for the same file, however it is named."""

    file: str
    text: str
    identity: str


# Reads the base of that name, for the file that names it at that position. Raises InputError.
Reader = Callable[[str, str, Location], BaseFile]


def no_reader(name: str, _file: str, where: Location) -> BaseFile:
    """For a spec that has no file: it can extend nothing."""
    raise one_problem(f"cannot read {name}: the spec has no folder", where, KEY)


def spec_layer(document: Document, role: Role) -> Layer:
    """The values of a spec or a base, without `extends`. Raises InputError if it is no mapping."""
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "expected a mapping"
        hint = "start from a copy of examples/tiny-gpt.yaml"
        if role == "base":
            hint = "write the keys of a spec that several specs share"
        raise one_problem(what, document.locate(()), hint=hint)
    return Layer(role, document, {k: v for k, v in document.value.items() if k != KEY})


def load_bases(document: Document, identity: str, read: Reader) -> list[Layer]:
    """The bases of a spec, the lowest precedence first: each after its own bases.

    A base that several extend is merged once, where it is named first. Raises InputError.
    """
    found: dict[str, Layer] = {}
    _add_bases(document, {identity: document.file}, found, read)
    return list(found.values())


def _add_bases(
    document: Document, above: dict[str, str], found: dict[str, Layer], read: Reader
) -> None:
    for name, where in _names(document):
        base = read(name, document.file, where)
        if base.identity in above:
            chain = [*above.values(), base.file]
            what = f"{base.file} extends itself: {' -> '.join(chain)}"
            raise one_problem(what, where, KEY, "remove one of these `extends`")
        if base.identity in found:
            continue
        if len(found) + len(above) > _MAX_BASES:
            raise one_problem(f"more than {_MAX_BASES} bases", where, KEY, "combine some of them")
        own = yaml_document.load(base.text, base.file)
        layer = spec_layer(own, "base")
        _add_bases(own, {**above, base.identity: base.file}, found, read)
        found[base.identity] = layer


def _names(document: Document) -> Iterator[tuple[str, Location]]:
    """The bases that a file names, with their positions."""
    value: Any = document.value.get(KEY, [])
    is_list = isinstance(value, list)
    problems: list[Problem] = []
    for index, name in enumerate(value if is_list else [value]):
        where = document.locate((KEY, index) if is_list else (KEY,))
        if not isinstance(name, str) or not name:
            problems.append(Problem("expected the path of a file", where, KEY, _HINT))
        elif "{{" in name:
            hint = "write the file's name: bases are read before references are expanded"
            problems.append(Problem("a reference cannot be used here", where, KEY, hint))
        else:
            yield name, where
    if problems:
        raise InputError(problems)
