"""docs/steps.md is true: its table has the keys of a step, and its specs are rendered."""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Callable

import pytest

from clusterjobs.launchers import LAUNCHERS
from clusterjobs.spec.keys.steps import Step

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "steps.md").read_text(encoding="utf-8")
SPECS = {
    text.split("\n", 1)[0].removeprefix("name: "): text
    for text in re.findall(r"```yaml\n(name: .*?)```", PAGE, re.DOTALL)
}


def test_the_table_has_the_keys_of_a_step() -> None:
    table = PAGE.partition("| key |")[2].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| `(\w+)`", table) == list(Step.model_fields)


def test_the_table_of_launchers_says_which_can_run_steps() -> None:
    only_the_training = {name for name, one in LAUNCHERS.items() if not one.runs_commands}
    row = next(line for line in PAGE.splitlines() if "they start only the training" in line)
    assert set(re.findall(r"`([\w-]+)`", row.split("|")[1])) == only_the_training


# A part of the script that each spec of the page must give.
LINES = {
    "checked": "step='NCCL test' step_seconds=600 min_bus_bandwidth=300 reports=1",
    "in-a-row": "step=pretraining once=1",
    "alerting": 'run_at_the_end alert 60 ./alert alerting "$SLURM_JOB_ID"',
}


@pytest.mark.parametrize("name", SPECS)
def test_each_spec_of_the_page_is_rendered(
    name: str, clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(SPECS[name])
    done = clusterjobs("render", "exp.yaml", "-o", "out")
    assert done.code == 0, done.err
    assert "warning" not in done.err
    assert LINES[name] in (folder / "out" / "job.sh").read_text()
    subprocess.run(["bash", "-n", folder / "out" / "job.sh"], check=True)


def test_all_specs_are_found() -> None:
    assert set(SPECS) == set(LINES)
