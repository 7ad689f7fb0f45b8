"""The JSON Schema (2020-12) of a spec, from the types of its keys and what is known of them.

It accepts every spec that `render` accepts. It refuses unknown keys, values of a wrong type or
form, keys that exclude each other, and what the named framework or launcher does not have. What
depends on the cluster, on other files, on numbers of other keys, or on keys that may stand in
another layer (`extends`, the site's defaults) is left to `render`.
"""

from __future__ import annotations

import inspect
import itertools
import re
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union

from annotated_types import Ge, Le
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from clusterjobs.frameworks import FRAMEWORKS, option_models
from clusterjobs.frameworks.base import Framework
from clusterjobs.launchers import LAUNCHERS, Launcher, LauncherOptions
from clusterjobs.reference.keys import default_of
from clusterjobs.runs.answers import ANSWERS
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import owners_of_options
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.keys.model import Parallel
from clusterjobs.spec.layers import WORDS
from clusterjobs.spec.model import (
    FLAG,
    NULL,
    TEXT,
    Also,
    Key,
    KeyOfSpec,
    Only,
    SpecModel,
    known_keys,
)
from clusterjobs.text import Text
from clusterjobs.yaml import document

Schema = dict[str, Any]
_DOCS = ("description", "markdownDescription", "examples")
DIALECT = "https://json-schema.org/draft/2020-12/schema"
# `{{ name }}`: its value has the right type. A number or a choice is known before the job runs.
_REFERENCE = {"type": "string", "pattern": r"\{\{"}
_KNOWN = {"type": "string", "pattern": r"\{\{(?!\s*(?:env|job|parameters)\.)"}


def spec_schema() -> Schema:
    """The schema of a spec, with the keys of all installed frameworks and launchers."""
    return _Schemas().of_spec()


def file_schema(title: str, model: type[SpecModel], other_keys: bool = False) -> Schema:
    """The schema of another file. `other_keys`: it may also have keys that the model lacks."""
    return _Schemas().of_file(title, model, other_keys)


def answer_schema(command: str) -> Schema:
    """The schema of what a command prints with --json."""
    made = TypeAdapter(ANSWERS[command]).json_schema()
    return {"$schema": DIALECT, **made, "title": f"clusterjobs {command} --json"}


def value_in_words(field: FieldInfo) -> str:
    """What may be written for a key: `integer, 1 or more`, `one of fp32, fp16, bf16`."""
    return _in_words(_Schemas().of_field(field))


class _Schemas:
    """Builds schemas; each model is one definition."""

    def __init__(self) -> None:
        self._names: dict[type[SpecModel], str] = {}
        self._definitions: dict[str, Schema] = {}

    def of_spec(self) -> Schema:
        properties = self._properties(Experiment)
        properties["extends"] = _with_docs({"anyOf": [TEXT, _list_of(TEXT)]}, EXTENDS, "none")
        models = option_models()
        owned = {
            name: self._properties(model) if model else {}
            for name, model in models.frameworks.items()
        }
        added = dict.fromkeys(itertools.chain.from_iterable(owned.values()))
        for name in added:
            found = [own[name] for own in owned.values() if name in own]
            docs = {word: text for word, text in found[0].items() if word in _DOCS}
            plain = [{word: one[word] for word in one if word not in _DOCS} for one in found]
            properties[name] = {**docs, **_any_of(plain)}
        for name, options in models.launchers.items():
            if options:
                assert issubclass(options, LauncherOptions)
                properties[name] = _with_docs(self._of_model(options), options.about, "")
        for key, known in (("framework", models.frameworks), ("launcher", models.launchers)):
            properties[key] = {**properties[key], "anyOf": [{"enum": [*known]}, _REFERENCE]}
            properties[key].pop("type", None)
        foreign = {
            name: {key: False for key in added if key not in own} | _of_framework(FRAMEWORKS[name])
            for name, own in owned.items()
        }
        with_options = [name for name, options in models.launchers.items() if options]
        others = {name: _of_launcher(LAUNCHERS[name], with_options) for name in models.launchers}
        properties["frameworks"]["propertyNames"] = {"enum": [*owned]}
        for name in ("sbatch", "srun"):
            properties[name]["properties"] = _owned_options(name)
        self._definitions[_PATH] = {"pattern": _paths_in_sweeps(properties)}
        return {
            "$schema": DIALECT,
            "title": "clusterjobs spec",
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            **_exclusions(Experiment),
            "allOf": [
                *(_if("framework", name, keys) for name, keys in foreign.items()),
                *(_if("launcher", name, keys) for name, keys in others.items() if keys),
            ],
            "$defs": self._definitions,
        }

    def of_file(self, title: str, model: type[SpecModel], other_keys: bool) -> Schema:
        own = self._of_model(model)["$ref"].rpartition("/")[2]
        schema = self._definitions.pop(own)
        if other_keys:
            del schema["additionalProperties"]
        return {"$schema": DIALECT, "title": title, **schema, "$defs": self._definitions}

    def of_field(self, field: FieldInfo) -> Schema:
        return self._of(field.annotation, field.metadata)

    def _properties(self, model: type[SpecModel]) -> dict[str, Schema]:
        found: dict[str, Schema] = {}
        for (name, key), field in zip(
            known_keys(model).items(), model.model_fields.values(), strict=True
        ):
            schema = self.of_field(field)
            if key is None:  # of another file than a spec
                found[name] = schema
                continue
            if key.adds_to:
                lists = dict.fromkeys(WORDS, schema)
                added = {"type": "object", "properties": lists, "additionalProperties": False}
                schema = _any_of([schema, added])
            if key.allows_null:
                schema = _any_of([schema, NULL])
            found[name] = _with_docs(schema, key, default_of(key, field))
        return found

    def _of_model(self, model: type[SpecModel]) -> Schema:
        if model not in self._names:
            taken = model.__name__ in self._definitions
            name = self._names[model] = (
                f"{model.__module__.rpartition('.')[2]}.{model.__name__}"
                if taken
                else model.__name__
            )
            self._definitions[name] = {}  # a model may contain itself
            fields = zip(known_keys(model), model.model_fields.values(), strict=True)
            self._definitions[name] |= {
                "description": inspect.getdoc(model) or "",
                "type": "object",
                "properties": self._properties(model),
                "required": [key for key, field in fields if field.is_required()],
                "additionalProperties": False,
                **_exclusions(model),
            }
        return {"$ref": f"#/$defs/{self._names[model]}"}

    def _of(self, kind: Any, metadata: Iterable[Any] = ()) -> Schema:
        """The schema of a type, with what `Annotated` says of it."""
        metadata = list(metadata)
        if typing.get_origin(kind) is typing.Annotated:
            inner, *more = typing.get_args(kind)
            return self._of(inner, [*more, *metadata])
        narrow = [one.forms for one in metadata if isinstance(one, Only)]
        schema = _any_of([*narrow[-1], _REFERENCE]) if narrow else self._plain(kind, metadata)
        further = [form for one in metadata if isinstance(one, Also) for form in one.forms]
        return _any_of([schema, *further]) if further else schema

    def _plain(self, kind: Any, metadata: list[Any]) -> Schema:
        arguments = typing.get_args(kind)
        origin = typing.get_origin(kind)
        if origin in (Union, types.UnionType):
            return _any_of([self._of(one) for one in arguments if not _is_made(one)])
        if origin is Literal:
            return _any_of([{"enum": list(arguments)}, _KNOWN])
        if origin is dict:
            marks = typing.get_args(arguments[0])[1:]
            names = [one.forms[0] for one in marks if isinstance(one, Only)]
            names += [{"$ref": f"#/$defs/{_PATH}"} for one in marks if isinstance(one, KeyOfSpec)]
            named = {"propertyNames": names[0]} if names else {}
            return {"type": "object", **named, "additionalProperties": self._of(arguments[1])}
        if origin is tuple:
            return _list_of(self._of(arguments[0]))
        if kind is Any:
            return {}
        if kind is bool:
            return _any_of([FLAG, _KNOWN])
        if kind is int:
            return _any_of([{"type": "integer", **_bounds(metadata)}, _KNOWN])
        if kind is float:
            return _any_of([{"type": "number", **_bounds(metadata)}, _KNOWN])
        if kind in (str, Text):
            return dict(TEXT)
        if isinstance(kind, type) and issubclass(kind, SpecModel):
            return self._of_model(kind)
        raise TypeError(f"no JSON Schema is known for {kind}")


def _is_made(kind: Any) -> bool:
    """Whether no file can have such a value: None, or a record that a validator makes."""
    return kind is type(None) or (isinstance(kind, type) and issubclass(kind, tuple))


def _any_of(schemas: list[Schema]) -> Schema:
    """One of the schemas; those of nested choices, and equal ones, once."""
    flat: list[Schema] = []
    for schema in schemas:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        flat += [dict(one) for one in inner if one not in flat]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _bounds(metadata: Iterable[Any]) -> Schema:
    found: Schema = {}
    for one in _flat(metadata):
        if isinstance(one, Ge):
            found["minimum"] = one.ge
        elif isinstance(one, Le):
            found["maximum"] = one.le
    return found


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    for one in metadata:
        yield from one.metadata if isinstance(one, FieldInfo) else [one]


def _with_docs(schema: Schema, key: Key, default: str) -> Schema:
    """The schema with what is known of the key. `markdownDescription` is read by editors."""
    unit = f" ({key.unit})" if key.unit else ""
    text = f"{key.doc}{unit}" + (f"\n\nDefault: {default}" if default else "")
    docs = {"description": plain_text(text), "markdownDescription": text}
    example = document.load(f"example: {key.example}\n", "example").value["example"]
    if "$ref" in schema:  # some editors ignore what stands beside a reference
        schema = {"allOf": [schema]}
    return {**docs, "examples": [example], **schema}


def plain_text(markdown: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("`", "")


def _exclusions(model: type[SpecModel]) -> Schema:
    """A key is wrong beside one that excludes it."""
    excluded = {name: key.excludes for name, key in known_keys(model).items() if key}
    wrong = {name: dict.fromkeys(keys, False) for name, keys in excluded.items() if keys}
    found = {name: {"properties": keys} for name, keys in wrong.items()}
    return {"dependentSchemas": found} if found else {}


def _if(key: str, value: str, properties: Schema) -> Schema:
    """What is right or wrong if the key has this value."""
    is_it = {"properties": {key: {"const": value}}, "required": [key]}
    return {"if": is_it, "then": {"properties": properties}}


def _of_framework(framework: Framework) -> Schema:
    """The launchers that can start it, and the ways to divide a model that it has."""
    launchers = [name for name, one in LAUNCHERS.items() if framework.name in one.frameworks]
    names = dict.fromkeys([*framework.launchers, *launchers])
    others = [name for name in known_keys(Parallel) if name not in framework.parallel_keys]
    none = _any_of([{"enum": [1, False]}, _KNOWN])
    only_commands = {} if framework.name == "command" else {"command": False}
    return {
        **only_commands,
        "launcher": _any_of([{"enum": [*names]}, _REFERENCE]),
        "parallel": {"properties": dict.fromkeys(others, none)},
    }


def _of_launcher(launcher: Launcher, with_options: Iterable[str]) -> Schema:
    """The options of other launchers are wrong, and `ssh` if it uses none."""
    found: Schema = {name: False for name in with_options if name != launcher.name}
    if not launcher.over_ssh:
        found["ssh"] = False
    if launcher.refused_runtimes:
        runtime = {"properties": {"runtime": {"not": {"enum": [*launcher.refused_runtimes]}}}}
        found["software"] = {"properties": {"container": runtime}}
    return found


def _owned_options(program: str) -> Schema:
    """Options with the value of a key: `sbatch` can only drop them with `false`."""
    options = owners_of_options().items()
    form = {"const": False} if program == "sbatch" else False
    others = [name for name, owner in options if owner.also_option or owner.instead]
    skipped = others if program == "sbatch" else []
    return {name: form for name, owner in options if name not in skipped}


_PATH = "KeyOfSpec"


def _paths_in_sweeps(properties: Schema) -> str:
    """The pattern of the keys that a sweep can set: `args.lr`, `nodes`."""
    fixed = [name for name, key in known_keys(Experiment).items() if key and key.fixed_in_sweep]
    names = [name for name in properties if name not in (*fixed, "extends")]
    return f"^(?:{'|'.join(map(re.escape, names))})(?:$|[.])"


def _in_words(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_in_words, _without_references(schema["anyOf"]))))
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_in_words(schema['items']) or 'any values'}"
    if kind == "object" or "$ref" in schema:
        return "mapping"
    if kind == "integer":
        least, most = schema.get("minimum"), schema.get("maximum")
        return "integer" + (f" from {least:,} to {most:,}" if most is not None else "")
    others = {"boolean": "true or false", "number": "number", "null": "nothing"}
    return others.get(str(kind), "text" if kind else "any value")


def _without_references(schemas: list[Schema]) -> list[Schema]:
    return [one for one in schemas if one not in (_REFERENCE, _KNOWN)]
