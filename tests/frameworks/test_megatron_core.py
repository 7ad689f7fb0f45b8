"""Megatron-LM's command lines, held against the package megatron-core."""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from spec_rows import Row, plan_of_row, rows

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Parallelism, Samples, Shape, Task
from clusterjobs.spec.experiment import Experiment
from clusterjobs.yaml import document

PROGRAM = pathlib.Path(__file__).with_name("megatron_core_program.py")
IS_INSTALLED = any(one.name == "megatron-core" for one in importlib.metadata.distributions())
pytestmark = pytest.mark.skipif(not IS_INSTALLED, reason="needs the package megatron-core")


def of_megatron(kind: str) -> list[Row]:
    return [row for row in rows(kind) if row.spec["framework"] == "megatron-lm"]


def answers(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What megatron-core says, all in one process: importing it takes seconds."""
    asked = json.dumps(lines)
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], input=asked, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def line_of_plan(row: Row) -> dict[str, Any]:
    plan = plan_of_row(row)
    words = [word for word in plan.launch.words if "\0" not in word]
    return {
        "words": words[words.index("pretrain_gpt.py") + 1 :],
        "world": plan.placement.shape.world_size,
    }


def line_in_spite_of_us(row: Row) -> dict[str, Any]:
    """The command line that a wrong spec would have, if nothing were checked."""
    wanted = {key: value for key, value in row.spec.items() if key != "cluster"}
    spec = Experiment.model_validate({**wanted, "cluster": "c"})
    shape = Shape(spec.nodes, 8, 8)
    own, batch = spec.parallel, spec.batch
    data = max(1, shape.world_size // (own.tensor * own.pipeline * own.context))
    parallel = Parallelism(
        own.tensor,
        own.pipeline,
        data,
        own.context,
        own.virtual_pipeline,
        own.expert,
        own.sequence,
    )
    assert batch
    assert batch.micro
    assert batch.global_
    samples = Samples(batch.micro, batch.global_ // (batch.micro * data), batch.global_)
    diagnostics = Diagnostics(document.load(json.dumps(row.spec), "exp.yaml"))
    task = Task(spec, None, shape, parallel, samples)
    program = FRAMEWORKS["megatron-lm"].program(task, diagnostics, Provenance())
    assert program
    return {"words": program.command[1:], "world": shape.world_size}


def test_megatron_core_makes_the_planned_groups_of_a_right_spec() -> None:
    right = of_megatron("right")
    assert len(right) >= 25
    for row, answer in zip(right, answers([line_of_plan(row) for row in right]), strict=True):
        plan = plan_of_row(row)
        ranks = plan.parallelism
        sizes = [ranks.tensor, ranks.pipeline, ranks.context, ranks.data, ranks.expert]
        assert answer.get("sizes") == sizes, (row.id, answer)
        assert plan.batch
        if "ramp" not in row.id:
            assert answer["steps"] == plan.batch.accumulation, row.id


def test_megatron_core_refuses_what_is_said_to_be_refused_by_it() -> None:
    wrong = [row for row in of_megatron("wrong") if row.expected.get("core") == "refuses"]
    assert len(wrong) >= 15
    found = answers([line_in_spite_of_us(row) for row in wrong])
    taken = [row.id for row, answer in zip(wrong, found, strict=True) if "error" not in answer]
    assert taken == []
