"""docs/policies.md is true: its tables."""

from __future__ import annotations

import pathlib
import re

from clusterjobs.sites.policy import Limits, Rule, Selection

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "policies.md").read_text(encoding="utf-8")


def test_every_key_is_on_the_page() -> None:
    keys = set(re.findall(r"(?m)^\| `(\w+)", PAGE))
    assert {field.alias or name for name, field in Rule.model_fields.items()} <= keys
    for name in (*Selection.model_fields, *Limits.model_fields):
        assert f"`{name}`" in PAGE or f"{name}:" in PAGE
