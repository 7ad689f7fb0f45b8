"""The examples of docs/admins.md are valid, and its list of words is that of the code."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.frameworks import option_models
from clusterjobs.spec.layers import lists_to_add_to
from clusterjobs.yaml.document import dotted

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "admins.md").read_text(encoding="utf-8")
DEFAULTS = re.findall(r"```yaml\n# defaults.yaml\n(.*?)```", PAGE, re.DOTALL)
SPEC = "name: a\ncluster: p4d-a100\nframework: command\ncommand: ./run\nsetup: [echo own]\n"


@pytest.mark.parametrize("text", DEFAULTS)
def test_the_defaults_on_the_page_are_valid(
    text: str, clusterjobs: Callable[..., Any], folder: pathlib.Path, site_home: pathlib.Path
) -> None:
    (site_home / "clusterjobs" / "defaults.yaml").write_text(text)
    (folder / "exp.yaml").write_text(SPEC)
    assert clusterjobs("site").code == 0
    outcome = clusterjobs("plan", "exp.yaml")
    assert outcome.code == 0, outcome.err
    assert "module load cuda/12.4" in outcome.out


def test_the_page_names_every_list_that_can_be_added_to() -> None:
    sentence = PAGE.partition("The words exist for")[2].partition(".\n")[0]
    assert set(re.findall(r"`([\w.]+)`", sentence)) == set(
        map(dotted, lists_to_add_to(option_models()))
    )
