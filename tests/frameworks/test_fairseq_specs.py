"""fairseq's own parsers read the specs of specs/fairseq.yaml as they are meant, right and wrong."""

from __future__ import annotations

import json
import pathlib

import pytest
from real_parsers import Parse
from spec_rows import Row, fairseq_command, plan_of_row, rows

from clusterjobs.frameworks.fairseq import framework

pytestmark = pytest.mark.frameworks

RIGHT = [
    row for row in rows("right") if row.spec["framework"] == "fairseq" and "own" not in row.expected
]
WRONG = [
    row for row in rows("wrong") if row.spec["framework"] == "fairseq" and "fairseq" in row.expected
]
PRECISIONS = {None: None, "fp32": (False, False), "fp16": (True, False), "bf16": (False, True)}


def command_of(row: Row, folder: pathlib.Path) -> list[str]:
    """The command line, with the row's config file in `folder`."""
    for name, text in row.files.items():
        (folder / name).write_text(text)
    return [
        str(folder) if word == "/fsx/configs" else word
        for word in fairseq_command(plan_of_row(row))
    ]


def test_right_specs_are_read_with_equal_numbers(
    fairseq_parses: Parse, tmp_path: pathlib.Path
) -> None:
    assert len(RIGHT) >= 20
    answers = fairseq_parses(command_of(row, tmp_path) for row in RIGHT)
    for row, answer in zip(RIGHT, answers, strict=True):
        assert "error" not in answer, (row.id, answer)
        world = answer["distributed_training.distributed_world_size"]
        micro, steps = answer["dataset.batch_size"], answer["optimization.update_freq"]
        found = [world, 1, 1, world, micro or 0, steps[0], (micro or 0) * steps[0] * world]
        assert found == row.expected["numbers"], row.id
        wanted = PRECISIONS[row.spec.get("precision")]
        found_precision = (answer["common.fp16"], answer["common.bf16"])
        assert wanted in (None, found_precision), row.id
        asked_for_tokens = "max-tokens" in json.dumps(row.spec)
        assert (answer["dataset.max_tokens"] is None) is not asked_for_tokens, row.id
        if row.spec["fairseq"].get("arch"):
            assert answer["model._name"] == row.spec["fairseq"]["arch"], row.id
        if model := row.spec.get("model"):
            half = "decoder" if "lm" in row.spec["fairseq"]["arch"] else "encoder"
            assert answer[f"model.{half}_layers"] == model["layers"], row.id
            assert answer["task.tokens_per_sample"] == model["sequence"], row.id


def test_wrong_specs_are_wrong(
    fairseq_parses: Parse, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rendered without our checks: fairseq refuses them, or takes what is only warned of."""
    for name in ("check_spec", "check_values", "refuse_settings"):
        monkeypatch.setattr(framework, name, lambda *_: None)
    assert len(WRONG) >= 20
    answers = fairseq_parses(command_of(row, tmp_path) for row in WRONG)
    for row, answer in zip(WRONG, answers, strict=True):
        if row.expected["fairseq"] == "refuses":
            assert "error" in answer, (row.id, answer)
        else:
            assert "error" not in answer, (row.id, answer)
            assert answer["common.tpu"] is (row.expected["fairseq"] == "tpu"), row.id
