"""The pages of the frameworks: their specs render, and what they promise is what is written."""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Callable

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.gpt_neox.launch_config import ORIGINS, OURS
from clusterjobs.frameworks.megatron.command_line import DERIVED_FROM
from clusterjobs.frameworks.megatron_deepspeed.framework import _DERIVED_FROM
from clusterjobs.frameworks.megatron_lm import command_line
from clusterjobs.launchers import LAUNCHERS

PAGES = pathlib.Path(__file__).parents[2] / "docs" / "frameworks"
NAMES = sorted(FRAMEWORKS)


def text_of(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_spec_of_a_page_renders(
    name: str, clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    specs = re.findall(r"```yaml\n(name: .*?)```", text_of(name), re.DOTALL)
    assert len(specs) == 1
    (folder / "exp.yaml").write_text(specs[0])
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 0, outcome.err
    assert f"framework: {name}\n" in specs[0]


@pytest.mark.parametrize("name", ["mpi", "trainium"])
def test_the_spec_of_a_page_about_no_framework_renders(
    name: str, clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (spec,) = re.findall(r"```yaml\n(name: .*?)```", text_of(name), re.DOTALL)
    shutil.copytree(PAGES.parents[1] / "examples" / "clusters", folder / "clusters")
    (folder / "exp.yaml").write_text(spec)
    outcome = clusterjobs("render", "exp.yaml")
    assert outcome.code == 0, outcome.err
    assert "warning" not in outcome.err


@pytest.mark.parametrize(("page", "folder"), [("docs/index.md", ""), ("docs/spec.md", "")])
def test_every_page_and_launcher_is_in_the_lists(page: str, folder: str) -> None:
    text = (PAGES.parents[1] / page).read_text(encoding="utf-8")
    pages = {*NAMES, "mpi", "trainium"}
    assert [one for one in sorted(pages) if f"]({folder}frameworks/{one}.md)" not in text] == []
    if page == "docs/spec.md":
        (row,) = (line for line in text.splitlines() if line.startswith("| `launcher` |"))
        assert [one for one in LAUNCHERS if f"`{one}`" not in row] == []


def test_every_launcher_of_a_framework_is_on_its_page() -> None:
    missing = [
        (name, launcher)
        for name, one in FRAMEWORKS.items()
        for launcher in one.launchers
        if launcher not in text_of(name)
    ]
    assert missing == []


def test_every_key_of_the_launch_file_is_on_the_page() -> None:
    page = text_of("gpt-neox")
    assert [key for key in (*ORIGINS, *OURS) if f"`{key}" not in page] == []


@pytest.mark.parametrize(
    ("name", "own"),
    [("megatron-deepspeed", _DERIVED_FROM), ("megatron-lm", command_line.DERIVED_FROM)],
)
def test_every_flag_that_is_rendered_is_on_the_page(name: str, own: dict[str, object]) -> None:
    page = text_of(name).replace("-", "_")
    old = {"encoder_num_layers", "encoder_seq_length", "model_parallel_size", "batch_size"}
    old |= {"num_layers_per_virtual_pipeline_stage"}
    ours = {*DERIVED_FROM, *own} - old - {"deepspeed", "deepspeed_config"}
    assert [flag for flag in sorted(ours) if f"`__{flag}`" not in page] == []
