"""Unusual specs that are right are not refused, and what they say is not altered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from asked import names, read
from spec_rows import Row, plan_of_row, problems_of_row

from clusterjobs.sections.plan import Plan
from clusterjobs.spec.references import as_text
from clusterjobs.text import show

RIGHT = [row for name in names() for row in read(name).right]
FILES = ("ds_config", "accelerate_config", "neox")


def same(value: Any) -> str:
    """A value as it is compared: 1e-4 is 0.0001, and --a-b is a_b."""
    text = as_text(value) if isinstance(value, (str, int, float)) else json.dumps(value)
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.startswith(("[", "{")) else text.lstrip("+-").replace("-", "_")


def words_of(plan: Plan) -> list[str]:
    """The words of a rank's command; `--flag=value` and `key=value` are two."""
    words = [show(word) for word in plan.launch.words]
    return [same(part) for word in words for part in word.split("=", 1 if word[0] in "-+" else 0)]


def wanted_of(row: Row) -> Iterator[list[str]]:
    """What each argument of the spec must be in the command."""
    args = row.spec.get("args") or {}
    if not isinstance(args, Mapping):
        yield from ([same(part) for part in as_text(word).split("=", 1)] for word in args)
        return
    for name, value in args.items():
        if value is True:
            yield [same(name)]
        elif value is not False and value is not None:
            values = value if isinstance(value, list) else [value]
            yield [same(name), *map(same, values)]


def leaves(keys: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """The values of a config file, each with its path."""
    for key, value in keys.items():
        name = f"{path}.{key.replace('-', '_')}"
        if isinstance(value, Mapping) and value:
            yield from leaves(value, name)
        else:
            yield name, same(value)


@pytest.mark.parametrize("row", RIGHT, ids=lambda row: row.id)
def test_a_right_spec_is_not_refused_and_not_altered(row: Row) -> None:
    plan = plan_of_row(row)  # an error would raise
    words = words_of(plan)
    starts = range(len(words))
    lost = [
        wanted
        for wanted in wanted_of(row)
        if not any(wanted == words[start : start + len(wanted)] for start in starts)
    ]
    assert lost == [], words
    variables = {one.name: show(one.value) for one in plan.environment.variables}
    given = {name: as_text(value) for name, value in (row.spec.get("env") or {}).items()}
    assert {name: variables.get(name) for name in given} == given
    written = {
        leaf for file in plan.files.configs for leaf in leaves(yaml.safe_load(show(file.text)))
    }
    asked = {leaf for key in FILES for leaf in leaves(row.spec.get(key) or {})}
    assert asked - written == set(), written


def test_there_are_many_and_none_of_their_arguments_is_warned_of() -> None:
    assert len(RIGHT) >= 130
    warned = [
        (row.id, one.path)
        for row in RIGHT
        for one in problems_of_row(row)
        if not one.info and one.path.startswith(("args", "env", *FILES))
    ]
    assert warned == []
