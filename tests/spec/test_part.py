"""Parts: declared like pydantic's models, judged by its core, read and never changed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic_core import ValidationError

from clusterjobs.spec.part import AfterValidator, BeforeValidator, Field, Part


def _twice(value: int) -> int:
    return 2 * value


class Inner(Part):
    size: Annotated[int, Field(ge=1, le=9)] = 1


class Outer(Part):
    name: str
    global_: Annotated[int, BeforeValidator(int), AfterValidator(_twice)] | None = Field(
        None, alias="global"
    )
    inner: Inner = Inner()
    names: tuple[str, ...] = ()
    config: dict[str, Any] = {}  # noqa: RUF012 - made anew for each
    others: dict[str, Any] = Field(default_factory=dict)
    kind: Literal["a", "b"] | None = None
    either: dict[str, int] | tuple[int, ...] = ()
    flag: str | bool = False


class More(Outer):
    more: int = 0


def errors_of(part: type[Part], values: object) -> list[tuple[tuple[Any, ...], str]]:
    with pytest.raises(ValidationError) as raised:
        part.model_validate(values)
    return [(error["loc"], error["type"]) for error in raised.value.errors()]


def test_what_is_left_out_is_the_default_and_is_not_among_the_keys_that_were_written() -> None:
    outer = Outer.model_validate({"name": "x"})
    assert (outer.name, outer.global_, outer.names, outer.config) == ("x", None, (), {})
    assert outer.inner == Inner(size=1)
    assert outer.model_fields_set == {"name"}


def test_a_key_is_written_by_its_alias_and_its_value_passes_the_validators_in_order() -> None:
    outer = Outer.model_validate({"name": "x", "global": "4"})
    assert outer.global_ == 8
    assert outer.model_fields_set == {"name", "global_"}
    assert errors_of(Outer, {"name": "x", "global_": 4}) == [(("global_",), "extra_forbidden")]


def test_a_part_inside_a_part_is_judged_too() -> None:
    values = {"name": "x", "inner": {"size": 10, "sise": 1}, "names": "ab"}
    assert errors_of(Outer, values) == [
        (("inner", "size"), "less_than_equal"),
        (("inner", "sise"), "extra_forbidden"),
        (("names",), "tuple_type"),
    ]
    assert errors_of(Outer, []) == [((), "model_type")]
    assert errors_of(Outer, {}) == [(("name",), "missing")]


def test_a_map_or_a_list_is_judged_as_what_it_looks_like() -> None:
    assert Outer.model_validate({"name": "x", "either": [1, 2]}).either == (1, 2)
    assert Outer.model_validate({"name": "x", "either": {"a": 1}}).either == {"a": 1}
    values = {"name": "x", "either": {"a": "b"}}
    assert errors_of(Outer, values) == [(("either", "map", "a"), "int_parsing")]


def test_a_value_keeps_its_type_where_several_are_allowed() -> None:
    assert Outer.model_validate({"name": "x", "flag": True}).flag is True
    assert Outer.model_validate({"name": "x", "flag": "true"}).flag == "true"


def test_no_two_parts_share_a_map() -> None:
    parts = Outer.model_validate({"name": "x"}), Outer.model_validate({"name": "x"})
    made = Outer(name="x"), Outer(name="x")
    for one, other in (parts, made):
        assert one.config is not other.config
        assert one.others is not other.others


def test_nothing_changes_once_it_is_read() -> None:
    outer = Outer.model_validate({"name": "x"})
    with pytest.raises(AttributeError, match="read and not changed: name"):
        outer.name = "y"  # type: ignore[misc]
    copy = outer.model_copy(update={"names": ("a",)})
    assert (outer.names, copy.names, copy.model_fields_set) == ((), ("a",), {"name", "names"})


def test_values_of_the_program_itself_are_not_judged_but_the_keys_are() -> None:
    assert Inner(size=10).size == 10
    with pytest.raises(TypeError, match="Outer takes name, global_"):
        Outer()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Inner takes size"):
        Inner(sise=1)  # type: ignore[call-arg]


def test_keys_are_inherited() -> None:
    more = More.model_validate({"name": "x", "more": 1})
    assert (more.name, more.more, list(More.model_fields)[-1]) == ("x", 1, "more")
    assert more != Outer.model_validate({"name": "x"})


def test_parts_are_compared_by_their_values() -> None:
    assert Inner(size=1) == Inner.model_validate({"size": 1})
    assert hash(Inner(size=1)) == hash(Inner())
    assert repr(Inner(size=2)) == "Inner(size=2)"


def test_a_type_that_no_part_can_have_is_a_bug_that_is_named() -> None:
    class Wrong(Part):
        value: complex = 0j

    class WrongNote(Part):
        value: Annotated[int, "note"] = 0

    with pytest.raises(TypeError, match="cannot have <class 'complex'>"):
        Wrong.model_validate({})
    with pytest.raises(TypeError, match="cannot be annotated with 'note'"):
        WrongNote.model_validate({})
