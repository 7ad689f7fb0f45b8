"""The page of the spec is true: the keys of a sweep, and the example with its number of points."""

from __future__ import annotations

import pathlib
import re

from clusterjobs.frameworks import option_models
from clusterjobs.spec.keys.sweep import Sweep
from clusterjobs.spec.load import load_points

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "spec.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## sweep\n")[2].partition("\n## ")[0]
SPEC = "name: a\ncluster: small\nframework: torchrun\nscript: train.py\n"
SIZES = "model: {layers: 2, hidden: 64, heads: 2, sequence: 64}\nargs: {lr: 1}\n"


def test_the_page_has_all_keys_of_a_sweep() -> None:
    rows = re.findall(r"(?m)^\| `(\w+)` \|", SECTION)
    assert rows == list(Sweep.model_fields)


def test_the_example_has_the_number_of_points_that_the_page_says() -> None:
    example = re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    number = re.search(r"adds 1: (\d+)\.", SECTION)
    assert example
    assert number
    points = load_points(SPEC + SIZES + example[1], "exp.yaml", option_models())
    assert len(points) == int(number[1])
