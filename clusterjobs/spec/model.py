"""The base of all models of a spec, and what is known of each of its keys."""

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from clusterjobs.yaml.document import Path

# What keys are checked against each other for: if one is wrong, others of its topics may only
# seem wrong.
Topic = Literal["size", "time", "program", "storage", "variables", "launch", "nodes"]


class Key(NamedTuple):
    """What is known of a key of the spec beside its type: `Annotated[Count, Key(...)]`.

    `doc`: the meaning, in Markdown. `example`: a value in YAML. `unit`: of a number, unless the
    key's name says it. `default_is`: the default in words, if it is not the model's own value.
    `see`: a page of docs/, with an anchor.

    `schedules`: the key decides only when, where and under which name a job runs, and not what the
    ranks compute. Every key at the top of a spec must answer: without it, the key is part of the
    content hash, so that a changed value runs finished points of a sweep again.

    `adds_to`: layers of a spec can add to the list; "lines": it may also be a block of text.
    `belongs_with`: topics, see `Topic`.
    `references`: which references its value may contain. "spec": to values of the spec; "plan":
    to derived values, too; "ranks": also to the node's rank; "none": the value is code.
    `writes_file`: the value becomes a config file, which has no shell variables.
    `allows_null`: null is a value in it, too.
    `is_section`: a key of it that is written at the top of a spec probably belongs into it.
    `excludes`: keys beside it that cannot be given with it.
    `fixed_in_sweep`: why the key is the same for all points of a sweep, and what to write instead.
    `renamed_from`: its former path.
    `also_called`: names that others have for it: a message about an unknown key then names this
    one. `memory=mem`: the name of a key in it.

    `directive`: the option of sbatch that gets the value as it is, without any other code.
    `options`: options of sbatch that have the same value; a spec cannot set these itself.
    `instead_of`: such options that the key replaces with another value -> what to write.
    `beside`: options that a spec may also set -> what to write; "" for the same value.
    """

    doc: str
    example: str
    schedules: bool | None = None
    unit: str = ""
    default_is: str = ""
    see: str = ""
    adds_to: Literal["", "items", "lines"] = ""
    belongs_with: tuple[Topic, ...] = ()
    references: Literal["none", "spec", "plan", "ranks"] = "spec"
    writes_file: bool = False
    allows_null: bool = False
    is_section: bool = False
    excludes: tuple[str, ...] = ()
    fixed_in_sweep: tuple[str, str] | None = None
    renamed_from: str = ""
    also_called: tuple[str, ...] = ()
    directive: str = ""
    options: tuple[str, ...] = ()
    instead_of: Mapping[str, str] = MappingProxyType({})
    beside: Mapping[str, str] = MappingProxyType({})


class Only:
    """The forms of a value in place of those of its type, as JSON Schema: what its validator takes.

    A reference `{{ name }}` is always allowed.
    """

    def __init__(self, *forms: dict[str, Any]) -> None:
        self.forms = forms


class Also:
    """Further forms of a value than its type, as JSON Schema: `Annotated[T, Also(TEXT)]`.

    A validator before the type reads them; this is for the schema alone.
    """

    def __init__(self, *forms: dict[str, Any]) -> None:
        self.forms = forms


class ExpandedByNode:
    """Marks the type of a text in which the node expands `${NAME}` and a leading `~`."""


def text_like(pattern: str) -> dict[str, Any]:
    """The form of a text that has the pattern, as a whole: what Python and JavaScript both read."""
    return {**TEXT, "pattern": f"^(?:{pattern})$"}


class KeyOfSpec:
    """Marks the type of a mapping's keys that are keys of the spec: `args.lr`."""


TEXT: dict[str, Any] = {"type": ["string", "number"]}  # scalar_text() reads numbers as written
FLAG: dict[str, Any] = {"type": "boolean"}
NULL: dict[str, Any] = {"type": "null"}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}


class SpecModel(BaseModel):
    """A mapping of the spec: unknown keys are errors, and the values cannot be changed.

    `defer_build`: a validator is built when it is first used, because a run uses few of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class TopLevelKeys(SpecModel):
    """Keys at the top of a spec. A class without `schedules` of each key cannot be imported.

    `writes_files`: all values of a spec with these keys become config files: `Key.writes_file`.
    """

    writes_files: ClassVar[bool] = False

    @classmethod
    def __pydantic_init_subclass__(cls, **_kwargs: Any) -> None:
        for name, key in known_keys(cls).items():
            if key is None or key.schedules is None:
                raise TypeError(
                    f"{cls.__module__}.{cls.__name__}.{name}: does this key change what the ranks "
                    "compute? Write Key(..., schedules=False) if it does, or schedules=True if it "
                    "only decides when, where and under which name a job runs"
                )


@functools.cache
def known_keys(model: type[SpecModel]) -> Mapping[str, Key | None]:
    """Name in the spec -> what is known of the key; None for a key without a `Key`."""
    return {
        field.alias or name: next((one for one in field.metadata if isinstance(one, Key)), None)
        for name, field in model.model_fields.items()
    }


@functools.lru_cache(maxsize=4096)
def is_expanded_by_node(model: type[SpecModel], path: Path) -> bool:
    """True if the node expands `${NAME}` in the text at `path` of a spec."""
    places: list[Any] = [model]
    for step in path:
        places = [inner for place in places for inner in _types_inside(place, step)]
    return any(isinstance(part, ExpandedByNode) for place in places for part in _parts(place))


def _types_inside(annotation: Any, step: str | int) -> Iterator[Any]:
    """The types, and their metadata, of what is at `step` in a mapping or a list of this type."""
    for part in _parts(annotation):
        if isinstance(part, type) and issubclass(part, SpecModel):
            for name, field in part.model_fields.items():
                if step == (field.alias or name):
                    yield from (field.annotation, *field.metadata)
        elif get_origin(part) in (dict, tuple, list):
            yield get_args(part)[1 if get_origin(part) is dict else 0]


def _parts(annotation: Any) -> Iterator[Any]:
    """The members of unions and the metadata of annotated types in a type."""
    yield annotation
    if get_origin(annotation) in (Annotated, Union, UnionType):
        for inner in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
            yield from _parts(inner)


def models_in(annotation: Any) -> Iterator[type[SpecModel]]:
    """The models in a type: of a mapping, of the items of a list, or of mappings with names."""
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from models_in(inner)


@functools.cache
def keys_below(model: type[SpecModel]) -> Mapping[Path, Key]:
    """Path -> key of all keys in a model, without indexes and names that the user chooses."""
    found: dict[Path, Key] = {}
    for (name, key), field in zip(
        known_keys(model).items(), model.model_fields.values(), strict=True
    ):
        if key:
            found[name,] = key
        for inner in models_in(field.annotation):
            found |= {(name, *path): one for path, one in keys_below(inner).items()}
    return found


# ------------------------------------------------------------------ option models
# The keys that frameworks and launchers add to a spec.


class OptionModels(NamedTuple):
    """Name -> model. A framework's keys are keys of the spec; a launcher's are below its name.

    Both load a framework or a launcher only when it is looked up.
    """

    frameworks: Mapping[str, type[SpecModel] | None]
    launchers: Mapping[str, type[SpecModel] | None]

    def all_keys(self) -> Iterator[tuple[str, Any]]:
        """The further keys of a spec, with their types. Loads all frameworks and launchers."""
        for model in filter(None, self.frameworks.values()):
            for name, field in model.model_fields.items():
                yield field.alias or name, field.annotation
        for name, options in self.launchers.items():
            if options:
                yield name, options

    def of_framework(self, name: object) -> type[SpecModel] | None:
        """The model of a framework's keys; None if it has none, or `name` is no framework."""
        return self.frameworks.get(name) if isinstance(name, str) else None

    def key(self, name: str) -> Key | None:
        """What is known of a framework's key. Loads frameworks until one has it."""
        models = filter(None, self.frameworks.values())
        return next((key for one in models if (key := keys_below(one).get((name,)))), None)
