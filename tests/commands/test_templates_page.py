"""docs/templates.md is true: its examples pass `templates check`, its tables match the code."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest

from clusterjobs.admin.templates import check as templates_check
from clusterjobs.admin.templates.check import packaged_samples
from clusterjobs.script.site import INSERTION_POINTS
from clusterjobs.script.site.invariants import INVARIANTS

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"(?ms)^`templates/(\S+)`:\n\n```\w+\n(.*?)^```$", PAGE)


@pytest.mark.parametrize(("name", "text"), EXAMPLES)
def test_an_example_of_the_page_passes_the_check(
    name: str,
    text: str,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = tuple(one for one in packaged_samples() if one.name in ("docker-ssh", "every-section"))
    monkeypatch.setattr(templates_check, "packaged_samples", lambda: few)
    file = folder / "site" / "templates" / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    outcome = clusterjobs("templates", "check", "--site", "site")
    assert (outcome.code, outcome.err) == (0, "")


def test_the_page_has_an_example_of_each_way() -> None:
    assert len(EXAMPLES) == 5
    assert any("extends" in text for _, text in EXAMPLES)


def test_the_insertion_points_are_on_the_page() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)\.sh` \| (.*) \|$", PAGE))
    assert rows == INSERTION_POINTS


def test_the_invariants_and_their_reasons_are_on_the_page() -> None:
    rows = PAGE.partition("| invariant | because |")[2].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| ([\w-]+) \| (.*) \|$", rows) == [
        (one.name, one.why) for one in INVARIANTS
    ]
