"""Where in bash a template's variables stand: values are quoted for one place alone."""

from __future__ import annotations

import pytest

from clusterjobs import resources
from clusterjobs.script.site.expressions import (
    contexts_of,
    is_line_of,
    misplaced,
    printed_variables,
)


@pytest.mark.parametrize(
    ("template", "context"),
    [
        ("cd {{ x }}", "command"),
        ('echo "{{ x }}"', "quotes"),
        ('echo "in {{ x }} now"', "quotes"),
        ("echo 'in {{ x }} now'", "quotes"),
        ("echo $'it\\'s {{ x }}'", "quotes"),
        ('echo "\\"" {{ x }}', "command"),
        ('echo \\" {{ x }}', "command"),
        ('echo "a" {{ x }} "b"', "command"),
        ('echo "$(cd {{ x }} && pwd)"', "command"),
        ('echo "$(cd "{{ x }}" && pwd)"', "quotes"),
        ('echo "$(pwd) {{ x }}"', "quotes"),
        ('echo "\n{{ x }}"', "quotes"),
        ("bash -c '\n  cd {{ x }}\n'", "quotes"),
        ("# {{ x }}", "comment"),
        ("ls # it's {{ x }}", "comment"),
        ("# it's\ncd {{ x }}", "command"),
        ('echo "# {{ x }}"', "quotes"),
        ("echo ${#a} $#{{ x }}", "command"),
        ("cat <<END\n{{ x }}\nEND", "here-document"),
        ("cat <<'END'\n{{ x }}\nEND", "here-document"),
        ("cat <<'{{ e }}'\n{{ x }}\n{{ e }}", "quoted here-document"),
        ("cat <<{{ e }}\n{{ x }}\n{{ e }}", "here-document"),
        ("cat <<-END\na'b\n\tEND\ncd {{ x }}", "command"),
        ("cat <<END\nEND\ncd {{ x }}", "command"),
        ("cat <<< 'a' {{ x }}", "command"),
        ("echo $((1 << n)) {{ x }}", "command"),
        ("{% raw %}'{% endraw %}{## ' ##} {{ x }}", "command"),
    ],
)
def test_the_context_of_a_variable_is_that_of_bash(template: str, context: str) -> None:
    found = printed_variables(template)
    assert [one.context for one in found if one.text == "x"] == [context]


def test_the_line_counts() -> None:
    assert contexts_of('{{ x }}\n"{{ x }}"', 1, "x") == {"command"}
    assert contexts_of('{{ x }}\n"{{ x }}"', 2, "x") == {"quotes"}


@pytest.mark.parametrize(
    ("kind", "context", "is_wrong"),
    [
        ("text", "command", False),
        ("text", "quotes", True),
        ("text", "here-document", True),
        ("number", "quotes", False),
        ("comment", "comment", False),
        ("comment", "quotes", True),
        ("here-document", "quoted here-document", False),
        ("here-document", "here-document", True),
        ("here-document", "command", True),
        ("expanding here-document", "here-document", False),
        ("expanding here-document", "quoted here-document", True),
    ],
)
def test_a_value_is_printed_only_where_its_quoting_protects_it(
    kind: str, context: str, is_wrong: bool
) -> None:
    assert bool(misplaced(kind, "x", {context})) is is_wrong  # type: ignore[arg-type]


def test_only_a_whole_line_of_a_packaged_template_is_known_as_safe() -> None:
    texts = resources.template_texts().values()
    assert is_line_of(
        texts,
        '      --master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT" '
        '{{ launch.options }}"$@"\' \\',
    )
    assert not is_line_of(texts, "{{ launch.options }}")
