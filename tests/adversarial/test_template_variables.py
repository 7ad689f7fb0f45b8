"""`{{ }}` in every place: looked up, never evaluated, and never a way into the script."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Mapping
from typing import Any

import pytest
from hostile import dump
from hypothesis import given, settings
from hypothesis import strategies as st
from page import base
from rendering import plan_of, script_of

from clusterjobs.errors import InputError
from clusterjobs.spec.load import load_spec
from clusterjobs.spec.references import BadReferenceError, Scalar, expand, look_up
from clusterjobs.text import Text

# What template languages would run, and what only looks like a reference.
NOT_A_NAME = (
    "{{",
    "{{ }}",
    "{{ name",
    "{{ name | upper }}",
    "{{ name() }}",
    "{{ name.__class__ }}",
    "{{ 7 * 7 }}",
    "{{ [].__class__.__base__ }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ 'a' + 'b' }}",
    "{{ 'it's' }}",
    "{{ name }",
    "{{{ name }}}",
    "{{ $(touch CANARY) }}",
    "{{ a..b }}",
    "{{ .a }}",
    "{{ args }}",
    "{{ nowhere }}",
    "{{ parameters.P_NONE }}",
    "{{ parameters }}",
    "{{ \\0job_dir\\0 }}",
)
PLACES: dict[str, tuple[str | int, ...]] = {
    "name": ("name",),
    "cluster": ("cluster",),
    "workdir": ("workdir",),
    "logs": ("logs",),
    "script": ("script",),
    "argument": ("args", "a"),
    "variable": ("env", "H_A"),
    "directive": ("sbatch", "comment"),
    "srun option": ("srun", "comment"),
    "step": ("before", 0, 1),
    "prefix": ("prefix", 1),
    "ds_config": ("ds_config", "a"),
    "parameter": ("parameters", "P_A"),
    "choice": ("parameters", "P_B", "choices", 0),
    "venv": ("software", "venv"),
    "module": ("software", "modules", 0),
    "nodes": ("nodes",),
    "queue": ("queue",),
}


def with_value(path: tuple[str | int, ...], value: str) -> dict[str, Any]:
    spec = base("/fsx/t")
    spec |= {
        "before": [["a", "b"]],
        "prefix": ["a", "b"],
        "software": {"modules": ["m"]},
        "parameters": {"P_B": {"default": "x", "choices": ["x"]}},
        "sbatch": {},
        "srun": {},
    }
    held: Any = spec
    for step in path[:-1]:
        held = held[step]
    held[path[-1]] = value
    return spec


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_reference_is_refused_where_it_stands(
    place: str, tally: collections.Counter[str]
) -> None:
    for text in NOT_A_NAME:
        spec = with_value(PLACES[place], text)
        with pytest.raises(InputError) as caught:
            plan_of(spec)
        lines = dump(spec, '"', allow_unicode=False).split("\n")
        at = [p.where for p in caught.value.problems if p.where and "{{" in lines[p.where.line - 1]]
        assert at, f"{text} in {place}: no problem names its line"
        assert lines[at[0].line - 1][at[0].column - 1] == '"'
        tally["tried"] += 1
        tally["refused"] += 1


@pytest.mark.parametrize("place", [place for place in PLACES if place != "nodes"])
def test_quoted_braces_are_the_braces_themselves(place: str) -> None:
    spec = with_value(PLACES[place], "x{{ '{{' }}7*7}}y")
    if place in ("cluster", "queue", "module", "choice"):  # such a value is none of theirs
        with pytest.raises(InputError):
            plan_of(spec)
        return
    script = script_of(plan_of(spec))
    assert "x{{7*7}}y" in script or place == "ds_config"
    assert "x49y" not in script


def test_code_is_not_touched_by_references() -> None:
    spec = base("/fsx/t") | {"setup": ["echo '{{ name }}' {{ nowhere"]}
    assert "echo '{{ name }}' {{ nowhere" in script_of(plan_of(spec))


def test_keys_are_literal() -> None:
    spec = base("/fsx/t") | {"args": {"{{name}}": "x"}}
    assert "'--{{name}}' x" in script_of(plan_of(spec))


def test_what_a_reference_brings_is_not_read_again() -> None:
    spec = base("/fsx/t") | {"args": {"a": "{{ '{{ name }}' }}", "b": "-{{ args.a }}-"}}
    script = script_of(plan_of(spec))
    assert "--a '{{ name }}'" in script
    assert "--b '-{{ name }}-'" in script


def test_values_that_refer_to_themselves_are_refused() -> None:
    for spec in (
        {"args": {"a": "{{ args.a }}"}},
        {"args": {"a": "{{ args.b }}", "b": "x{{ args.c }}", "c": "{{ args.a }}"}},
        {"name": "{{ name }}"},
        {"name": "a-{{ logs }}", "logs": "/{{ name }}"},
    ):
        with pytest.raises(InputError, match="refers to itself"):
            plan_of(base("/fsx/t") | spec)


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that references have been looked up by."""
    names: list[str] = []

    def counted(name: str, values: Mapping[str, Any]) -> Scalar:
        names.append(name)
        assert len(names) <= 60 * 60, "look-ups grow faster than references"
        return look_up(name, values)

    monkeypatch.setattr("clusterjobs.spec.expand_references.look_up", counted)
    return names


def doubled(seed: str) -> dict[str, str]:
    """Sixty values, each of which refers twice to the one before."""
    return {"a0": seed} | {f"a{i}": f"{{{{ args.a{i - 1} }}}}" * 2 for i in range(1, 60)}


@pytest.mark.parametrize("seed", ["x", "{{ '{{' }}"])
def test_values_that_references_double_are_refused_before_they_are_long(
    seed: str, looked_up: list[str]
) -> None:
    with pytest.raises(InputError, match="more than 200,000 characters") as caught:
        plan_of(base("/fsx/t") | {"args": doubled(seed), "env": {"H_A": "{{ args.a59 }}"}})
    assert all(problem.where for problem in caught.value.problems)
    assert looked_up


def test_each_value_is_expanded_once_however_often_it_is_referred_to(looked_up: list[str]) -> None:
    plan_of(base("/fsx/t") | {"args": doubled("")})
    assert sorted(looked_up) == sorted(f"args.a{i}" for i in range(59))


def test_references_that_lead_too_far_end_after_few_look_ups(looked_up: list[str]) -> None:
    with pytest.raises(InputError, match="references lead to"):
        plan_of(base("/fsx/t") | {"args": dict(reversed(doubled("").items()))})
    assert looked_up


def test_a_long_chain_of_references_is_refused_and_no_crash() -> None:
    args = {"a0": "x"} | {f"a{i}": f"{{{{ args.a{i - 1} }}}}" for i in range(1, 2000)}
    with pytest.raises(InputError, match="references lead to"):
        plan_of(base("/fsx/t") | {"args": dict(reversed(args.items()))})


@settings(settings.get_profile("adversarial"), max_examples=2000)
@given(
    st.lists(
        st.sampled_from(
            ("{{", "}}", " ", "name", "'", '"', ".", "\\0", "job_dir", "$", "{", "}", "a", "P_A")
        ),
        max_size=12,
    ).map("".join)
)
def test_no_text_forges_the_mark_of_a_shell_variable(text: str) -> None:
    """The mark holds a NUL, which neither YAML, --set nor a site value can bring in."""
    try:
        found = expand(text, lambda name: f"<{name}>")
    except BadReferenceError:
        return
    assert not isinstance(found, Text)


def test_nul_is_refused_wherever_it_is_written(tmp_path: pathlib.Path) -> None:
    for path in PLACES.values():
        with pytest.raises(InputError) as caught:
            plan_of(with_value(path, "a\0job_dir\0b"))
        problems = caught.value.problems
        assert [p.what for p in problems] == ["a NUL character"]
        assert problems[0].where is not None
        assert "\\0job_dir" in problems[0].where.source
    with pytest.raises(InputError, match="NUL"):
        plan_of(base("/fsx/t") | {"args": {"\0job_dir\0": "x"}})
    with pytest.raises(InputError, match="NUL"):
        load_spec(dump(base("/fsx")), "exp.yaml", {}, ['args.a="\\0job_dir\\0"'])
    with pytest.raises(InputError):
        load_spec(dump(base("/fsx")), "exp.yaml", {}, ["args.a=\0job_dir\0"])
