"""Each file in `reading/` is a case: a config, perhaps a site, and the facts or errors expected.

Of the facts only what a case names is compared.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml

from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError

CASES = sorted(pathlib.Path(__file__).with_name("reading").glob("*.case"))


def load_case(path: pathlib.Path) -> tuple[str, dict[str, str]]:
    """The config and the sections after it."""
    with path.open(encoding="utf-8", newline="") as file:  # keeps \r\n
        config, *rest = re.split(r"(?m)^--- (\w+) ---\n", file.read())
    return config, dict(zip(rest[::2], rest[1::2], strict=True))


def assert_contains(found: Any, expected: Any, place: str) -> None:
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert hasattr(found, key), f"{place} has no {key}"
            assert_contains(getattr(found, key), value, f"{place}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), f"{place}: {found}"
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_contains(*pair, f"{place}[{number}]")
    else:
        assert found == expected, place
        assert type(found) is type(expected), place


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_reads_config_as_the_case_says(path: pathlib.Path) -> None:
    config, sections = load_case(path)
    site = yaml.safe_load(sections.get("site", "{}"))
    assert sections.keys() - {"site"} in ({"facts"}, {"error"})
    if "facts" in sections:
        cluster, document = read_cluster(config, f"{path.stem}.yaml", site)
        assert document.text == config
        assert_contains(cluster, yaml.safe_load(sections["facts"]), path.stem)
        return
    with pytest.raises(InputError) as caught:
        read_cluster(config, f"{path.stem}.yaml", site)
    expected = sections["error"].splitlines()
    assert len(caught.value.problems) == len(expected)
    for problem, line in zip(caught.value.problems, expected, strict=True):
        place, _, what = line.partition(" ")
        assert problem.where is not None
        assert f"{problem.where.line}:{problem.where.column}" == place
        assert problem.what.startswith(what)


def test_cases_exist() -> None:
    assert len(CASES) >= 30


def test_positions_are_those_of_the_original_text_when_placeholders_were_masked() -> None:
    config, _ = load_case(
        pathlib.Path(__file__).with_name("reading") / "unquoted_double_braces.case"
    )
    _, document = read_cluster(config, "c.yaml", {})
    where = document.locate(("Scheduling", "SlurmQueues", 0, "ComputeResources", 0, "MaxCount"))
    assert config.splitlines()[where.line - 1][where.column - 1 :] == "4"
