"""Layers of a spec: which value wins, where it was written, and how lists are added to."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Collection, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterjobs.errors import InputError, Location
from clusterjobs.frameworks import option_models
from clusterjobs.spec.defaults import BaseFile, Queues
from clusterjobs.spec.effective import effective_yaml, single_values
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.layers import lists_to_add_to
from clusterjobs.spec.load import Below, LoadedSpec, load_spec
from clusterjobs.yaml.document import dotted

MINIMAL = {"name": "a", "cluster": "c1", "framework": "command", "command": "./run"}
FILES = ("site/defaults.yaml", "user/defaults.yaml", "etc/defaults.yaml")  # highest first


def as_file(mapping: dict[str, Any]) -> str:
    """A mapping with a line for each key, so that positions differ."""
    return "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in mapping.items()
    )


def texts_of(defaults: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    """(file, text), the highest precedence first, in whatever order they are given."""
    return [(file, as_file(defaults[file])) for file in FILES if file in defaults]


def loaded(
    spec: dict[str, Any],
    *settings: str,
    defaults: dict[str, dict[str, Any]] | None = None,
    bases: dict[str, dict[str, Any]] | None = None,
    queue: str | None = "q1",
) -> LoadedSpec:
    """`defaults` by the name of their file, and `bases` by theirs."""

    def read(name: str, _file: str, where: Location) -> BaseFile:
        if name not in (bases or {}):
            raise InputError([])
        return BaseFile(name, as_file((bases or {})[name]), name)

    given_defaults = defaults or {}
    below = Below(
        defaults=[
            (file, as_file(given_defaults[file])) for file in FILES if file in given_defaults
        ],
        clusters=lambda: ["c1", "c2"],
        queues=lambda _cluster, written, _gpus: Queues(written or queue, ("q1", "q2")),
        read_base=read,
        identity="exp.yaml",
    )
    text = as_file({**MINIMAL, **spec})
    return load_spec(text, "exp.yaml", option_models(), settings, below)


# ------------------------------------------------------------------ which layer wins

# What sets time_limit in each layer, from the lowest precedence to the highest.
SECTIONS = ("all", "cluster", "queue")
LAYERS = [
    *(f"{file}: {section}" for file in reversed(FILES) for section in SECTIONS),
    *("base of a base", "first base", "last base", "spec", "--set"),
]


def with_layers(names: Collection[str]) -> LoadedSpec:
    """A spec with a time limit in each of the layers: minutes, by their place in LAYERS."""
    limit: dict[str, dict[str, Any]] = {
        name: {"time_limit": str(LAYERS.index(name) + 1)} if name in names else {}
        for name in LAYERS
    }
    defaults: dict[str, dict[str, Any]] = {}
    for file in FILES:
        of_all, of_cluster, of_queue = (limit[f"{file}: {section}"] for section in SECTIONS)
        clusters = {
            "c1": {**of_cluster, "queues": {"q1": of_queue, "q2": {"time_limit": "98"}}},
            "c2": {"time_limit": "99", "queues": {"q1": {"time_limit": "99"}}},
        }
        defaults[file] = {"all": of_all, "clusters": clusters}
    bases = {
        "first.yaml": {"extends": "below.yaml", **limit["first base"]},
        "last.yaml": {"env": {}, **limit["last base"]},
        "below.yaml": {"env": {}, **limit["base of a base"]},
    }
    settings = [f"{key}={value}" for key, value in limit["--set"].items()]
    spec = {"extends": ["first.yaml", "last.yaml"], **limit["spec"]}
    return loaded(spec, *settings, defaults=defaults, bases=bases)


@pytest.mark.parametrize(("lower", "higher"), list(itertools.pairwise(LAYERS)))
def test_each_layer_wins_over_the_one_below_it(lower: str, higher: str) -> None:
    assert with_layers([lower]).spec.time_limit == str(LAYERS.index(lower) + 1)
    loaded = with_layers([lower, higher])
    assert loaded.spec.time_limit == str(LAYERS.index(higher) + 1)


def test_without_any_layer_the_built_in_value_is_used() -> None:
    loaded = with_layers([])
    assert (loaded.spec.time_limit, loaded.spec.nodes) == (None, 1)


@given(st.sets(st.sampled_from(LAYERS)))
def test_the_highest_of_any_layers_wins(names: set[str]) -> None:
    wanted = str(max(map(LAYERS.index, names)) + 1) if names else None
    assert with_layers(names).spec.time_limit == wanted


def test_mappings_merge_by_key_and_lists_and_values_replace() -> None:
    base = {"env": {"A": "base", "B": "base"}, "before": ["one", "two"], "args": {"x": "1"}}
    spec = loaded(
        {"extends": "b", "env": {"A": "spec"}, "before": ["three"], "args": ["y"]},
        bases={"b": base},
    )
    assert spec.spec.env == {"A": "spec", "B": "base"}
    assert [step.command for step in spec.spec.before] == [("three",)]
    assert spec.spec.args == ("y",)


def test_null_removes_a_key_of_a_layer_below() -> None:
    base = {"software": {"conda": "torch", "modules": ["cuda"]}, "env": {"A": "1"}}
    spec = loaded(
        {"extends": "b", "software": {"conda": None}, "env": None}, bases={"b": base}
    ).spec
    assert spec.software.conda is None
    assert spec.software.modules == ("cuda",)
    assert spec.env == {}


def test_null_of_a_key_that_no_layer_below_has_is_still_a_mistake() -> None:
    with pytest.raises(InputError, match="the value is missing"):
        loaded({"extends": "b", "software": {"conda": None}}, bases={"b": {"env": {"A": "1"}}})


def test_a_base_that_two_bases_share_is_merged_once_below_both() -> None:
    bases = {
        "shared": {"env": {"A": "shared", "B": "shared"}},
        "one": {"extends": "shared", "env": {"A": "one"}},
        "two": {"extends": "shared"},
    }
    spec = loaded({"extends": ["one", "two"]}, bases=bases)
    assert spec.spec.env == {"A": "one", "B": "shared"}
    assert [file for file, _ in spec.files("base")] == ["shared", "one", "two"]


def test_many_bases_that_share_bases_are_each_read_once() -> None:
    """Thirty levels of two files that extend the same two would be a thousand million paths."""
    chain = {
        f"{side}{level}": {"extends": [f"a{level + 1}", f"b{level + 1}"]}
        for level in range(30)
        for side in "ab"
    }
    bases: dict[str, dict[str, Any]] = {**chain, "a30": {"env": {"A": "1"}}, "b30": {"nodes": 2}}
    spec = loaded({"extends": ["a0", "b0"]}, bases=bases)
    assert (spec.spec.env, spec.spec.nodes) == ({"A": "1"}, 2)


def test_more_than_a_hundred_bases_are_refused() -> None:
    bases = {f"b{number}": {"extends": f"b{number + 1}"} for number in range(200)}
    with pytest.raises(InputError, match="more than 100 bases"):
        loaded({"extends": "b0"}, bases={**bases, "b200": {"nodes": 1}})


# ------------------------------------------------------------------ which sections apply


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"cluster": "c1"}, {"cluster": "c1", "queue": "q1 of c1"}),
        ({"cluster": "c1", "queue": "q2"}, {"cluster": "c1"}),
        ({"cluster": "c2"}, {"cluster": "c2"}),
        ({"cluster": "/configs/c1.yaml"}, {"cluster": "c1", "queue": "q1 of c1"}),
        ({"cluster": "{{ env.NAME }}", "env": {"NAME": "c2"}}, {"cluster": "c2", "NAME": "c2"}),
    ],
)
def test_defaults_of_the_cluster_and_of_the_queue_apply(
    spec: dict[str, Any], found: dict[str, str]
) -> None:
    clusters = {
        "c1": {"env": {"cluster": "c1"}, "queues": {"q1": {"env": {"queue": "q1 of c1"}}}},
        "c2": {"env": {"cluster": "c2"}},
    }
    assert loaded(spec, defaults={FILES[0]: {"clusters": clusters}}).spec.env == found


def test_a_default_may_set_the_cluster_and_one_of_a_cluster_the_queue() -> None:
    defaults = {
        "all": {"cluster": "c2"},
        "clusters": {"c2": {"queue": "q2", "queues": {"q2": {"env": {"A": "1"}}}}},
    }
    text = as_file({key: value for key, value in MINIMAL.items() if key != "cluster"})
    below = Below(
        [("defaults.yaml", as_file(defaults))],
        lambda: ["c2"],
        lambda _cluster, written, _gpus: Queues(written),
    )
    spec = load_spec(text, "exp.yaml", option_models(), below=below).spec
    assert (spec.cluster, spec.queue, spec.env) == ("c2", "q2", {"A": "1"})


def test_set_selects_the_cluster_whose_defaults_apply() -> None:
    defaults = {"clusters": {"c2": {"env": {"A": "1"}}}}
    assert loaded({}, "cluster=c2", defaults={FILES[0]: defaults}).spec.env == {"A": "1"}


def test_an_empty_section_and_an_empty_file_say_nothing() -> None:
    below = Below([("a/defaults.yaml", "# nothing\n"), ("b/defaults.yaml", "all:\nclusters:\n")])
    assert load_spec(as_file(MINIMAL), "exp.yaml", option_models(), below=below)


# ------------------------------------------------------------------ lists that layers add to


@pytest.mark.parametrize(
    ("default", "base", "spec", "lines"),
    [
        (["d"], ["b"], ["s"], "s"),
        ({"prepend": ["d"]}, None, None, "d"),
        ({"prepend": ["d"]}, None, ["s"], "d s"),
        ({"append": ["d"]}, ["b"], ["s"], "s d"),
        ({"prepend": ["d"]}, {"prepend": ["b"]}, ["s"], "b d s"),
        ({"append": ["d"]}, {"append": ["b"]}, {"append": ["s"]}, "d b s"),
        ({"prepend": ["d1", "d2"]}, ["b1", "b2"], {"append": ["s"]}, "d1 d2 b1 b2 s"),
        ({"prepend": ["d"], "append": ["e"]}, None, "s", "d s e"),
        ({"prepend": "d"}, None, ["s"], "d s"),
        ({"prepend": ["d"]}, {"append": ["b"]}, {"replace": ["s"]}, "s"),
        ({"prepend": ["d"]}, {"replace": ["b"]}, {"append": ["s"]}, "b s"),
        ({"append": []}, None, None, ""),
    ],
)
def test_lines_are_put_before_and_after_those_of_other_layers(
    default: Any, base: Any, spec: Any, lines: str
) -> None:
    own = {} if spec is None else {"setup": spec}
    below = {"env": {}} if base is None else {"setup": base}
    found = loaded(
        {"extends": "b", **own},
        defaults={FILES[0]: {"all": {"setup": default}}},
        bases={"b": below},
    )
    assert " ".join(found.spec.setup) == lines


_ITEMS = {"data": {"source": "/a", "target": "/b"}, "mounts": "/a:/a"}


@pytest.mark.parametrize("path", lists_to_add_to(option_models(), "command"))
def test_every_list_can_be_added_to(path: tuple[str, ...]) -> None:
    item = _ITEMS.get(path[-1], "echo")
    words: Any = {"prepend": [item]}
    plain: Any = [item]
    for step in path[:0:-1]:
        words, plain = {step: words}, {step: plain}
    if "container" in path:
        plain["container"] |= {"runtime": "docker", "image": "a/b:1"}
    spec = loaded({path[0]: plain}, defaults={FILES[0]: {"all": {path[0]: words}}})
    found: Any = spec.merged.data
    for step in path:
        found = found[step]
    assert found == [item, item]
    first, second = (spec.source.locate((*path, index)).file for index in (0, 1))
    assert (first, second) == (FILES[0], "exp.yaml")


def test_all_lists_of_a_spec_can_be_added_to_unless_it_makes_no_sense() -> None:
    lists = {
        name
        for name, field in Experiment.model_fields.items()
        if str(field.annotation).startswith("tuple")
    }
    one_command, of_one_spec = {"prefix", "command"}, {"needs"}
    own = {path[0] for path in lists_to_add_to(option_models(), "command") if len(path) == 1}
    assert lists - one_command - of_one_spec == own


def test_set_adds_to_a_list_and_changes_an_item() -> None:
    defaults = {FILES[0]: {"all": {"setup": {"prepend": ["d"]}}}}
    spec = loaded({"setup": ["s"]}, "setup={append: [x]}", "setup.1=t", defaults=defaults)
    assert spec.spec.setup == ("d", "t", "x")
    assert str(spec.source.locate(("setup", 1))) == "--set"


# ------------------------------------------------------------------ origins

_NAMES = st.sampled_from(["A", "B", "C"])
_CHARACTERS = st.characters(exclude_categories=["C", "Zl", "Zp"], exclude_characters="{")
_TEXTS = st.text(_CHARACTERS, max_size=6) | st.text(" #:-ab\n\"'", max_size=9)
_LINES = st.lists(st.from_regex(r"echo [a-z]", fullmatch=True), max_size=2)
_ADDED = st.one_of(
    _LINES,
    st.fixed_dictionaries({}, optional={"prepend": _LINES, "append": _LINES}).filter(bool),
    st.fixed_dictionaries({"replace": _LINES}),
)


def _some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


_MAPPINGS = _some(
    env=st.dictionaries(_NAMES, _TEXTS, max_size=3),
    args=st.dictionaries(_NAMES, _TEXTS | st.lists(_TEXTS, max_size=2), max_size=3),
    nodes=st.integers(1, 9),
    setup=_ADDED,
    software=_some(setup=_ADDED, modules=st.lists(_NAMES, max_size=2)),
)


def _with_queue(two: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {**two[0], "queues": {"q1": two[1]}}


_CLUSTER = st.tuples(_MAPPINGS, _MAPPINGS).map(_with_queue)
_DEFAULTS = _some(all=_MAPPINGS, clusters=_some(c1=_CLUSTER))
_CASES = st.tuples(
    st.dictionaries(st.sampled_from(FILES), _DEFAULTS), _MAPPINGS, _MAPPINGS, _MAPPINGS
)


def of_case(case: tuple[Any, ...]) -> LoadedSpec:
    defaults, first, second, spec = case
    bases = {"one": {"extends": "two", **first}, "two": {"name": "b", **second}}
    return loaded({"extends": "one", **spec}, defaults=defaults, bases=bases)


@given(_CASES)
def test_every_value_has_one_origin_where_it_is_written(case: tuple[Any, ...]) -> None:
    loaded = of_case(case)
    for one in single_values(loaded.merged):
        path = next(path for path in _paths(loaded.merged.data) if dotted(path) == one.name)
        origin = loaded.source.origin(path)
        written: Any = origin.layer.text.value  # type: ignore[attr-defined]
        for step in origin.path:
            written = written[step]
        assert written == one.value or (one.value == [] and not any(written.values()))
        where = loaded.source.locate(path)
        assert f"{where.file}:{where.line}" == one.origin


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, step))


@given(_CASES)
def test_the_effective_yaml_loads_to_the_same_spec_with_and_without_the_layers(
    case: tuple[Any, ...],
) -> None:
    loaded = of_case(case)
    text = effective_yaml(loaded.merged)
    alone = load_spec(text, "exp.yaml", option_models())
    assert alone.spec == loaded.spec
    assert alone.merged.data == loaded.merged.data
    below = Below(
        texts_of(case[0]),
        lambda: ["c1", "c2"],
        lambda _cluster, written, _gpus: Queues(written or "q1", ("q1", "q2")),
    )
    again = load_spec(text, "exp.yaml", option_models(), below=below)
    assert again.spec == loaded.spec


@given(_CASES, st.randoms(use_true_random=False))
def test_the_order_of_files_and_of_the_keys_in_them_makes_no_difference(
    case: tuple[Any, ...], shuffled: random.Random
) -> None:
    defaults, *specs = case
    moved = {file: _shuffled(one, shuffled) for file, one in _shuffled(defaults, shuffled).items()}
    again = of_case((moved, *(_shuffled(one, shuffled) for one in specs)))
    assert again.spec == of_case(case).spec


def _shuffled(mapping: dict[str, Any], order: random.Random) -> dict[str, Any]:
    keys = list(mapping)
    order.shuffle(keys)
    return {
        key: _shuffled(mapping[key], order) if isinstance(mapping[key], dict) else mapping[key]
        for key in keys
    }


def test_a_reference_is_expanded_in_the_merged_spec() -> None:
    defaults = {FILES[0]: {"all": {"logs": "/fsx/logs/{{ name }}"}}}
    assert loaded({}, defaults=defaults).spec.logs.path == "/fsx/logs/a"


def test_code_of_a_default_holds_no_references() -> None:
    defaults = {FILES[0]: {"all": {"setup": {"prepend": ["echo {{ name }}"]}}}}
    assert loaded({}, defaults=defaults).spec.setup == ("echo {{ name }}",)
