"""docs/pipelines.md is true: its specs are a pipeline."""

from __future__ import annotations

import pathlib
import re
import typing
from collections.abc import Callable

import pytest

from clusterjobs.spec.keys.needs import Need, On

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "pipelines.md").read_text(encoding="utf-8")


@pytest.fixture
def specs(folder: pathlib.Path) -> None:
    for block in re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (folder / block[0]).write_text(block[1])


@pytest.mark.usefixtures("specs")
def test_each_evaluation_reads_the_checkpoints_of_its_training(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    for spec in ("train", "evaluate"):
        assert clusterjobs("render", f"{spec}.yaml", "-o", spec).code == 0
    script = (folder / "evaluate" / "job.sh").read_text()
    path = '"/fsx/checkpoints/train/$point_label"'
    assert f"--from {path}" in script
    assert path in (folder / "train" / "job.sh").read_text()


def test_all_keys_are_on_the_page() -> None:
    keys, kinds = (
        re.findall(r"(?m)^\| `(\w+)` \|", part) for part in PAGE.split("\n| `on` | the job starts")
    )
    assert keys == ["spec", "job", "on", "as"]
    assert kinds == [*typing.get_args(On)]
    assert {*keys} == {field.alias or name for name, field in Need.model_fields.items()}
