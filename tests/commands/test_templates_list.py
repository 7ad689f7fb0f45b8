"""clusterjobs templates list and show."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import pytest

from clusterjobs import resources
from clusterjobs.script.site import INSERTION_POINTS


@pytest.fixture
def site(folder: pathlib.Path) -> pathlib.Path:
    templates = folder / "site" / "templates"
    (templates / "blocks").mkdir(parents=True)
    (templates / "before_launch.sh").write_text("nvidia-smi -L\n")
    override = '  date\n{% include "packaged/blocks/launch.sh.j2" %}\n'
    (templates / "blocks" / "launch.sh.j2").write_text(override)
    return folder


def test_list_shows_all_templates_and_where_they_are_from(
    clusterjobs: Callable[..., object], site: pathlib.Path
) -> None:
    outcome = clusterjobs("templates", "list", "--site", "site")
    assert outcome.code == 0
    rows = dict(re.findall(r"(?m)^(\S+)  +(\S+)  ", outcome.out))
    assert rows["before_launch.sh"] == "site/templates/before_launch.sh"
    assert rows["after_launch.sh"] == "-"
    assert rows["blocks/launch.sh.j2"] == "site/templates/blocks/launch.sh.j2"
    assert rows["blocks/job.sh.j2"] == "packaged"
    points = {f"{point}.sh" for point in INSERTION_POINTS}
    assert points | set(resources.template_texts()) <= set(rows)
    assert re.search(r"(?m)^placement\.nodes  +number  +2$", outcome.out)
    assert re.search(r"(?m)^restarts  +record, or nothing$", outcome.out)
    assert re.search(r"(?m)^job\.title  +comment  +accelerate: 2 nodes", outcome.out)


def test_list_as_json_has_the_same(clusterjobs: Callable[..., object], site: pathlib.Path) -> None:
    data = json.loads(clusterjobs("templates", "list", "--site", "site", "--json").out)
    (launch,) = [one for one in data["templates"] if one["name"] == "blocks/launch.sh.j2"]
    assert launch["origins"] == ["site/templates/blocks/launch.sh.j2"]
    assert launch["sections"] == ["job", "checkpoints", "launch"]
    assert {"name": "placement.nodes", "kind": "number", "example": "2"} in data["variables"]


def test_show_prints_the_text_that_is_used_and_its_variables(
    clusterjobs: Callable[..., object], site: pathlib.Path
) -> None:
    outcome = clusterjobs("templates", "show", "launch", "--site", "site")
    assert outcome.out.startswith("blocks/launch.sh.j2: What the ranks run;")
    assert "\nfrom: site/templates/blocks/launch.sh.j2\n" in outcome.out
    assert "\nlaunch.command " in outcome.out
    assert outcome.out.endswith('\n  date\n{% include "packaged/blocks/launch.sh.j2" %}\n')


@pytest.mark.parametrize("name", ["before_launch", "before_launch.sh"])
def test_show_prints_the_lines_of_an_insertion_point(
    name: str, clusterjobs: Callable[..., object], site: pathlib.Path
) -> None:
    outcome = clusterjobs("templates", "show", name, "--site", "site")
    assert outcome.out == (
        "before_launch.sh: right before the ranks are started, on the first node\n"
        "from: site/templates/before_launch.sh\n\n"
        "# From site/templates/before_launch.sh:\nnvidia-smi -L\n"
    )


def test_a_name_that_nothing_has_is_answered_with_the_nearest(
    clusterjobs: Callable[..., object], site: pathlib.Path
) -> None:
    outcome = clusterjobs("templates", "show", "plcement", "--site", "site")
    assert (outcome.code, outcome.err) == (
        1,
        "there is no template and no insertion point plcement\n   hint: did you mean placement?\n",
    )
