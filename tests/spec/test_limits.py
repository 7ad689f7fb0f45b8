"""Specs and configs that are made to take long: they are read in time, or a limit is named."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable

import pytest

from clusterjobs.cli import main
from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import load_spec
from clusterjobs.yaml import document

BASE = "name: a\ncluster: small\nframework: command\ncommand: [./run]\n"


def problems_of(text: str, *settings: str) -> tuple[Problem, ...]:
    with pytest.raises(InputError) as error:
        load_spec(text, "exp.yaml", option_models(), settings=settings)
    return error.value.problems


def data_sets(count: int) -> str:
    rows = (f"  - {{source: /fsx/s{i}, target: /fsx/t{i}}}\n" for i in range(count))
    return f"{BASE}data:\n{''.join(rows)}"


def test_a_list_whose_items_are_compared_has_a_limit() -> None:
    assert len(load_spec(data_sets(500), "exp.yaml", option_models()).spec.data) == 500
    (problem,) = problems_of(data_sets(501))
    assert (problem.path, problem.what) == ("data", "more than 500 items")


def test_a_setting_cannot_be_nested_without_end() -> None:
    (problem,) = problems_of(BASE, f"args{'.a' * 5000}=1")
    assert problem.what == "nested deeper than 60 levels"
    assert problem.where is not None
    assert problem.where.file == "--set"


def bomb(levels: int) -> str:
    """Each level merges the one above eight times: 8 ** levels keys, if each merge is followed."""
    lines = ["a0: &a0 {k: 1}"]
    lines += [
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 8)}], k{level}: 1}}"
        for level in range(1, levels + 1)
    ]
    return "\n".join(lines)


def test_merge_keys_cannot_multiply_without_end() -> None:
    value = document.load(bomb(40), "config.yaml", "1.1").value
    assert value["a40"] == {"k": 1, **{f"k{level}": 1 for level in range(1, 41)}}


def test_a_mapping_that_merges_itself_gets_nothing_from_it() -> None:
    assert document.load("a: &a {<<: *a, b: 1}", "config.yaml", "1.1").value == {"a": {"b": 1}}


def test_of_many_problems_the_first_hundred_are_shown_and_errors_before_warnings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warnings = [Problem(f"warning {number}", warning=True) for number in range(100)]
    show_problems([*warnings, Problem("error a"), Problem("error b")])
    shown = capsys.readouterr().err.splitlines()
    assert shown[:3] == ["error a", "error b", "warning: warning 0"]
    assert shown[-1] == "2 problems; the first 100 of 102 messages are shown"
    assert len(shown) == 101


def many(line: str, count: int) -> str:
    return "".join(line.format(number) for number in range(count))


SPECS: dict[str, tuple[Callable[[], str], str]] = {
    "60,000 variables": (lambda: f"{BASE}env:\n" + many("  V{}: a\n", 60_000), "10,000 items"),
    "60,000 unknown keys": (lambda: BASE + many("k{}: 1\n", 60_000), "10,000 items"),
    "190,000 arguments": (lambda: BASE.replace("./run", "x," * 190_000), "10,000 items"),
    "aliases of a long text": (
        lambda: f"{BASE}args:\n  a: &a {'y' * 100_000}\n" + many("  b{}: *a\n", 5_000),
        "4,194,304 characters once aliases are expanded",
    ),
}
CONF = "ClusterName=a\nNodeName={} CPUs=4\nPartitionName=p Nodes=ALL\n"
IMPORTS: dict[str, tuple[Callable[[], str], str]] = {
    "a line of 50 MB": (lambda: CONF.format("x" * 50_000_000), "a line of more than 1,048,576"),
    "5,000 groups": (lambda: CONF.format("n" + "[1-2]" * 5_000), "more than 200,000 nodes"),
    "5,000 groups of one": (lambda: CONF.format("n" + "[1]" * 5_000), "more than 255 characters"),
    "groups of many": (lambda: CONF.format("n[1-99999]" * 5_000), "more than 200,000 nodes"),
    "12,000,000 lines": (lambda: CONF.format("n1") + "\\\n" * 12_000_000, "1,000,000 lines"),
    "a file of 70 MB": (lambda: CONF.format("n1") + "# comment\n" * 7_000_000, "67,108,864 bytes"),
    "20,000 partitions of all nodes": (
        lambda: CONF.format("n[1-1000]") + many("PartitionName=p{} Nodes=ALL\n", 20_000),
        "the partitions have more than 2,000,000 nodes together",
    ),
}


@pytest.mark.parametrize("name", [*SPECS, *IMPORTS])
def test_a_huge_input_is_refused_in_seconds(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, wanted = {**SPECS, **IMPORTS}[name]
    file = tmp_path / "input"
    file.write_text(make())
    command = ["render"] if name in SPECS else ["clusters", "import", "--from-files"]
    started = time.process_time()
    assert main.run([*command, str(file)]) == 1
    assert time.process_time() - started < 10  # most of it is the start; it was minutes
    assert wanted in capsys.readouterr().err


def test_as_many_values_as_a_spec_may_have_take_seconds() -> None:
    started = time.process_time()
    command = BASE.replace("./run", "x," * 10_000)
    load_spec(command + "env:\n" + many("  V{}: a\n", 10_000), "exp.yaml", option_models())
    assert time.process_time() - started < 10
