"""Maps of the spec as classes: declared as pydantic's models are, and judged by pydantic's core.

    class Batch(Part):
        micro: Count | None = None
        global_: Count | None = Field(None, alias="global")

Here is what a spec needs of pydantic's Python layer, which alone takes longer to import than all
the rest of a render: its names are pydantic's, and a validator is built when it is first used.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic_core import CoreSchema, SchemaValidator, core_schema
from typing_extensions import dataclass_transform

_REQUIRED: Any = object()


class BeforeValidator(NamedTuple):
    """In `Annotated`: makes of what YAML gave the value that the type then judges."""

    function: Callable[[Any], Any]


class AfterValidator(NamedTuple):
    """In `Annotated`: judges, or changes, what the type has let pass."""

    function: Callable[[Any], Any]


class FieldInfo:
    """A key of a Part: what it is when it is left out, and how it is written.

    `bounds` are the core's words for what a value may be: ge, le, min_length.
    """

    def __init__(
        self, default: Any, factory: Callable[[], Any] | None, alias: str | None, bounds: Any
    ) -> None:
        self.default = default
        self.factory = factory
        self.alias = alias
        self.bounds = bounds


def Field(  # noqa: N802 - pydantic's name
    default: Any = _REQUIRED,
    *,
    default_factory: Callable[[], Any] | None = None,
    alias: str | None = None,
    **bounds: int,
) -> Any:
    """A key that needs more than a default; in `Annotated`, the bounds of its value."""
    return FieldInfo(default, default_factory, alias, bounds)


_Self = TypeVar("_Self", bound="Part")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Part:
    """A map of the spec: no unknown keys, and nothing changes once it is read.

    Made by `model_validate`. The program's own values are not judged: `Zero(stage=0)`.
    """

    # The core fills these, and the keys' values are all of __dict__.
    __slots__ = (
        "__dict__",
        "__pydantic_extra__",
        "__pydantic_fields_set__",
        "__pydantic_private__",
    )

    model_fields: ClassVar[Mapping[str, FieldInfo]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: _field(vars(cls).get(name, _REQUIRED)) for name in cls.__annotations__}
        cls.model_fields = {**cls.model_fields, **own}

    def __init__(self, **values: Any) -> None:
        fields = type(self).model_fields
        data = {name: _default(field) for name, field in fields.items()} | values
        if _REQUIRED in data.values() or data.keys() != fields.keys():
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}")
        _fill(self, data, set(values))

    @classmethod
    def model_validate(cls: type[_Self], values: Any) -> _Self:
        """The map as this Part. Raises pydantic_core's ValidationError."""
        part: _Self = _validator(cls).validate_python(values)
        return part

    def model_copy(self: _Self, update: Mapping[str, Any]) -> _Self:
        """The same with other values, which are not judged."""
        copy = object.__new__(type(self))
        _fill(copy, {**vars(self), **update}, self.model_fields_set | update.keys())
        return copy

    @property
    def model_fields_set(self) -> set[str]:
        """The keys that were written, and not left to their defaults."""
        written: set[str] = self.__pydantic_fields_set__  # type: ignore[attr-defined]
        return written

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is read and not changed: {name}")

    def __deepcopy__(self: _Self, memo: object) -> _Self:
        return self  # nothing in it changes; the core copies a default that has no hash

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


def _field(given: Any) -> FieldInfo:
    """What stands behind a key's type; an empty map is made anew for each Part."""
    if isinstance(given, FieldInfo):
        return given
    return FieldInfo(given, given.copy if isinstance(given, dict) else None, None, {})


def _default(field: FieldInfo) -> Any:
    return field.factory() if field.factory else field.default


def _fill(part: Part, values: dict[str, Any], written: set[str]) -> None:
    object.__setattr__(part, "__dict__", values)
    object.__setattr__(part, "__pydantic_fields_set__", written)


# ------------------------------------------------------------------ annotations as a core schema


def annotations_of(part: type[Part]) -> Mapping[str, Any]:
    """The type of each key, as it is declared."""
    return typing.get_type_hints(part, include_extras=True)


_VALIDATORS: dict[type[Part], SchemaValidator] = {}


def _validator(part: type[Part]) -> SchemaValidator:
    if part not in _VALIDATORS:
        _VALIDATORS[part] = SchemaValidator(_schema(part))
    return _VALIDATORS[part]


_PLAIN: Mapping[Any, Callable[[], CoreSchema]] = {
    Any: core_schema.any_schema,
    bool: core_schema.bool_schema,
    float: core_schema.float_schema,
    int: core_schema.int_schema,
    str: core_schema.str_schema,
}


def _schema(kind: Any) -> CoreSchema:
    """The schema of what may stand in an annotation; a TypeError of ours for anything else."""
    if isinstance(kind, type) and issubclass(kind, Part):
        return _part_schema(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated_schema(*arguments)
    if origin is Literal:
        return core_schema.literal_schema(list(arguments))
    if origin in (typing.Union, types.UnionType):
        return _union_schema(arguments)
    if origin is dict:
        return core_schema.dict_schema(*map(_schema, arguments))
    if origin is tuple and arguments[1:] == (...,):
        return core_schema.tuple_variable_schema(_schema(arguments[0]))
    if kind not in _PLAIN:
        raise TypeError(f"a Part cannot have {kind!r}")
    return _PLAIN[kind]()


def _part_schema(part: type[Part]) -> CoreSchema:
    kinds = annotations_of(part)
    fields = {
        name: core_schema.model_field(
            _with_default(_schema(kinds[name]), field), validation_alias=field.alias
        )
        for name, field in part.model_fields.items()
    }
    return core_schema.model_schema(
        part,
        core_schema.model_fields_schema(fields),
        config={"title": part.__name__, "extra_fields_behavior": "forbid"},
    )


def _with_default(schema: CoreSchema, field: FieldInfo) -> CoreSchema:
    if field.factory:
        return core_schema.with_default_schema(schema, default_factory=field.factory)
    if field.default is _REQUIRED:
        return schema
    return core_schema.with_default_schema(schema, default=field.default)


def _annotated_schema(kind: Any, *notes: Any) -> CoreSchema:
    """Each note is wrapped around those that stand before it."""
    schema = _schema(kind)
    for note in notes:
        if isinstance(note, BeforeValidator):
            schema = core_schema.no_info_before_validator_function(note.function, schema)
        elif isinstance(note, AfterValidator):
            schema = core_schema.no_info_after_validator_function(note.function, schema)
        elif isinstance(note, FieldInfo):
            schema = _bounded(schema, note.bounds)
        else:
            raise TypeError(f"a Part's type cannot be annotated with {note!r}")
    return schema


def _bounded(schema: Any, bounds: Mapping[str, int]) -> CoreSchema:
    """The bounds belong to the type itself, behind what makes its value."""
    is_type = schema["type"] != "function-before"
    inner = bounds if is_type else {"schema": _bounded(schema["schema"], bounds)}
    return typing.cast(CoreSchema, {**schema, **inner})


def _union_schema(kinds: tuple[Any, ...]) -> CoreSchema:
    """The first type that takes the value as it is; a map or a list is known by its looks."""
    without_none = [kind for kind in kinds if kind is not type(None)]
    if len(without_none) < len(kinds):
        return core_schema.nullable_schema(_union_schema(tuple(without_none)))
    if len(kinds) == 1:
        return _schema(kinds[0])
    by_looks = {_LOOKS.get(get_origin(kind), ""): _schema(kind) for kind in kinds}
    if by_looks.keys() == set(_LOOKS.values()):
        return core_schema.tagged_union_schema(by_looks, _looks_of)
    return core_schema.union_schema([_schema(kind) for kind in kinds])


_LOOKS = {dict: "map", tuple: "list"}


def _looks_of(value: Any) -> str:
    return "list" if isinstance(value, (list, tuple)) else "map"
