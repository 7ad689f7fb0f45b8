"""Values that are known only on the node: where they are expanded, and where they are not."""

from __future__ import annotations

from plans import plan_of, problems_of


def warnings(**keys: object) -> list[str]:
    return [one.path for one in plan_of(**keys).warnings]


def test_a_shell_variable_in_an_argument_is_a_warning_for_it_stays_literal() -> None:
    assert warnings(args={"out": "${HOME}/x", "in": ["a", "${USER}"]}) == ["args.out", "args.in"]
    assert warnings(args=["--out", "${HOME}/x"]) == ["args[1]"]
    assert warnings(args={"a": "$(x)", "b": "~/x", "c": "--x=~/y"}) == [
        "args.a",
        "args.b",
        "args.c",
    ]
    assert warnings(prefix=["nsys", "-o", "$HOME/x"], before=[["a", "~/b"]]) == [
        "prefix",
        "before[0].command",
    ]
    assert warnings(sbatch={"output": "~/%j"}, env={"A": "`date`"}) == ["env.A", "sbatch.output"]


def test_plain_dollars_and_expanded_places_are_no_warning() -> None:
    assert warnings(args={"price": "$5", "re": "x$"}, env={"OUT": "${HOME}/x"}) == []
    assert warnings(env={"OUT": "~/x", "IN": "${A:-~/y}", "PROMPT": "$$HOME $$(x)"}) == []
    assert warnings(logs="${HOME}/logs") == []


def test_the_default_of_a_parameter_is_no_parameter() -> None:
    parameters = {"A": "1", "B": "{{ parameters.A }}"}
    (problem,) = problems_of(parameters=parameters)
    assert (problem.path, problem.warning) == ("parameters.B.default", False)
    assert problem.what == "a default cannot be another parameter"
