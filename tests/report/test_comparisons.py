"""Several runs side by side, how they scale, and a run against its prediction."""

from __future__ import annotations

import dataclasses

import pytest

from clusterjobs.models.records import Range
from clusterjobs.plugins import Prediction
from clusterjobs.report.compare import against, comparison, scaling
from clusterjobs.report.logs.records import Log, Quantity, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job, Run


def run(gpus: int, seconds: float, batch: int, windows: int = 20, name: str = "") -> Run:
    """A run whose every step takes so long."""
    found = tuple(
        Window(10 * n, {"seconds": seconds, "batch": batch, "loss": 9.0 / n}, 10)
        for n in range(1, windows + 1)
    )
    return make_run(Log("megatron-lm", found), Job(name=name or f"{gpus}gpu", gpus=gpus))


def cells(table, column: str) -> list[str]:
    place = table.head.index(column)
    return [row[place] for row in table.rows]


def test_the_same_batch_is_strong_scaling_and_the_same_batch_per_gpu_weak() -> None:
    strong = scaling([run(8, 1.0, 64), run(16, 0.6, 64), run(32, 0.4, 64)])
    assert strong
    assert cells(strong, "scaling") == ["base", "strong", "strong"]
    assert cells(strong, "efficiency") == ["100.0 %", "83.3 %", "62.5 %"]
    weak = scaling([run(16, 1.25, 128), run(8, 1.0, 64)])
    assert weak
    assert cells(weak, "GPUs") == ["8", "16"]
    assert cells(weak, "scaling") == ["base", "weak"]
    assert cells(weak, "efficiency") == ["100.0 %", "80.0 %"]


def test_another_batch_per_gpu_has_no_efficiency() -> None:
    table = scaling([run(8, 1.0, 64), run(16, 1.0, 96)])
    assert table
    assert cells(table, "efficiency")[1] == "not comparable"
    assert any("another batch per GPU" in note for note in table.notes)


def test_more_than_1_is_called_impossible_and_never_printed_as_efficiency() -> None:
    table = scaling([run(1, 3.0, 8), run(8, 1.0, 64)])
    assert table
    assert cells(table, "efficiency")[1] == "not comparable"
    assert any("is no success" in note for note in table.notes)
    assert not any("300 %" in cell for row in table.rows for cell in row)


def test_runs_without_a_steady_state_are_left_out_and_the_naive_figure_is_refused() -> None:
    small, large = run(1, 0.646, 8, windows=3, name="small"), run(8, 0.3495, 64, name="large")
    table = scaling([small, large])
    assert table
    assert table.rows == ()
    assert any("small: left out" in note for note in table.notes)
    naive = next(note for note in table.notes if "More than 1 is impossible" in note)
    assert "1.85" in naive


def test_amdahls_law_needs_four_sizes_of_the_same_batch() -> None:
    def of_amdahl(gpus: int) -> Run:
        return run(gpus, 0.1 + 3.2 / gpus, 64)

    three, four = (scaling([of_amdahl(2**n) for n in range(count)]) for count in (3, 4))
    assert three
    assert four
    assert not any("Amdahl" in note for note in three.notes)
    (fit,) = [note for note in four.notes if "Amdahl" in note]
    assert "100 ms of a step" in fit
    assert "at most 33 times" in fit


def test_runs_of_one_size_do_not_scale() -> None:
    assert scaling([run(8, 1.0, 64), run(8, 0.9, 64)]) is None
    assert scaling([]) is None


def test_a_comparison_has_a_row_for_each_run_and_dashes_for_what_is_unknown() -> None:
    table = comparison([run(8, 0.5, 64, name="a"), run(8, 0.5, 64, windows=2, name="b")])
    assert cells(table, "run") == ["a", "b"]
    assert cells(table, "samples/s") == ["128", "-"]
    no_dashes = "run", "GPUs", "steps", "samples/s", "a step", "goodput", "loss"
    assert table.head == no_dashes
    assert any(note.startswith("No speed of b: too few lines") for note in table.notes)


def test_runs_without_a_speed_for_the_same_reason_are_named_in_one_note() -> None:
    table = comparison([run(8, 0.5, 64, windows=2, name=name) for name in "abcdef"])
    assert [note.partition(":")[0] for note in table.notes] == ["No speed of a, b, c and 3 more"]


def test_a_prediction_is_compared_with_what_was_measured() -> None:
    tokens = dataclasses.replace(run(8, 0.5, 64), peak_memory_gib=30.0)
    predicted = Prediction(step_seconds=Range(0.35, 0.4, 0.45), memory_gib=Range(28, 31, 34))
    table = against(tokens, predicted, "exp.yaml")
    assert cells(table, "difference") == ["+25.0 %, outside the range", "-3.2 %"]
    assert table.notes == ("What differs most is the time of a step: 25.0 % more than predicted.",)


@pytest.mark.parametrize("predicted", [Prediction(), Prediction(mfu=Range(1, 1, 1))])
def test_nothing_in_common_is_said(predicted: Prediction) -> None:
    table = against(run(8, 0.5, 64), predicted, "exp.yaml")
    assert table.rows == ()
    assert table.notes == ("Nothing that was measured was also predicted.",)


def of_rates(gpus: int, name: str, quantity: Quantity, *rates: float) -> Run:
    """A run whose log prints these rates, and no batch."""
    found = tuple(Window(n, {quantity: rate}, 1) for n, rate in enumerate(rates, 1))
    return make_run(Log("own script", found), Job(name=name, gpus=gpus))


def test_logs_that_have_tokens_and_no_samples_scale_too() -> None:
    """As torchtitan's do."""
    small = of_rates(8, "small", "tokens_per_second", *[8000.0] * 12)
    large = of_rates(16, "large", "tokens_per_second", *[15200.0] * 12)
    table = scaling([small, large])
    assert table
    assert cells(table, "tokens/s") == ["8,000", "15,200"]
    assert cells(table, "efficiency") == ["100.0 %", "95.0 %"]


def test_a_run_without_the_rate_of_the_others_is_left_out_with_the_reason() -> None:
    tokens = of_rates(32, "tokens", "tokens_per_second", *[8000.0] * 12)
    table = scaling([run(8, 1.0, 64), run(16, 0.6, 64), tokens])
    assert table
    assert cells(table, "GPUs") == ["8", "16"]
    assert "tokens: left out, since its log has no samples/s" in table.notes


def test_the_fastest_of_the_smallest_runs_is_the_base() -> None:
    table = scaling([run(8, 1.0, 64, name="slow"), run(8, 0.5, 64, name="fast"), run(16, 0.3, 64)])
    assert table
    assert cells(table, "run") == ["fast", "slow", "16gpu"]
    assert cells(table, "efficiency") == ["100.0 %", "50.0 %", "83.3 %"]
    assert table.notes == ()


def test_no_naive_figure_is_made_of_two_runs_of_one_size() -> None:
    slow = of_rates(8, "slow", "samples_per_second", 40.0, 30.0)
    fast = of_rates(8, "fast", "samples_per_second", 60.0, 60.0)
    table = scaling([of_rates(1, "none", "loss", 3.0), slow, fast])
    assert table
    assert not any("impossible" in note for note in table.notes)


def test_the_naive_figure_is_of_the_last_rates() -> None:
    small = of_rates(1, "small", "samples_per_second", 9.0, 3.0, 2.0)
    large = of_rates(8, "large", "samples_per_second", 40.0, 30.0, 32.0)
    table = scaling([small, large])
    assert table
    assert any("gives 2 for large against small" in note for note in table.notes)


def test_runs_that_scale_perfectly_have_no_limit_that_only_rounding_shows() -> None:
    table = scaling([run(2**n, 3.2 / 2**n, 64) for n in range(4)])
    assert table
    assert table.notes == (
        "Amdahl's law: these runs show no part of a step that more GPUs do not make shorter.",
    )
