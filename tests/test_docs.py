"""The pages are true: links lead somewhere, tables match the code."""

from __future__ import annotations

import pathlib
import re

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.spec.keys.staging import Restarts

ROOT = pathlib.Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
RESTARTS = (ROOT / "docs" / "restarts.md").read_text(encoding="utf-8")


def anchors(page: pathlib.Path) -> set[str]:
    """The headings of a page, as links write them."""
    headings = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: pathlib.Path) -> None:
    for target, anchor in re.findall(
        r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")
    ):
        to = page.parent / target if target else page
        assert to.exists(), target
        assert not anchor or anchor in anchors(to), f"{target}#{anchor}"


def test_each_framework_stops_as_the_page_says() -> None:
    rows = re.findall(r"(?m)^\| (`.*?) \| (.*?) \| (.*?) \|$", RESTARTS)
    documented = {
        name: (stops_by, marker)
        for names, stops_by, marker in rows
        for name in re.findall(r"`([\w-]+)`", names)
        if name in FRAMEWORKS
    }
    assert set(documented) == set(FRAMEWORKS)
    channels = {"file": "stop file", "clock": "clock", "never": "nothing"}
    for name, framework in FRAMEWORKS.items():
        stops_by, marker = documented[name]
        saving = framework.saving
        assert stops_by.startswith(channels[saving.stop_channel]), name
        assert marker.startswith(f"`{saving.marker}`" if saving.marker else "none"), name


def test_the_files_that_a_kill_may_cut_are_on_the_page() -> None:
    part = RESTARTS[RESTARTS.index("| file | of |") :].partition("\n\n")[0]
    rows = re.findall(r"(?m)^\| `([^`]+)` \| (.*?) \|", part)
    documented = {(name, file) for file, names in rows for name in re.findall(r"`(.*?)`", names)}
    assert documented == {
        (name, file)
        for name, framework in FRAMEWORKS.items()
        for file, _ in framework.saving.overwritten
    }


def test_the_keys_of_restarts_and_their_defaults_are_on_the_page() -> None:
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .*\| (\w+) \|$", RESTARTS))
    defaults = {name: getattr(Restarts(), name) for name in Restarts.__annotations__}
    assert {name: rows[name] for name in defaults} == {
        name: "none" if value is None else str(value) for name, value in defaults.items()
    }
