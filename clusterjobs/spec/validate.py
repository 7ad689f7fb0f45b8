"""Validation of a spec's data by the models: each pydantic error becomes a Problem."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError, create_model

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import InputError, Problem, did_you_mean, nearest
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import NotAnIntegerError
from clusterjobs.spec.key_names import (
    key_of_other_name,
    renamed_key,
    slurm_name,
    written_value,
)
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
    """The problems without those that a misspelt key causes: that the right one is missing."""
    hints = [problem.hint for problem in found if problem.what.startswith("unknown key ")]
    names = [problem.path.rpartition(".")[2] for problem in found]
    return [
        problem
        for problem, name in zip(found, names, strict=True)
        if not problem.what.endswith(" is missing")
        or not any(one.startswith((f"did you mean {name}?", f"write {name}: ")) for one in hints)
    ]


def _problem_of(detail: dict[str, Any], given: _Given) -> Problem:
    path, source = _path_of(detail["loc"], given.data), given.source
    kind = detail["type"]
    if kind == "missing":
        where = source.locate_key(path[:-1])
        return Problem(f"{path[-1]} is missing", where, dotted(path), f"add `{path[-1]}: ...`")
    if kind == "extra_forbidden":
        is_spec = given.more_keys is not None
        value = detail["input"]
        named = renamed_key(path, given.data, source) if is_spec else None
        in_spec = is_spec or path[0] == "sweep"  # which is checked alone
        meant = (key_of_other_name(path) or _section_of(path)) if in_spec else None
        if not named and meant:
            named = _other_name(path, meant, value, given)
        if is_spec and not named:
            named = slurm_name(path, source, lambda key, text: _fitted(given, (key,), value, text))
        return named or _unknown_key(path, value, given)
    is_key = "[key]" in detail["loc"]
    where = source.locate_key(path) if is_key else source.locate(path)
    what, hint = _describe(kind, detail)
    if kind in _WRONG_SHAPE:
        hint = _shape(given, path, detail) or hint
    if kind == "value_error" and not hint and not is_key:
        hint = _single_value(given, path, detail["input"], detail["ctx"]["error"])
    return Problem(what, where, dotted(path), hint)


def _other_name(path: Path, meant: Path, value: Any, given: _Given) -> Problem:
    """The problem of an unknown key that others have for the key `meant`."""
    where, at_key = given.source.locate(path), given.source.locate_key(path)
    written = written_value(where) if where.line == at_key.line else "..."
    form = "..." if written == "..." else _fitted(given, meant, value, written)
    inner = meant if len(path) == 1 else meant[len(path) - 1 :]
    for step in reversed(inner[1:]):
        form = f"{{{step}: {form}}}"
    is_set = at_key.file == "--set"
    hint = f"write --set {dotted(meant)}=..." if is_set else f"write {inner[0]}: {form}"
    section = given.data.get(str(inner[0])) if len(inner) > 1 else None
    if isinstance(section, dict) and not is_set:
        hint = f"in {inner[0]}, write {form[1:-1]}"
    what = f"unknown key {path[-1]}"
    return Problem(what, at_key, dotted(path), hint, meant=str(meant[len(path) - 1]))


def _unknown_key(path: Path, value: Any, given: _Given) -> Problem:
    """The problem of an unknown key, with what was meant: a similar key, or one of a section."""
    source, at_top = given.source, len(path) == 1
    further = [*given.more_keys, "extends"] if given.more_keys is not None and at_top else []
    known = sorted([*known_keys(_model_at(given.model, path[:-1]) or given.model), *further])
    name, colon, after = str(path[-1]).partition(":")
    hint, meant = did_you_mean(str(path[-1]), known), nearest(str(path[-1]), known) or ""
    is_far = meant and not nearest(str(path[-1]), [meant], _ALIKE)
    if is_far and not _is_accepted(given.model, given.values, (*path[:-1], meant), value):
        hint, meant = did_you_mean("", known), ""
    if colon and name in known:  # `{micro:8}` is one word of YAML
        hint = f"write a space after the colon: {name}: {after or '...'}"
        hint = f"write --set {name}=..." if source.locate_key(path).file == "--set" else hint
    elif name != name.strip():
        hint = f"indent with ordinary spaces: U+{ord(name[0]):04X} is part of the key"
    elif path[:-1] == ("sweep",) and not meant and (isinstance(value, list) or _is_swept(name)):
        of_program = "" if _is_swept(name) else "args."
        below = [*value][:1] if isinstance(value, dict) else []
        is_list = isinstance(value[below[0]] if below else value, list)
        values = written_value(source.locate((*path, *below))) if is_list else "[...]"
        hint = f"write sweep: {{grid: {{{of_program}{'.'.join([name, *below])}: {values}}}}}"
        hint += " for an argument of your program" if of_program else ""
    elif at_top and value is True and (keys := _with_choice(given.model, name)):
        hint, meant = f"write {keys[0]}: {name}", keys[0]
    what, at_key = f"unknown key {path[-1]}", source.locate_key(path)
    written = written_value(source.locate(path))
    section = _key_at(given.model, path[:1])
    is_argument = "args" in known if at_top else len(path) == 2 and section and section.is_section
    if not meant and is_argument and written[:1] not in "{":
        is_set = at_key.file == "--set"
        form = f"--set args.{name}={written}" if is_set else f"args: {{{name}: {written}}}"
        for_program = f"for an argument of your program, write {form}"
        hint = f"{for_program}; {hint}" if at_top else f"{hint}; {for_program}"
    return Problem(what, at_key, dotted(path), hint, meant=meant)


_WORD = re.compile(r"[\w./-]{1,40}", re.ASCII)  # means the same inside [ ]
_PAIR = re.compile(r"(?:--)?([A-Za-z_][\w-]*)=([\w./-]+)|--([a-z][\w-]*)", re.ASCII)
_NUMBER = re.compile(r"(?<!\.)\b\d+\b(?!\.)")
_ALIKE = 0.75  # a less similar key must at least accept the value
_NO_MODEL = ("model_type", "model_attributes_type")
_WRONG_SHAPE = ("dict_type", "tuple_type", "list_type", *_NO_MODEL)


def _shape(given: _Given, path: Path, detail: Mapping[str, Any]) -> str:
    """What to write in place of a value of another shape; "" if nothing is known."""
    place = path[:-1] if path and isinstance(path[-1], int) else path
    if not place:
        return ""
    value, written = detail["input"], ""
    if place is path and isinstance(value, dict):
        written = written_value(given.source.locate(path))
    form = _fitted(given, place, value, written)
    word = as_text(value) if isinstance(value, (str, int, float)) else ""
    if form == f"[{word}]" and _WORD.fullmatch(word):
        return f"write `{form}`, or lines that start with `- `"
    return f"write {place[-1]}: {form}" if form != "..." else ""


def _single_value(given: _Given, path: Path, value: Any, error: Exception) -> str:
    """Items of the value, or numbers in it, that the key takes, or else the key's example."""
    key = _key_at(given.model, path)
    has_unit = key is not None and key.unit  # `5 minutes` are not 5 seconds
    written = value if isinstance(value, str) and not has_unit else ""
    parts = value if isinstance(value, list) else _NUMBER.findall(written)
    single = [as_text(one) for one in parts if isinstance(one, (str, int, float))]
    taken = [one for one in single if _reads_and_is_accepted(given, path, one)]
    if taken:
        return f"write {' or '.join(taken[:3])}"
    if key:
        return f"for example {key.example}"
    if isinstance(error, NotAnIntegerError):
        return "for example 12"
    return "write text or a number" if isinstance(value, (list, dict)) else ""


def _fitted(given: _Given, place: Path, value: Any, written: str) -> str:
    """The value in a form that the model accepts at `place`, or else an example; `...` if none.

    As it is `written`, with what a refusal says to write, as an item of a list, its words as items
    or as NAME=VALUE, or under a key of a mapping.
    """
    word = as_text(value) if isinstance(value, (str, int, float)) else ""
    words = re.split(r"[,\s]+", word.strip().removeprefix("export "))
    word = f'"{word}"' if re.search(r"[,\[\]{}#]|: ", word) else word
    items = [*map(str, value)] if isinstance(value, list) else words
    pairs = [*map(_PAIR.fullmatch, items)]
    texts = [f"{one[1] or one[3]}: {one[2] or 'true'}" for one in pairs if one]
    as_pairs = f"{{{', '.join(texts)}}}" if texts and len(texts) == len(pairs) else ""
    below, key = _model_at(given.model, place), _key_at(given.model, place)
    has_required = below and any(one.is_required() for one in below.model_fields.values())
    parts = ([word], words) if has_required and word else ()
    in_items = [_with_keys(below, one) for one in parts] if below else []
    forms: list[str] = [
        written,
        *(_refusals(given, place, value) if word else ()),
        *(f"[{one}]" for one in (_refusals(given, (*place, 0), value) if word else ())),
        f"[{word}]" if word and (has_required or _WORD.fullmatch(word)) else "",
        as_pairs,
        f"[{', '.join(words)}]" if len(words) > 1 and all(map(_WORD.fullmatch, words)) else "",
        *(_with_one_key(below, key, word) if below and word else ()),
        *in_items,
        *(f"[{one}]" for one in in_items),
        f"[{written}]" if isinstance(value, dict) else "",
        f"[{', '.join(map(str, value.values()))}]" if isinstance(value, dict) else "",
        key.example if key else "",
        _with_keys(below) if below else "",
    ]
    for form in forms:
        if form and "..." not in form and _reads_and_is_accepted(given, place, form):
            return form
    return forms[-1] or written or "..."


def _reads_and_is_accepted(given: _Given, place: Path, form: str) -> bool:
    try:
        value: Any = yaml_document.load(f"- {form}", "example").value[0]
    except (InputError, TypeError, IndexError):  # a value of several lines
        return False
    return _is_accepted(given.model, given.values, place, value)


def _refusals(given: _Given, place: Path, value: Any) -> Iterator[str]:
    """What the model says to write instead of this value: `2-00:00:00` of `48h`."""
    new = _with(given.values, place, value)
    try:
        given.model.model_validate(new)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if one["type"] == "value_error" and _path_of(one["loc"], new) == place:
                _, _, hint = str(one["ctx"]["error"]).partition(": ")
                if found := re.fullmatch(r"write (\{.+\}|\S+)( without quotes)?", hint):
                    yield found[1]


def _key_at(model: type[SpecModel], path: Path) -> Key | None:
    """The key at a path, which may have indexes and one name that the user chose."""
    below = keys_below(model)
    names = tuple(step for step in path if not isinstance(step, int))
    without = (names[:n] + names[n + 1 :] for n in range(1, len(names) - 1))
    return next((below[one] for one in (names, *without) if one in below), None)


def _with_one_key(model: type[SpecModel], key: Key | None, word: str) -> Iterator[str]:
    """`{stage: 3}`: the word under the one key that must be there, or under any of a section."""
    fields = [(one.is_required(), one.alias or name) for name, one in model.model_fields.items()]
    required = [name for is_required, name in fields if is_required]
    if len(required) == 1 or (not required and key and key.is_section):
        yield from (f"{{{name}: {word}}}" for name in required or [name for _, name in fields])


def _with_keys(model: type[SpecModel], given: Sequence[str] = ()) -> str:
    """The keys that the mapping must have, or else its first ones, with their examples.

    `given`: values of the first ones.
    """
    fields, keys = model.model_fields.items(), known_keys(model)
    names = [field.alias or name for name, field in fields if field.is_required()]
    if not names:
        names = [field.alias or name for name, field in fields][: 1 if all(keys.values()) else 3]
    examples = {name: key.example if (key := keys[name]) else "..." for name in names}
    examples |= {name: one for name, one in zip(names, given, strict=False) if one}
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
    if isinstance(step, int):
        items = data if isinstance(data, list) else []
        item = _with(items[step] if step < len(items) else None, tuple(rest), value)
        return [*items[:step], item, *items[step + 1 :]]
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


def _with_choice(model: type[SpecModel], word: str) -> list[str]:
    """The keys that have the word as a choice: `precision` of `fp16`."""
    kinds = {name: str(field.annotation) for name, field in model.model_fields.items()}
    return [name for name, kind in kinds.items() if "Literal[" in kind and f"'{word}'" in kind]


def _is_swept(name: str) -> bool:
    """Whether a spec has this key, so that it can be swept as it is written."""
    return name.partition(".")[0] in known_keys(Experiment)


def _section_of(path: Path) -> Path | None:
    """The one place of a key that is written at the top: `software.modules`; None if several."""
    if len(path) > 1:
        return None
    name = str(path[0])
    keys = keys_below(Experiment)
    found = [one[:-1] for one in keys if one[-1] == name and len(one) > 1 and one[0] not in _LISTS]
    in_sections = [one for one in found if keys[one[:1]].is_section]
    found = [one for one in in_sections if len(one) == 1] or in_sections or found
    return (*found[0], name) if len(found) == 1 else None


def _model_at(model: type[SpecModel], path: Path) -> type[SpecModel] | None:
    """The innermost model on the way to `path`; None if there is none below `model`."""
    found = None
    for step in path:
        fields = (found or model).model_fields
        if step in fields:  # not an index of a list, nor a name that the user chose
            found = next(models_in(fields[str(step)].annotation), found)
    return found
