"""What `plan` and the summary of a render say of a job."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

SPEC = {
    "name": "gpt",
    "cluster": "p4d-a100",
    "nodes": 2,
    "framework": "deepspeed",
    "script": "train.py",
    "batch": {"micro": 4, "global": 128},
}


def planned(clusterjobs: Callable[..., Any], *arguments: str, **keys: object) -> str:
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump({**SPEC, **keys}))
    outcome = clusterjobs("plan", "exp.yaml", *arguments)
    assert outcome.code == 0, outcome.err
    return str(outcome.out)


def test_the_plan_for_scripts_keeps_its_names(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    data = json.loads(planned(clusterjobs, "--json"))
    sections = data.pop("sections")
    assert data == {
        "name": "gpt",
        "cluster": "p4d-a100",
        "partition": "train",
        "instance_type": "p4d.24xlarge",
        "framework": "deepspeed",
        "launcher": "srun",
        "nodes": 2,
        "ranks_per_node": 8,
        "gpus_per_node": 8,
        "world_size": 16,
        "data_parallel": 16,
        "batch": {"micro": 4, "accumulation": 2, "global": 128},
    }
    assert list(sections) == ["derived", "sbatch", "srun", "environment", "command"]
    assert [row["value"] for row in sections["command"]][:2] == ["python3", "train.py"]
    names = [row["name"] for row in sections["derived"]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("written", "meaning"),
    [
        ("90", "1 hour 30 minutes"),
        ("24:00", "24 minutes"),
        ("00:30", "30 seconds"),
        ("01:00:00", "1 hour"),
        ("23:59:59", "23 hours 59 minutes 59 seconds"),
        ("1-0", "1 day"),
        ("2-03:04:05", "2 days 3 hours 4 minutes 5 seconds"),
    ],
)
def test_a_time_limit_is_told_with_what_it_means(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, written: str, meaning: str
) -> None:
    assert f"{written} ({meaning})\n" in planned(clusterjobs, time_limit=written)


def test_a_limit_that_is_none_has_no_meaning_beside_it(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    for written in ("UNLIMITED", "INFINITE"):
        lines = planned(clusterjobs, time_limit=written).splitlines()
        assert [line.split()[2:] for line in lines if line.startswith("time limit")] == [[written]]
    assert "the partition's own" in planned(clusterjobs)
