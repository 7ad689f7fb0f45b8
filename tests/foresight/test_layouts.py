"""The layouts that are tried, what rules others out, and how they are ranked."""

from __future__ import annotations

import itertools

from clusterjobs.foresight.formulas.layouts import (
    Candidate,
    RuledOut,
    SearchSpace,
    layouts,
    pareto_front,
    ranked,
)
from clusterjobs.foresight.formulas.memory import verdict_of
from clusterjobs.models.records import Layout, ModelShape

MODEL = ModelShape(12, 768, 12, 4, 64, 3072, 1024, 50304)
BASE = Layout(16, 8, 1, 64, "megatron-core")
ALL = SearchSpace(
    virtual_pipeline=True,
    sequence_parallel=True,
    zero=(0, 1, 2, 3),
    recompute=("none", "selective", "full"),
)


def test_every_layout_divides_what_it_must() -> None:
    found, _ = layouts(MODEL, BASE, ALL)
    assert len(found) == len(set(found)) > 200
    for one in found:
        assert MODEL.heads % one.tensor == 0
        assert MODEL.kv_heads % one.tensor == 0
        assert one.tensor <= 8
        assert MODEL.layers % (one.pipeline * one.virtual_pipeline) == 0
        assert one.gpus % (one.tensor * one.pipeline) == 0
        assert one.global_batch == 64
        assert one.global_batch % (one.micro_batch * one.data) == 0
        assert not (one.zero >= 2 and one.pipeline > 1)
        assert not (one.sequence_parallel and one.tensor == 1)
        assert not (one.recompute == "selective" and one.flash)  # nothing to recompute


def test_nothing_that_divides_is_left_out() -> None:
    """Counted in another way, for tensor and pipeline sizes."""
    found, _ = layouts(MODEL, BASE, ALL)
    sizes = {(one.tensor, one.pipeline) for one in found}
    expected = {
        (t, p)
        for t, p in itertools.product((1, 2, 4), (1, 2, 3, 4, 6, 12))
        if 16 % (t * p) == 0 and 64 % (16 // (t * p)) == 0
    }
    assert sizes == expected


def test_what_is_ruled_out_has_a_reason() -> None:
    _, out = layouts(MODEL, BASE, ALL)
    assert RuledOut("tensor 8", "does not divide 12 heads") in out
    across = "a node has 8 GPUs: traffic of every layer would cross the network"
    assert RuledOut("tensor 16", across) in out
    assert RuledOut("pipeline 8", "does not divide 12 layers") in out
    _, out = layouts(MODEL._replace(heads=16), BASE, ALL)
    assert RuledOut("tensor 8", "does not divide 4 kv_heads") in out
    _, out = layouts(MODEL, BASE._replace(gpus=48), ALL)
    batch = "the copies of the model do not divide the global batch of 64"
    assert RuledOut("tensor 1 x pipeline 1 on 48 GPUs", batch) in out


def test_what_is_not_free_keeps_its_value() -> None:
    fixed = SearchSpace(tensor=False, pipeline=False, micro_batch=False, recompute=("full",))
    base = BASE._replace(tensor=2, pipeline=2, sequence_parallel=True, recompute="full")
    assert layouts(MODEL, base, fixed)[0] == [base]


def candidate(seconds: float, tensor: int = 1, usd: float | None = None) -> Candidate:
    return Candidate("a", 2, BASE._replace(tensor=tensor), seconds, 0.5, usd)


def test_tied_layouts_are_sorted_like_all_others_and_equal_ones_by_simplicity() -> None:
    fast, simple, slow = candidate(1.0, 4), candidate(1.08, 1), candidate(1.2, 1)
    ordered = ranked([slow, fast, simple])
    assert ordered == [fast, simple, slow]
    assert ranked([candidate(1.0, 4), candidate(1.0, 2)])[0].layout.tensor == 2


def test_one_that_probably_does_not_fit_comes_behind_all_others() -> None:
    too_tight, slow = candidate(1.0)._replace(share=1.1), candidate(3.0)
    assert ranked([too_tight, slow]) == [slow, too_tight]
    assert [verdict_of(one) for one in (0.89, 0.9, 1.15, 1.16)] == [
        "fits",
        "borderline",
        "borderline",
        "does_not_fit",
    ]


def test_a_wide_range_ranks_by_its_pessimistic_end() -> None:
    guess, known = candidate(1.0)._replace(risk=2.0), candidate(1.5)._replace(risk=1.15)
    assert ranked([guess, known]) == [known, guess]


def test_by_cost_only_what_has_a_price_is_ranked() -> None:
    free, dear, cheap = candidate(1.0), candidate(1.0, usd=9.0), candidate(2.0, usd=5.0)
    assert ranked([free, dear, cheap], by_cost=True) == [cheap, dear]


def test_the_pareto_front_has_what_no_other_beats_in_both() -> None:
    points = [candidate(1.0, usd=9.0), candidate(2.0, usd=5.0), candidate(3.0, usd=6.0)]
    front = pareto_front([*points, candidate(0.5)])
    assert front == points[:2]
    every = [candidate(s, usd=u) for s in (1.0, 2.0, 3.0) for u in (1.0, 2.0)]
    assert pareto_front(every) == [candidate(1.0, usd=1.0)]
