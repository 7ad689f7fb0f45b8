"""A swept array trains with DeepSpeed: each task has its own values, checkpoints and losses."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

pytest.importorskip("deepspeed", reason="needs the extra 'train'")
pytestmark = [pytest.mark.lab, pytest.mark.slow]

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_two_points_of_the_example_sweep_train(jobs) -> None:
    example = yaml.safe_load((EXAMPLES / "tiny-gpt-sweep.yaml").read_text())
    base = yaml.safe_load((EXAMPLES / "tiny-gpt.yaml").read_text())
    base["args"].update({"layers": 1, "hidden": 64, "steps": 3, "save-every": 2, "log-every": 1})
    lrs, (micro, *_) = example["sweep"]["grid"].values()
    sweep = {**example["sweep"], "grid": {"args.lr": lrs[:2], "batch.micro": [micro]}}
    del example["extends"]
    software = {"software": jobs.spec("", framework="deepspeed")["software"]}
    spec = {**base, **example, "workdir": str(EXAMPLES / "tiny_gpt"), "sweep": sweep, **software}
    array = jobs.submit(jobs.render(spec))
    fsx = jobs.lab.folder.shared("/fsx")
    losses = []
    for index in (0, 1):
        end = jobs.lab.wait(f"{array}_{index}", 500)
        (log,) = (fsx / "logs").glob(f"*/*/{index:04}-*/*/job.log")
        text = log.read_text(errors="replace")
        assert end.exit_code == 0, text
        found = re.findall(r"step (\d)/3 loss ([0-9.]+)", text)
        assert [step for step, _ in found] == ["1", "2", "3"], text
        losses.append([loss for _, loss in found])
    assert losses[0] != losses[1]  # another learning rate
    folders = [one for one in (fsx / "checkpoints").glob("*/*") if (one / "latest").exists()]
    assert len(folders) == 2, folders
