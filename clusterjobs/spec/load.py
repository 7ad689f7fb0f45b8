"""From a spec's text to an Experiment: YAML, then `--set`, then references, then the models.

Each step keeps the positions of values, so that later problems can be shown where they are. It
must not know the meaning of any key, except that code holds no references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Location, Problem, in_order, one_problem
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.node_references import job_value, node_variable
from clusterjobs.spec.references import BadReferenceError, Scalar, expand, look_up, variable
from clusterjobs.spec.remaining import remaining_experiment
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.validate import OptionModels, validate
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted

# References in code are not expanded: the value would be executed.
_CODE: tuple[Path, ...] = (("setup",), ("software", "setup"))


class Override(NamedTuple):
    """One `--set key=value`, and the positions of both."""

    path: Path
    value: Any
    where: Location
    key: Location


class Source(NamedTuple):
    """The positions of the spec's values, in the file or in `--set`."""

    document: Document
    overrides: tuple[Override, ...] = ()

    def locate(self, path: Path) -> Location:
        found = self._override(path)
        return found.where if found else self.document.locate(path)

    def locate_key(self, path: Path) -> Location:
        found = self._override(path)
        if found is None:
            return self.document.locate_key(path)
        is_given = _holds(found.value, path[len(found.path) :])
        return found.key if is_given else found.where

    def _override(self, path: Path) -> Override | None:
        for override in self.overrides[::-1]:
            inner, outer = sorted((path, override.path), key=len)
            if outer[: len(inner)] == inner and (inner == override.path or not self._written(path)):
                return override
        return None

    def _written(self, path: Path) -> bool:
        return _holds(self.document.value, path, through_lists=False)


def _holds(data: Any, path: Path, through_lists: bool = True) -> bool:
    """Whether the data has a value at `path`."""
    for step in path:
        if isinstance(data, list) and through_lists:
            if not (isinstance(step, int) and step < len(data)):
                return False
        elif not isinstance(data, dict) or step not in data:
            return False
        data = data[step]
    return True


class Spec(NamedTuple):
    """A loaded spec: the experiment, its framework's options, and their positions."""

    experiment: Experiment
    options: SpecModel | None
    source: Source


class BrokenSpecError(InputError):
    """Values are wrong. `rest` is the spec without them; None if it is no spec without them."""

    def __init__(self, problems: Iterable[Problem], rest: Spec | None) -> None:
        super().__init__(problems)
        self.rest = rest


def load_spec(
    text: str, file: str, option_models: OptionModels, settings: Sequence[str] = ()
) -> Spec:
    """Read a spec. `option_models` has the keys of each framework; `settings` are `--set` items.

    Raises InputError for the YAML, and BrokenSpecError with all problems of the references and
    the single values.
    """
    document = yaml_document.load(text, file)
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "expected a mapping"
        raise one_problem(
            what, document.locate(()), hint="start from a copy of examples/tiny-gpt.yaml"
        )
    overrides = tuple(_read_setting(item, number) for number, item in enumerate(settings, 1))
    source = Source(document, overrides)
    data = _apply(document.value, overrides)
    if secrets := find_secrets(data, source):
        raise InputError(secrets)  # alone, because other problems would print the lines
    problems: list[Problem] = []
    data = _expand_references(data, source, problems)
    experiment, options = validate(data, source, option_models, problems)
    if problems or experiment is None:
        remaining = remaining_experiment(data, problems, source, option_models)
        raise BrokenSpecError(in_order(problems), remaining and Spec(*remaining, source))
    return Spec(experiment, options, source)


# ------------------------------------------------------------------ --set


def _read_setting(item: str, number: int) -> Override:
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
    path = tuple(_step(part) for part in key.split("."))
    if len(path) > yaml_document.MAX_DEPTH:
        raise one_problem(f"nested deeper than {yaml_document.MAX_DEPTH} levels", at_key)
    try:
        value = yaml_document.load(text, "--set").value
    except InputError as error:
        raise InputError([Problem(p.what, where, key, p.hint) for p in error.problems]) from None
    return Override(path, value, where, at_key)


def _step(part: str) -> str | int:
    return int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part


def _apply(data: dict[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    for override in overrides:
        data = _replaced(data, override.path, override)
    return data


def _replaced(data: Any, path: Path, override: Override) -> Any:
    """A copy of `data` with the value at `path` replaced; missing mappings are made."""
    if not path:
        return override.value
    step, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return [
            _replaced(item, rest, override) if index == step else item
            for index, item in enumerate(data)
        ]
    if data is None or isinstance(data, dict):
        data = data or {}
        return {**data, str(step): _replaced(data.get(str(step)), rest, override)}
    shown = ".".join(map(str, override.path))
    outer = ".".join(map(str, override.path[: len(override.path) - len(path)]))
    kind = f"has {counted(len(data), 'item')}" if isinstance(data, list) else "is a single value"
    what = f"there is no {step} in {outer}, which {kind}"
    raise one_problem(what, override.key, shown, f"replace all of it: --set {outer}=...")


# ------------------------------------------------------------------ {{ references }}

_MAX_REFERENCES = 50
_HINT = "write the value instead"


def _expand_references(data: dict[str, Any], source: Source, problems: list[Problem]) -> Any:
    """`data` with its references expanded, also in the values that they name."""
    open_names: list[str] = []
    known: dict[str, Scalar] = {}  # else values with two references each take exponential time

    def lookup(name: str) -> Scalar:
        head, _, rest = name.partition(".")
        if head == "parameters":
            return _parameter(rest, data)
        if head == "job":
            return job_value(rest)
        if head == "env" and not _is_given(rest, data, "env"):
            return _node_variable(rest, data)
        if name in open_names:
            raise BadReferenceError(
                f"{name} refers to itself", "replace one of the references by its value"
            )
        if len(open_names) == _MAX_REFERENCES:
            raise BadReferenceError(f"more than {_MAX_REFERENCES} references lead to {name}", _HINT)
        if name not in known:
            open_names.append(name)
            try:
                known[name] = follow(look_up(name, data))
            finally:
                open_names.pop()
        return known[name]

    def follow(found: Scalar) -> Scalar:
        return expand(found, lookup) if isinstance(found, str) else found

    def walk(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        try:
            return expand(value, lookup)
        except BadReferenceError as error:
            where = source.locate(path)
            problems.append(Problem(str(error), where, dotted(path), error.hint))
            return value

    return {
        key: value if (key,) in _CODE else _walk_outside_code(walk, key, value)
        for key, value in data.items()
    }


def _walk_outside_code(walk: Callable[[Any, Path], Any], key: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return walk(value, (key,))
    return {
        name: item if (key, name) in _CODE else walk(item, (key, name))
        for name, item in value.items()
    }


def _is_given(name: str, data: Mapping[str, Any], key: str) -> bool:
    given = data.get(key)
    return isinstance(given, (dict, list)) and name in given


def _node_variable(name: str, data: Mapping[str, Any]) -> str:
    if _is_given(name, data, "secrets"):
        raise BadReferenceError(
            f"{name} is a secret, and others can read command lines and files of the job",
            "the program finds it in its environment",
        )
    return node_variable(name)


def _parameter(name: str, data: Mapping[str, Any]) -> str:
    declared = data.get("parameters")
    if not isinstance(declared, dict) or name not in declared:
        raise BadReferenceError(
            f"the parameter {name} is not declared", f"add `parameters: {{{name}: default}}`"
        )
    return variable(name)
