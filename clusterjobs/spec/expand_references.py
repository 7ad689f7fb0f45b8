"""Replaces the references `{{ name }}` of a merged spec by the values that they name."""

from collections.abc import Callable, Mapping
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem, nearest
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.known_references import (
    DERIVED,
    LATEST,
    NODE_RANK,
    check_place,
    computed_value,
    job_value,
    node_variable,
    point_value,
    role_address,
)
from clusterjobs.spec.model import SpecModel, TopLevelKeys, is_expanded_by_node, keys_below
from clusterjobs.spec.need_references import KEY as NEEDS
from clusterjobs.spec.need_references import NeededValues, NeedReader, needed_value, no_needs
from clusterjobs.spec.references import (
    BadReferenceError,
    Expanded,
    expand,
    look_up,
    names_in,
    nodes_in_range,
)
from clusterjobs.text import DerivedValue, Text, Value, expanding, show, variable, variable_names
from clusterjobs.yaml.document import Path, dotted, look_at

_MAX_REFERENCES = 50
_HINT = "write the value instead"


def expand_references(
    data: dict[str, Any],
    source: Locator,
    problems: list[Problem],
    only: str | None = None,
    read_need: NeedReader = no_needs,
    options: type[SpecModel] | None = None,
) -> Any:
    """`data` with its references expanded, also in the values that they name.

    `only`: what is at this key, instead of all data. `options`: the framework's keys.
    """
    keys = {**keys_below(Experiment), **(keys_below(options) if options else {})}

    def read(spec: str, index: int) -> NeededValues:
        return read_need(spec, source.locate((NEEDS, index)))

    models = (Experiment, options) if options else (Experiment,)

    def expanded_by_node(path: Path) -> bool:
        return any(is_expanded_by_node(model, path) for model in models)

    writes_files = bool(options and issubclass(options, TopLevelKeys) and options.writes_files)
    as_written = _Values(data, read, writes_files)
    values = _Values(data, read, writes_files, expanded_by_node)
    literal = _Values(data, read, True, expanded_by_node)

    def walk(value: Any, path: Path) -> Any:
        if path in keys and keys[path].references == "none":
            return value  # code: a value would be executed
        if isinstance(value, dict):
            expanded = {key: walk(item, (*path, key)) for key, item in value.items()}
            return {key: item for key, item in expanded.items() if not left_out(value[key], item)}
        if isinstance(value, list):
            items = [walk(item, (*path, index)) for index, item in enumerate(value)]
            return [one for old, one in zip(value, items, strict=True) if not left_out(old, one)]
        if not isinstance(value, str) or "{{" not in value:
            return value
        known = keys.get(path[:1])
        in_file = known is not None and known.writes_file
        try:
            own = literal if in_file else as_written if expanded_by_node(path) else values
            found = expand(value, own.find)
            check_place(path, found, lambda name: own.way(value, name))
            return found
        except BadReferenceError as error:
            problems.append(Problem(str(error), source.locate(path), dotted(path), error.hint))
            return value

    return walk(data, ()) if only is None else walk(data.get(only), (only,))


def left_out(written: Any, expanded: Any) -> bool:
    """Whether a reference names null: a row of `by_nodes`, whose key the spec then has not."""
    return expanded is None and written is not None


def expanded_text(data: dict[str, Any], *path: str) -> str | None:
    """The text at a path that has no references, or only such to values that are known."""
    found = expanded_value(data, *path)
    return found if isinstance(found, str) else None


def expanded_value(data: dict[str, Any], *path: str) -> Value | None:
    """The text at a path, its references expanded; None if there is none, or it is wrong."""
    value = look_at(data, path)
    try:
        found = expand(value, _Values(data).find) if isinstance(value, str) else None
    except BadReferenceError:
        return None
    return found if isinstance(found, (str, Text)) else None


class _Values:
    """The values that references name, each expanded once.

    `literal`: a point's values themselves, and not the script's variables.
    `read_need` reads the values of a need, by its file and its place in the list.
    `expanded_by_node`: whether the node expands the text at a path. Such a value is what it is
    on the node, for a place where nothing is expanded; without the function, as it is written.
    """

    def __init__(
        self,
        data: Mapping[str, Any],
        read_need: Callable[[str, int], NeededValues] | None = None,
        literal: bool = False,
        expanded_by_node: Callable[[Path], bool] = lambda _path: False,
    ) -> None:
        self._data, self._read_need, self._literal = data, read_need, literal
        self._expanded_by_node = expanded_by_node
        self._open: list[str] = []
        self._known: dict[str, Expanded] = {}  # else values with two references each: 2^n look-ups

    def find(self, name: str) -> Expanded:
        """The value of that name. Raises BadReferenceError."""
        head, _, rest = name.partition(".")
        if head == "parameters":
            return self._parameter(rest)
        if head == "job":
            return job_value(rest)
        if head == "values":
            return self._of_values(rest)
        if head in ("point", "sweep"):
            return self._of_sweep(head, rest)
        if head == "env" and not self._is_given(rest, "env"):
            return self._node_variable(rest)
        if head == NEEDS:
            return self._of_a_need(rest)
        if head == "roles" and (address := role_address(rest, self._data.get("roles"))):
            return address
        if name == "checkpoints.latest":
            return self._latest()
        return self._looked_up(name)

    def _of_values(self, name: str) -> Expanded:
        rows = look_at(self._data, ("values", name, "by_nodes"))
        if not isinstance(rows, Mapping):
            return computed_value(name, self._data.get("values"))
        given = self._looked_up("nodes") if "nodes" in self._data else 1
        nodes = show(given) if isinstance(given, Text) else str(given)
        for row in rows:
            found = nodes_in_range(str(row))
            if found and nodes.isdecimal() and int(nodes) in found:
                return self._looked_up(f"values.{name}.by_nodes.{row}")
        what = f"values.{name}.by_nodes has no value for {nodes} nodes"
        raise BadReferenceError(what, f"add {nodes}: ...")

    def _latest(self) -> Text:
        if not self._is_given("path", "checkpoints"):
            raise BadReferenceError(
                "checkpoints.latest: the spec has no checkpoints",
                "add `checkpoints: {path: /fsx/checkpoints/my-run}`",
            )
        return variable(LATEST)

    def _looked_up(self, name: str) -> Expanded:
        if name in self._open:
            raise BadReferenceError(
                f"{name} refers to itself", "replace one of the references by its value"
            )
        if len(self._open) == _MAX_REFERENCES:
            raise BadReferenceError(f"more than {_MAX_REFERENCES} references lead to {name}", _HINT)
        if name not in self._known:
            self._open.append(name)
            try:
                found = self._written_or_derived(name)
                if isinstance(found, str):
                    found = expand(found, self.find)
                self._known[name] = self._on_node(name, found)
            finally:
                self._open.pop()
        return self._known[name]

    def _on_node(self, name: str, found: Expanded) -> Expanded:
        key, _, variable_name = name.partition(".")
        if not (isinstance(found, (str, Text)) and self._expanded_by_node(tuple(name.split(".")))):
            return found
        if key != "env":
            return expanding(found)
        expanded = expanding(found, "")
        names = variable_names(expanded)
        is_set_by_then = NODE_RANK not in names  # each rank sets a variable that has its node
        differs = names != variable_names(found)
        return variable(variable_name) if differs and is_set_by_then else expanded

    def _of_a_need(self, name: str) -> Expanded:
        if self._read_need is None:
            raise BadReferenceError("the value of another spec cannot be used here", _HINT)
        if NEEDS in self._open:
            raise BadReferenceError("needs cannot refer to needs", _HINT)
        self._open.append(NEEDS)
        try:
            return needed_value(name, self._data.get(NEEDS), self._read_need, self._expanded)
        finally:
            self._open.pop()

    def _expanded(self, value: str) -> Expanded:
        return expand(value, self.find)

    def _written_or_derived(self, name: str) -> Expanded:
        try:
            found: Expanded = look_up(name, self._data)
            return found
        except BadReferenceError as error:
            if name in DERIVED:
                return Text((DerivedValue(name),))
            known = [one for one in DERIVED if one.count(".") == name.count(".")]
            if meant := nearest(name, known):
                raise BadReferenceError(str(error), f"did you mean {meant}?") from None
            raise

    def way(self, text: str, name: str) -> list[str]:
        """The references that lead from `text` to the derived value `name`, which is the last."""
        ways: dict[str, list[str]] = {text: []}
        for written in (pending := [text]):
            for one in names_in(written):
                value = self._text_at(one)
                if value == Text((DerivedValue(name),)):
                    return [*ways[written], one]
                if isinstance(value, str) and value not in ways:
                    ways[value] = [*ways[written], one]
                    pending.append(value)
        return [name]

    def _text_at(self, name: str) -> Value:
        try:
            found = self._written_or_derived(name)
            return found if isinstance(found, Text) else str(found)
        except BadReferenceError:  # of the running job
            return ""

    def _of_sweep(self, head: str, rest: str) -> Expanded:
        sweep = self._data.get("sweep")
        if not isinstance(sweep, dict):
            raise BadReferenceError(
                f"there is no {head}.{rest}: the spec has no sweep",
                "add `sweep: {grid: {args.lr: [1e-3, 1e-4]}}`, or remove the reference",
            )
        if head == "point":
            found = point_value(rest)
            known: Expanded = sweep.get("point", {}).get(rest)
            return known if self._literal and known is not None else found
        if rest != "name":
            raise BadReferenceError(f"there is no value sweep.{rest}", "write sweep.name")
        return self._looked_up("sweep.name" if "name" in sweep else "name")

    def _is_given(self, name: str, key: str) -> bool:
        given = self._data.get(key)
        return isinstance(given, (dict, list)) and name in given

    def _node_variable(self, name: str) -> Text:
        if self._is_given(name, "secrets"):
            raise BadReferenceError(
                f"{name} is a secret, and others can read command lines and files of the job",
                "the program finds it in its environment",
            )
        return node_variable(name)

    def _parameter(self, name: str) -> Text:
        declared = self._data.get("parameters")
        if not isinstance(declared, dict) or name not in declared:
            raise BadReferenceError(
                f"the parameter {name} is not declared", f"add `parameters: {{{name}: default}}`"
            )
        return variable(name)
