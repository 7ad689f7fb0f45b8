"""What a page says of a sweep's points: the best one, seeds, states and drawings."""

from __future__ import annotations

import json
import pathlib
import re
from dataclasses import replace

import pytest
from example_runs import seeded_sweep, sweep_runs

from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.page import page
from clusterjobs.report.page.sweep import Axis, sweep_of
from clusterjobs.report.points import best_point, mean_windows, metric_of, state_of
from clusterjobs.report.read import Specs, job_of
from clusterjobs.report.targets import Target


def test_the_best_point_is_complete() -> None:
    """A point that has crashed early may have any loss."""
    runs = seeded_sweep()
    crashed = next(place for place, run in enumerate(runs) if state_of(run) == "crash")
    last = runs[crashed].windows[-1]
    lucky = last.with_values({**last.values, "loss": 0.1})
    runs[crashed] = replace(runs[crashed], windows=(*runs[crashed].windows[:-1], lucky))
    best = metric_of(runs).best
    assert best is not None
    assert state_of(runs[best]) == "completed"
    assert runs[best].name in best_point(runs)


def test_the_best_mean_over_seeds_is_named_beside_the_best_point() -> None:
    runs = seeded_sweep()
    sweep = sweep_of(runs)
    assert sweep
    assert sweep.seeds
    assert sweep.seeds.rows[0][:4] == ("0.0003", "768", "5", "2.893")
    assert "Best mean over seeds: lr=0.0003, width=768, loss 2.893 (5 seeds)." in best_point(runs)
    assert "seeds" not in best_point(sweep_runs(3))


def test_a_loss_that_is_no_number_is_never_the_best() -> None:
    runs = sweep_runs(3)
    last = runs[0].windows[-1]
    runs[0] = replace(runs[0], windows=(last.with_values({"loss": float("nan")}),))
    assert metric_of(runs).best in (1, 2)


def test_points_with_other_steps_are_named_as_such() -> None:
    runs = sweep_runs(3)
    assert "different numbers of steps" not in best_point(runs)
    runs[1] = replace(runs[1], steps=10)
    assert "different numbers of steps" in best_point(runs)


def test_seeds_are_a_mean_with_a_spread_without_points_that_are_not_complete() -> None:
    sweep = sweep_of(seeded_sweep())
    assert sweep
    assert sweep.seeds
    assert len(sweep.seeds.rows) == 24
    assert {row[2] for row in sweep.seeds.rows} == {"5", "4 of 5"}
    means = [float(row[3]) for row in sweep.seeds.rows]
    assert means == sorted(means)


def test_every_point_with_a_loss_is_drawn_once_in_each_drawing() -> None:
    runs = seeded_sweep()
    sweep = sweep_of(runs)
    assert sweep
    assert sweep.parallel
    for marks in (sweep.parallel.lines, *(one.marks for one in sweep.scatters)):
        assert sorted(mark.run for mark in marks) == [*range(len(runs))]
        assert [mark.kind for mark in marks].count("best") == 1
        assert {mark.run for mark in marks if mark.kind == "other"} == {37, 61}


def test_an_axis_is_logarithmic_where_numbers_span_a_wide_range() -> None:
    assert Axis("lr", ["1e-4", "1e-3", "1e-2"]).place("1e-3") == pytest.approx(0.5)
    assert Axis("width", ["1", "2", "3"]).place("2") == 0.5
    assert Axis("kind", ["b", "a", "c"]).place("a") == 0.5


def test_a_mean_counts_the_steps_that_all_long_enough_runs_have() -> None:
    runs = [
        [Window(step, {"loss": float(loss)}, 10) for step in steps]
        for loss, steps in ((1, (10, 20, 30)), (3, (10, 20)), (5, (10, 15, 20, 30)))
    ]
    found = [(one.step, one.values["loss"], one.low["loss"]) for one in mean_windows(runs)]
    assert found == [(10, 3, 1), (20, 3, 1), (30, 3, 1)]


def test_the_value_of_the_best_point_has_a_label_below_each_drawing() -> None:
    runs = seeded_sweep()
    best, sweep = metric_of(runs).best, sweep_of(runs)
    assert sweep
    assert best is not None
    for name, drawing in zip(runs[best].point, sweep.scatters, strict=False):
        assert runs[best].point[name] in [text for _, text in drawing.bottom]


def test_the_page_has_the_keys_of_plan_json_that_differ(tmp_path: pathlib.Path) -> None:
    runs = []
    for number in (1, 2):
        spec = {"file": "exp.yaml", "sha256": "0f" * 4, "set": [f"nodes={number}"]}
        derived = {"world_size": 8 * number, "ranks_per_node": 8}
        plan = {"framework": "megatron", "launcher": "srun", "spec": spec, "derived": derived}
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "plan.json").write_text(json.dumps(plan))
        target = Target(None, tmp_path / str(number), name=str(number))
        runs.append(make_run(Log("", ()), job_of(target, Specs())))
    data = re.search(r'<script type="application/json" id="data">(.+?)</script>', page(runs))
    assert data
    assert json.loads(data[1])["settings"] == {
        "world_size": ["8", "16"],
        "spec set": ['["nodes=1"]', '["nodes=2"]'],
    }
    assert 'class="chosen' not in page([runs[0], replace(runs[0], name="the same")])
