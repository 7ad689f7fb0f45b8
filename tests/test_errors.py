"""Which problems are reported, and in which order."""

from __future__ import annotations

from clusterjobs.errors import Location, Problem, in_order

FIRST, SECOND = Location("exp.yaml", 2, 1), Location("exp.yaml", 9, 4)


def test_problems_come_in_the_order_of_the_file() -> None:
    late, early = Problem("late", SECOND, "b"), Problem("early", FIRST, "a", warning=True)
    nowhere = Problem("nowhere")
    assert in_order([nowhere, late, early]) == [early, late, nowhere]


def test_one_problem_of_a_value_is_enough() -> None:
    problems = [Problem("one", FIRST, "a"), Problem("two", FIRST, "a")]
    assert in_order(problems) == problems[:1]


def test_a_warning_about_a_value_hides_no_error_about_it() -> None:
    warning, error = Problem("warning", FIRST, "a", warning=True), Problem("error", FIRST, "a")
    assert in_order([warning, error]) == [error]
