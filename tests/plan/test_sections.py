"""The table of sections: each makes what Context, Plan and the templates name."""

from __future__ import annotations

from importlib import import_module
from typing import Any, get_type_hints

import pytest

from clusterjobs.sections.context import Context
from clusterjobs.sections.order import PRINTED, SECTIONS, Section
from clusterjobs.sections.plan import Plan


@pytest.mark.parametrize("section", SECTIONS, ids=lambda one: one.name)
def test_a_section_makes_the_record_that_the_context_declares(section: Section) -> None:
    declared = get_type_hints(Context)[section.name]
    made = get_type_hints(section.plan)["return"]
    if made is Any:  # of few specs
        own = import_module(f"clusterjobs.sections.{section.name}")
        made = get_type_hints(own.plan)["return"]
    assert made | None == declared | None


def test_every_record_of_the_plan_is_made_by_a_section() -> None:
    made = {one.name for one in SECTIONS} | {"parallelism", "batch", "derived", "warnings"}
    assert made - {"program"} == set(Plan._fields)


def test_every_section_with_a_text_is_printed() -> None:
    assert set(PRINTED) == {one.name for one in SECTIONS if one.render}
