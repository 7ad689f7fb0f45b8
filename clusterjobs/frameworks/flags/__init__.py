"""The flags and keys that a framework knows, with their types: one JSON file for each framework.

tools/flag_tables.py makes them from the framework's own parser. A flag's type is "switch" (a flag
without a value), "integer", "number", "text", "boolean", "boolean switch" (a flag that may have
true or false behind it), "boolean or text", "list", "mapping", "any", or the list of its choices.
A name with dots is a key of a mapping.
"""

import functools
import json
import pathlib
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import nearest
from clusterjobs.frameworks.arguments import Argument, argument_key, given_arguments
from clusterjobs.frameworks.rules import Finding
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text
from clusterjobs.yaml.document import Path

_FOLDER = pathlib.Path(__file__).parent
_CUTOFF = 0.8  # closer than two flags of a family, such as eval-iters and exit-interval
_CUTOFF_OF_SCRIPTS = 0.85  # closer than a script's own lora_target_modules to optim_target_modules
_SHOWN = 12  # choices in a message


class Table(NamedTuple):
    """The flags of one program, in one version, as it was on a day.

    `removed`: flags of other versions. `refuses_unknown`: no version takes a flag that is not
    listed. Otherwise an unknown flag may be newer or a fork's: only one that was removed or looks
    like a typing error is a warning. `scripts_add`: scripts have flags of their own beside these.
    `coerces`: values are converted, such as "1" or 1e3 to an integer, and "auto" is left to others.
    `renamed`: those of `removed` that have another name now.
    `on`: booleans that may be true without their flag.
    `accepted`: names, as argparse stores them, that the spec says are right.
    """

    program: str
    version: str
    date: str
    source: str
    refuses_unknown: bool
    coerces: bool
    types: Mapping[str, str | list[str]]
    removed: Container[str] = ()
    renamed: Mapping[str, str] = MappingProxyType({})
    on: Container[str] = ()
    scripts_add: bool = False
    accepted: Container[str] = ()
    is_of_another_version: bool = False

    @property
    def label(self) -> str:
        """`Megatron-LM core 0.20.0 (2026-08-22)`, for messages."""
        return f"{self.program} {self.version} ({self.date})"

    def accepts(self, name: str) -> bool:
        """Whether the spec says that it is right, by this name or as a version's."""
        return self.is_of_another_version or argument_key(name) in self.accepted

    def nearest(self, name: str) -> str | None:
        """The flag that `name` was probably meant to be."""
        alike = {one.replace("-", "_"): one for one in self.types}
        cutoff = _CUTOFF_OF_SCRIPTS if self.scripts_add else _CUTOFF
        match = nearest(name.replace("-", "_"), alike, cutoff=cutoff)
        return match and alike[match]

    def elsewhere(self, name: str) -> str | None:
        """The only key of another mapping that has this name, which is read there alone."""
        last = name.rpartition(".")[2]
        found = [one for one in self.types if one.rpartition(".")[2] == last]
        return found[0] if len(found) == 1 else None

    def has_keys_of(self, name: str) -> bool:
        """Whether the keys of the mapping `name` are listed, too."""
        return any(one.startswith(f"{name}.") for one in self.types)


def table(name: str, spec: Experiment | None = None) -> Table:
    """A table by its file's name, with what the spec says of the framework's version."""
    known, framework = _read(name)
    if spec is None:
        return known
    own = spec.frameworks.get(framework)
    return known._replace(
        accepted={argument_key(one) for one in spec.known_args},
        is_of_another_version=own is not None and not _is_version(own.version, known.version),
    )


def labels() -> list[str]:
    """Program, version and date of every table."""
    return sorted(_read(path.stem)[0].label for path in _FOLDER.glob("*.json"))


@functools.cache
def _read(name: str) -> tuple[Table, str]:
    """The table, and the framework's name in a spec."""
    found = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    known = Table(
        program=found["program"],
        version=found["version"],
        date=found["date"],
        source=found["source"],
        refuses_unknown=found["unknown"] == "refused",
        coerces=found.get("coerces", False),
        types=found["flags"],
        removed=found.get("removed", ()),
        renamed=found.get("renamed", {}),
        on=found.get("on", ()),
        scripts_add=found["unknown"] == "the script's own",
    )
    return known, found.get("framework", name)


def _is_version(written: str, known: str) -> bool:
    """`core_r0.20.0`, `v0.20.0` and `0.20.0` are `core 0.20.0`."""
    return re.split(r"[^\w.]|_r|\bv", written)[-1] == known.split()[-1]


# ------------------------------------------------------------------ command lines


def check_arguments(
    spec: Experiment,
    diagnostics: Diagnostics,
    known: Table,
    refused: Container[str] = (),
    dashes_matter: bool = True,
) -> None:
    """Compare the spec's `args` with the table, as argparse would; not those `refused` already.

    `dashes_matter`: else the parser takes - and _ alike, and the table has the names with _.
    """
    given = [one for one in given_arguments(spec) if one.key not in refused]
    if not dashes_matter:
        given = [one._replace(name=one.key) for one in given]
    for finding in (*argument_findings(given, known), *left_out_findings(spec, known)):
        diagnostics.problem(*finding)


def argument_findings(arguments: Iterable[Argument], known: Table) -> Iterator[Finding]:
    """Compare arguments with the table."""
    notes = []
    for argument in arguments:
        finding = None if known.accepts(argument.name) else _argument_finding(argument, known)
        if finding and finding.info:
            notes.append((finding.path, f"--{argument.name.lstrip('-')}"))
        elif finding:
            yield finding
    if notes and not known.scripts_add:  # one of all of them: a fork may have many
        yield _note(notes[0][0], [name for _, name in notes], known)


def _argument_finding(argument: Argument, known: Table) -> Finding | None:
    path, name = ("args", argument.position), argument.name.lstrip("-")
    if name not in known.types:
        return unknown(path, name, known, dashes="--")
    kind, values = known.types[name], argument.texts
    if any(isinstance(value, Text) for value in argument.values) or _argument_fits(kind, values):
        return None
    written = f"{name}: {' '.join(values)}" if values else f"{name} without a value"
    is_boolean = isinstance(kind, str) and "boolean" in kind
    return Finding(
        path,
        f"{written}, but {known.label} expects {_wish(kind)}",
        f'write {name}: "true" or "false", in quotes'
        if is_boolean
        else _example(name, kind, *values[:1]),
    )


def left_out_findings(spec: Experiment, known: Table) -> Iterator[Finding]:
    """`false` of `args` leaves a flag out: a mistake if it is on without it."""
    for name, value in spec.args.items() if isinstance(spec.args, Mapping) else ():
        key = argument_key(name)
        if value is False and key in known.on and not known.accepts(name):
            what = f"{name}: false leaves {name} out, and its default counts"
            yield Finding(("args", name), what, f'write {name}: "false", in quotes', warning=True)


def _argument_fits(kind: str | list[str], values: tuple[str, ...]) -> bool:
    if kind == "switch":
        return not values
    if kind == "list" or (kind == "boolean switch" and not values):
        return True
    return len(values) == 1 and text_fits(kind, values[0])


_BOOLEANS = ("true", "false", "1", "0", "on", "off", "yes", "no", "t", "f", "y", "n")


def text_fits(kind: str | list[str], text: str) -> bool:
    """Whether argparse takes the text."""
    if isinstance(kind, list):
        return text in kind
    if kind in ("boolean", "boolean switch"):
        return text.lower() in _BOOLEANS
    converter = {"integer": int, "number": float}.get(kind, str)
    try:
        converter(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------ mappings


def mapping_findings(
    given: Mapping[str, Any], known: Table, path: Path = (), prefix: str = ""
) -> Iterator[Finding]:
    """Compare the keys of a config with the table. The findings' paths begin with `path`.

    `prefix` is the name of the mapping in the table, with a dot: "zero_optimization.".
    """
    for key, value in given.items():
        name, where = f"{prefix}{key}", (*path, key)
        kind = known.types.get(name)
        if known.accepts(name) or (kind is not None and isinstance(value, Text)):
            continue
        if isinstance(value, dict) and known.has_keys_of(name):
            yield from mapping_findings(value, known, where, f"{name}.")
        elif kind is None:
            yield unknown(where, name, known)
        elif not (value_fits(kind, value) or (known.coerces and _is_coerced(kind, value))):
            shown = "null" if value is None else as_text(value) if _is_scalar(value) else "this"
            what = f"{name}: {shown}, but {known.label} expects {_wish(kind)}"
            yield Finding(where, what, _example(str(key), kind, value))


def value_fits(kind: str | list[str], value: Any) -> bool:
    """Whether a YAML value is of the type; a whole number may stand for a number."""
    if isinstance(kind, list):
        return _is_scalar(value) and as_text(value) in kind
    if kind == "any":
        return True
    if isinstance(value, bool):
        return kind in ("boolean", "switch")
    types: dict[str, tuple[type, ...]] = {
        "integer": (int,),
        "number": (int, float),
        "text": (str,),
        "list": (list, tuple),
        "mapping": (dict,),
    }
    return isinstance(value, types.get(kind, ()))


def _is_coerced(kind: str | list[str], value: Any) -> bool:
    """Whether pydantic would convert the value, or leave it out."""
    if value == "auto" or value is None:
        return True
    if kind in ("integer", "number") and isinstance(value, (bool, str, float)):
        return _is_number(value) and (kind == "number" or float(value).is_integer())
    return kind == "boolean" and str(value).lower() in _BOOLEANS


def _is_number(value: Any) -> bool:
    try:
        return abs(float(value)) < float("inf")
    except (TypeError, ValueError):
        return False


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool))


# ------------------------------------------------------------------ what is said


def unknown(path: Path, name: str, known: Table, dashes: str = "") -> Finding:
    """A name that this version does not have: a warning, or a note if another one may have it."""
    kind, near = "flag" if dashes else "key", known.nearest(name)
    what = f"{known.label} has no {kind} {dashes}{name}"
    if new := known.renamed.get(name):
        hint = f"write {dashes}{new} in its place, or {_accept([name])}"
        return Finding(path, f"{what}: it is {dashes}{new} now", hint, warning=True, at_key=True)
    if name in known.removed:
        hint = f"remove it, or {_accept([name])}"
        return Finding(path, f"{what}: another version had it", hint, warning=True, at_key=True)
    last = near if dashes or near is None else near.rpartition(".")[2]
    if near is None and (elsewhere := known.elsewhere(name)):
        what += f": it is a part of {elsewhere.rpartition('.')[0] or 'the top'}"
        last = elsewhere
    elif near is None and not known.refuses_unknown:
        return _note(path, [name], known)
    hint = f"did you mean {dashes}{last}?" if last else "remove it, or write the key that is meant"
    if not known.refuses_unknown:
        hint += f" If it is right, {_accept([name])}"
    return Finding(path, what, hint, warning=not known.refuses_unknown, at_key=True)


def _note(path: Path, names: list[str], known: Table) -> Finding:
    """Names that may be newer than the table, or a fork's."""
    are = "is" if len(names) == 1 else "are"
    what = f"{', '.join(names)} {are} not in our table of {known.label}"
    hint = f"`clusterjobs validate` asks {known.program} itself; if right, {_accept(names)}"
    return Finding(path, what, hint, warning=True, at_key=True, info=True)


def _accept(names: Iterable[str]) -> str:
    return f"write known_args: [{', '.join(one.lstrip('-') for one in names)}]"


_WISHES = {
    "switch": "no value",
    "integer": "an integer",
    "number": "a number",
    "text": "a value",
    "boolean": "true or false",
    "boolean switch": "true, false or no value",
    "boolean or text": "a value",
    "list": "a list",
    "mapping": "a mapping",
}
_EXAMPLES = {"switch": "true", "integer": "1000", "number": "0.1", "boolean": "true"}


def _wish(kind: str | list[str]) -> str:
    if isinstance(kind, str):
        return _WISHES[kind]
    more = f" and {len(kind) - _SHOWN} more" if len(kind) > 2 * _SHOWN else ""
    return f"one of {', '.join(kind[:_SHOWN] if more else kind)}{more}"


def _example(name: str, kind: str | list[str], value: Any = None) -> str:
    if isinstance(kind, list):
        return f"write {name}: {nearest(str(value), kind) or kind[0]}"
    if kind == "integer" and _is_number(value) and float(value).is_integer():
        return f"write {name}: {float(value):.0f}"
    example = _EXAMPLES.get(kind)
    return f"write for example {name}: {example}" if example else f"write {_WISHES[kind]}"
