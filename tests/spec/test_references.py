"""`{{ name }}`: looked up, never evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.spec.references import BadReferenceError, Scalar, expand, look_up
from clusterjobs.text import joined, show, variable

VALUES = {"name": "exp", "n": 4, "flag": True, "none": None, "batch": {"micro": 8}, "list": [1]}


def expanded(text: str) -> Scalar:
    return expand(text, lambda name: look_up(name, VALUES))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ name }}", "exp"),
        ("{{name}}", "exp"),
        ("{{ n }}", 4),
        ("{{ flag }}", True),
        ("{{ none }}", None),
        ("a/{{ name }}/{{ batch.micro }}", "a/exp/8"),
        ("{{ flag }}!", "true!"),
        ("x{{ none }}", "x"),
        ("{{ '{{' }} name }}", "{{ name }}"),
        ('{{ "it\'s" }}', "it's"),
        ("{ name }", "{ name }"),
        ("}} {", "}} {"),
        ("{{ name }}{{ name }}", "expexp"),
        ("{{ '{{ name }}' }}", "{{ name }}"),
    ],
)
def test_reference_takes_what_it_names(text: str, value: Scalar) -> None:
    found = expanded(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{{ nope }}",
            "{{ batch }}",
            "{{ list }}",
            "{{ list.1 }}",
            "{{ name.x }}",
            "{{ batch.nope }}",
        ),
        *("{{ name", "{{ }}", "{{}}", "{{ name|upper }}", "{{ name.upper() }}", "{{ 1 + 1 }}"),
        *("{{ ''.__class__ }}", "{{ name }", "a {{ name\n", "{{ {{ name }} }}", "{{{ name }}}"),
    ],
)
def test_anything_else_between_the_braces_is_refused(text: str) -> None:
    with pytest.raises(BadReferenceError):
        expanded(text)


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(BadReferenceError) as caught:
        expanded("{{ batch.mirco }}")
    assert caught.value.hint == "did you mean micro?"


@given(st.text())
def test_text_without_two_braces_stays_as_it_is(text: str) -> None:
    if "{{" not in text:
        assert expanded(text) == text


@given(st.text())
def test_any_text_can_be_written_as_quoted_parts(text: str) -> None:
    written = text.replace("{{", "{{ '{' }}{{ '{' }}")
    if "{{{" not in text and not text.endswith("{"):
        assert expanded(written) in (text, text or None)


def test_variables_are_shown_with_a_dollar() -> None:
    assert show(joined("a", variable("LR"), "b")) == "a$LRb"
