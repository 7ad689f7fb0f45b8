"""Whatever is written as a sweep: it is loaded, or refused with a position in the file."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import LoadedSpec, load_points

SPEC = """\
name: exp
cluster: small
framework: torchrun
script: train.py
args: {lr: 1, out: "{{ point.name }}"}
data: [{source: /a, target: /b}]
checkpoints: {path: /fsx/ck}
"""
PLAIN = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1e-3, 1e300, -1.5, 2**70, "", "a", "/b", "{{ args.lr }}", "x:", "a\nb"]),
)
SCALARS = PLAIN | st.none() | st.sampled_from(["\0", "{{ nope }}"])
KEYS = st.sampled_from(
    [
        *("args.lr", "args", "args.0", "args.a.b", "nodes", "nodes.x", "batch", "batch.micro"),
        *("data.0.source", "data.1.source", "data", "name", "", ".", "a..b", "sweep", "ds_config"),
        *("checkpoints", "checkpoints.path", "framework", "queue", "env.A", "sbatch.account", "x"),
        ".".join("a" * 100),
        "args." + ".".join("a" * 100),
    ]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2)
)
DISTRIBUTIONS = st.dictionaries(
    st.sampled_from(["uniform", "log_uniform", "int_uniform", "choice", "x"]),
    st.lists(SCALARS, max_size=3) | SCALARS,
    max_size=2,
)
SECTIONS = {
    **dict.fromkeys(("grid", "zip"), st.dictionaries(KEYS, st.lists(VALUES, max_size=3))),
    "random": st.dictionaries(KEYS, DISTRIBUTIONS, max_size=2),
    **dict.fromkeys(("include", "exclude"), st.lists(st.dictionaries(KEYS, VALUES), max_size=2)),
    **dict.fromkeys(("samples", "seed", "max_running"), st.integers(-1, 20)),
    "metric": st.text(max_size=10),
    "name": SCALARS,
}
ANY = st.fixed_dictionaries({}, optional=SECTIONS)
GOOD = st.sampled_from(
    ["args.lr", "args.a", "nodes", "env.A", "data.0.source", "checkpoints.path", "batch.micro"]
)
POINTS = st.dictionaries(GOOD | KEYS, PLAIN | st.lists(PLAIN, max_size=2), max_size=2)
WELL_FORMED = st.fixed_dictionaries(
    {
        "grid": st.dictionaries(
            GOOD, st.lists(PLAIN, min_size=1, max_size=2, unique_by=str), max_size=3
        )
    },
    optional={
        "include": st.lists(POINTS, max_size=2),
        "exclude": st.lists(POINTS, max_size=1),
        "zip": st.dictionaries(GOOD | KEYS, st.lists(PLAIN, min_size=2, max_size=2), max_size=2),
    },
)


@given(WELL_FORMED | ANY | st.dictionaries(st.sampled_from(list(SECTIONS)), VALUES) | VALUES)
@example({"grid": {"args.lr": [[[[]]], {}]}})
@example({"include": [{"args": []}]})
def test_a_sweep_is_loaded_or_refused_with_a_position(sweep: Any) -> None:
    text = f"{SPEC}sweep: {json.dumps(sweep, ensure_ascii=False)}\n"
    problems: tuple[Problem, ...] = ()
    points: tuple[LoadedSpec, ...] = ()
    try:
        points = load_points(text, "exp.yaml", option_models())
    except InputError as error:
        problems = error.problems
    assert bool(problems) is not bool(points)
    assert all(problem.where and problem.what for problem in problems)
    assert len({one.point.name for one in points if one.point}) == len(points)
