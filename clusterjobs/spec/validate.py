"""Validation of a spec's data by the models: each pydantic error becomes a Problem."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError, create_model

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem, did_you_mean, nearest
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import renamed_key, slurm_name, written_value
from clusterjobs.spec.model import Key, OptionModels, SpecModel, keys_below, known_keys, models_in
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text, show
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Path, dotted


class Validated(NamedTuple):
    """A spec's models. `launcher_options`: those of every launcher that it has options of."""

    spec: Experiment | None
    options: SpecModel | None
    launcher_options: Mapping[str, SpecModel]


def validate(
    data: dict[str, Any], source: Locator, option_models: OptionModels, problems: list[Problem]
) -> Validated:
    """The spec, and the options of its framework and launcher; errors go into `problems`.

    If the framework is unknown, the keys of all frameworks pass: one mistake, one message.
    """
    framework = str(data.get("framework"))
    model = option_models.of_framework(framework)
    own = set(model.model_fields) if model else set()
    fields = Experiment.model_fields
    launchers = {
        key: found
        for key in data
        if key not in own and key not in fields
        if (found := option_models.launchers.get(key))
    }
    further = {*own, *launchers}
    foreign = _foreign_keys(data, further, option_models)
    common = {key: data[key] for key in data if key not in further and key not in foreign}
    spec = _build(_Given(Experiment, common, data, source, further), problems)
    options = None
    if model:
        values = {key: data[key] for key in data if key in own}
        options = _build(_Given(model, values, data, source, own), problems)
    of_launchers = {}
    for name, found in launchers.items():
        given = _Given(_below(name, found), {name: data[name]}, data, source, further)
        if built := _build(given, problems):
            of_launchers[name] = getattr(built, name)
    if framework in option_models.frameworks:
        problems += [_foreign_problem(key, framework, source, option_models) for key in foreign]
    reported = {problem.path for problem in problems}
    known = {**known_keys(Experiment), **(known_keys(model) if model else {})}
    known |= {key: option_models.key(key) for key in foreign}
    nulls = [
        path
        for path in _nulls(data, ())
        if not ((key := known.get(str(path[0]))) and key.allows_null)
        if dotted(path) not in reported
    ]
    problems += [_null_problem(path, source) for path in nulls]
    return Validated(spec, options, of_launchers)


@functools.cache
def _below(key: str, model: type[SpecModel]) -> type[SpecModel]:
    """A model with one key, so that errors have the path from the top of the spec."""
    return create_model("Below", __base__=SpecModel, **{key: (model, ...)})  # type: ignore[call-overload, no-any-return]


def check_model(
    model: type[SpecModel], data: dict[str, Any], source: Locator, problems: list[Problem]
) -> Any:
    """`data` of another file than a spec as `model`; None with the errors in `problems`."""
    found = _build(_Given(model, data, data, source, None), problems)
    reported = {problem.path for problem in problems}
    nulls = [path for path in _nulls(data, ()) if dotted(path) not in reported]
    problems += [_null_problem(path, source) for path in nulls]
    return found


def _nulls(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _nulls(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nulls(item, (*path, index))
    elif value is None:
        yield path


def _null_problem(path: Path, source: Locator) -> Problem:
    hint = "write a value or remove the key; in YAML ~ means no value: a home folder is ${HOME}"
    return Problem("the value is missing", source.locate_key(path), dotted(path), hint)


def _foreign_keys(data: Mapping[str, Any], own: set[str], option_models: OptionModels) -> list[str]:
    """The keys of other frameworks, which are imported only if a key is unknown."""
    fields = Experiment.model_fields
    unknown = [key for key in data if key not in own and key not in fields]
    models = option_models.frameworks.values() if unknown else ()
    known = {name for model in models if model for name in model.model_fields}
    return [key for key in unknown if key in known]


def _foreign_problem(
    key: str, framework: str, source: Locator, option_models: OptionModels
) -> Problem:
    models = option_models.frameworks.items()
    owners = [name for name, model in models if model and key in model.model_fields]
    return Problem(
        f"{framework} has no key {key}",
        source.locate_key((key,)),
        key,
        f"remove it, or choose a framework that has it: {', '.join(owners)}",
    )


class _Given(NamedTuple):
    """What a model is built from.

    `values`: its own part of `data`, which is the whole file. `more_keys`: keys of the spec that
    others read; None if it is not a spec.
    """

    model: type[SpecModel]
    values: Mapping[str, Any]
    data: Mapping[str, Any]
    source: Locator
    more_keys: set[str] | None


def _build(given: _Given, problems: list[Problem]) -> Any:
    """The model; None with the errors in `problems`."""
    try:
        return given.model.model_validate(given.values)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems += _without_repeats([_problem_of(dict(detail), given) for detail in details])
        return None


def _without_repeats(found: list[Problem]) -> list[Problem]:
    """Without the problems that a misspelt key causes: that the right one is missing."""
    hints = {problem.hint for problem in found}
    return [
        problem
        for problem in found
        if not problem.what.endswith(" is missing")
        or f"did you mean {problem.path.rpartition('.')[2]}?" not in hints
    ]


def _problem_of(detail: dict[str, Any], given: _Given) -> Problem:
    path, source = _path_of(detail["loc"], given.data), given.source
    kind = detail["type"]
    if kind == "missing":
        where = source.locate_key(path[:-1])
        return Problem(f"{path[-1]} is missing", where, dotted(path), f"add `{path[-1]}: ...`")
    if kind == "extra_forbidden":
        is_spec = given.more_keys is not None
        named = (
            renamed_key(path, given.data, source) or slurm_name(path, source) if is_spec else None
        )
        return named or _unknown_key(path, given)
    is_key = "[key]" in detail["loc"]
    where = source.locate_key(path) if is_key else source.locate(path)
    what, hint = _describe(kind, detail)
    if kind in _WRONG_SHAPE:
        hint = _shape(given.model, path, detail, given.values) or hint
    return Problem(what, where, dotted(path), hint)


def _unknown_key(path: Path, given: _Given) -> Problem:
    """With the key that was meant: a similar one, or the section that has it."""
    source, at_top = given.source, len(path) == 1
    is_spec = given.more_keys is not None
    further = [*given.more_keys, "extends"] if given.more_keys is not None and at_top else []
    known = sorted([*known_keys(_model_at(given.model, path[:-1]) or given.model), *further])
    name, colon, value = str(path[-1]).partition(":")
    hint, meant = did_you_mean(str(path[-1]), known), nearest(str(path[-1]), known) or ""
    if colon and name in known:  # `{micro:8}` is one word of YAML
        hint = f"write a space after the colon: {name}: {value or '...'}"
        hint = f"write --set {name}=..." if source.locate_key(path).file == "--set" else hint
    elif name != name.strip():
        hint = f"indent with ordinary spaces: U+{ord(name[0]):04X} is part of the key"
    elif path[:-1] == ("sweep",) and not meant:
        hint = f"write sweep: {{grid: {{args.{name}: [...]}}}} for an argument of your program"
    elif is_spec and at_top and (sections := _sections_of(name)):
        where, beside = source.locate(path), source.locate_key(path).line
        written = written_value(where) if where.line == beside else "..."
        inner = f"{{{name}: {written}}}"
        for section in reversed(sections[1:]):
            inner = f"{{{section}: {inner}}}"
        hint, meant = f"write {sections[0]}: {inner}", sections[0]
    what, at_key = f"unknown key {path[-1]}", source.locate_key(path)
    written = written_value(source.locate(path))
    if not meant and at_top and "args" in known and written[:1] not in "{":
        is_set = at_key.file == "--set"
        form = f"--set args.{at_key.source}" if is_set else f"args: {{{name}: {written}}}"
        hint = f"for an argument of your program, write {form}; {hint}"
    return Problem(what, at_key, dotted(path), hint, meant=meant)


_WORD = re.compile(r"[\w./-]{1,40}", re.ASCII)  # means the same inside [ ]
_PAIR = re.compile(r"([A-Za-z_]\w*)=([\w./-]+)", re.ASCII)
_NO_MODEL = ("model_type", "model_attributes_type")
_WRONG_SHAPE = ("dict_type", "tuple_type", "list_type", *_NO_MODEL)


def _shape(
    model: type[SpecModel], path: Path, detail: Mapping[str, Any], values: Mapping[str, Any]
) -> str:
    """What to write in place of a value of another shape; "" if nothing is known.

    The value as an item of a list, its words as items or as NAME=VALUE, or it under the one key of
    a mapping, or else an example: the first that the model accepts.
    """
    if not path:
        return ""
    given, in_list = detail["input"], isinstance(path[-1], int)
    place = path[:-1] if in_list else path
    word = as_text(given) if isinstance(given, (str, int, float)) else ""
    words = re.split(r"[,\s]+", word.strip().removeprefix("export "))
    as_list = f"[{word}]" if _WORD.fullmatch(word) and not in_list else ""
    as_words = f"[{', '.join(words)}]" if len(words) > 1 and not in_list else ""
    as_words = as_words if all(map(_WORD.fullmatch, words)) else ""
    pairs = [*map(_PAIR.fullmatch, map(str, given) if isinstance(given, list) else words)]
    as_pairs = f"{{{', '.join(f'{one[1]}: {one[2]}' for one in pairs if one)}}}"
    as_pairs = as_pairs if pairs and all(pairs) else ""
    is_model = detail["type"] in _NO_MODEL and not in_list
    below = _model_at(model, path) if is_model else None
    key = _key_at(model, place)
    with_keys = _with_keys(below) if below else ""
    one_key = _with_one_key(below, word) if below and word else ""
    forms = (as_list, as_pairs, as_words, one_key, key.example if key else "", with_keys)
    for form in filter(None, forms):
        value = yaml_document.load(form, "example").value
        if "..." not in form and _is_accepted(model, values, place, value):
            if form is as_list:
                return f"write `{form}`, or lines that start with `- `"
            return f"write {place[-1]}: {form}"
    return f"write {place[-1]}: {with_keys}" if with_keys else ""


def _key_at(model: type[SpecModel], path: Path) -> Key | None:
    """The key at a path, which may have indexes and one name that the user chose."""
    below = keys_below(model)
    names = tuple(step for step in path if not isinstance(step, int))
    without = (names[:n] + names[n + 1 :] for n in range(1, len(names) - 1))
    return next((below[one] for one in (names, *without) if one in below), None)


def _with_one_key(model: type[SpecModel], word: str) -> str:
    """`{stage: 3}`: the word under the one key that the mapping must have."""
    required = [one.alias or name for name, one in model.model_fields.items() if one.is_required()]
    return f"{{{required[0]}: {word}}}" if len(required) == 1 else ""


def _with_keys(model: type[SpecModel]) -> str:
    """The keys that the mapping must have, or else its first ones, with their examples."""
    fields, keys = model.model_fields.items(), known_keys(model)
    names = [field.alias or name for name, field in fields if field.is_required()]
    if not names:
        names = [field.alias or name for name, field in fields][: 1 if all(keys.values()) else 3]
    examples = {name: key.example if (key := keys[name]) else "..." for name in names}
    return f"{{{', '.join(f'{name}: {example}' for name, example in examples.items())}}}"


def _is_accepted(model: type[SpecModel], values: Mapping[str, Any], path: Path, value: Any) -> bool:
    """Whether the model finds nothing wrong at `path`, or in it, if the value is there."""
    new = _with(values, path, value)
    try:
        model.model_validate(new)
    except ValidationError as error:
        wrong = (_path_of(one["loc"], new) for one in error.errors(include_url=False))
        return not any(one[: len(path)] == path for one in wrong)
    return True


def _with(data: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, *rest = path
    if isinstance(data, list) and isinstance(step, int) and step < len(data):
        return [*data[:step], _with(data[step], tuple(rest), value), *data[step + 1 :]]
    data = data if isinstance(data, dict) else {}
    return {**data, step: _with(data.get(step), tuple(rest), value)}


def _describe(kind: str, detail: Mapping[str, Any]) -> tuple[str, str]:
    context, given = detail.get("ctx", {}), detail["input"]
    given = show(given) if isinstance(given, Text) else given
    if kind == "value_error":
        what, _, hint = str(context["error"]).partition(": ")
        return what, hint
    if kind == "literal_error":
        known = [
            choice.strip(" '") for choice in context["expected"].replace(" or ", ",").split(",")
        ]
        return f"{given!r} is not one of the choices", did_you_mean(str(given), known)
    if kind in ("dict_type", *_NO_MODEL):
        return "expected a mapping", "write `key: value` lines below it"
    if kind in ("tuple_type", "list_type"):
        shown = as_text(given) if isinstance(given, (str, int, float)) else ""
        items = f"[{shown}]" if _WORD.fullmatch(shown) else "[a, b]"
        return "expected a list", f"write `{items}`, or lines that start with `- `"
    if kind == "greater_than_equal":
        return f"{given} is less than {context['ge']}", f"write {context['ge']} or more"
    if kind == "less_than_equal":
        return f"{given} is more than {context['le']:,}", f"write {context['le']} or less"
    if kind == "too_long":
        return f"more than {context['max_length']} items", "combine some of them"
    return str(detail["msg"]).lower(), ""


_TAGS = ("[key]", "map", "list")  # types of a union, no keys


def _path_of(loc: tuple[str | int, ...], data: Any) -> Path:
    """pydantic's location as a path in the data, without the names of a union's types."""
    path: list[str | int] = []
    for position, step in enumerate(loc):
        inside = isinstance(data, dict) and step in data
        item = isinstance(data, list) and type(step) is int and step < len(data)
        if inside or item:
            path.append(step)
            data = data[step]
        elif isinstance(data, list) and step in data:
            path.append(data.index(step))  # a list of names that was read as a mapping
            data = step
        elif position == len(loc) - 1 and step not in _TAGS and isinstance(data, dict):
            path.append(step)
    return tuple(path)


_LISTS = ("report", "sweep")  # their keys have names of other values


def _sections_of(name: str) -> tuple[str, ...]:
    """The one place of the key: `software` of `modules`, `software`, `container` of `image`.

    () if there are several.
    """
    keys = keys_below(Experiment)
    found = [one[:-1] for one in keys if one[-1] == name and len(one) > 1 and one[0] not in _LISTS]
    in_sections = [one for one in found if keys[one[:1]].is_section]
    found = [one for one in in_sections if len(one) == 1] or in_sections or found
    return tuple(map(str, found[0])) if len(found) == 1 else ()


def _model_at(model: type[SpecModel], path: Path) -> type[SpecModel] | None:
    """The innermost model on the way to `path`; None if there is none below `model`."""
    found = None
    for step in path:
        fields = (found or model).model_fields
        if step in fields:  # not an index of a list, nor a name that the user chose
            found = next(models_in(fields[str(step)].annotation), found)
    return found
