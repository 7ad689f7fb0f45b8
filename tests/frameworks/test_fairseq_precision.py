"""fairseq trains in the precision of the spec, whatever its own config file says."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from plans import plan_of, problems_of
from real_parsers import Parse

HYDRA, TRAIN = "fairseq-hydra-train", "fairseq-train"


def keys(cli: str, **more: Any) -> dict[str, Any]:
    fairseq = {"cli": cli, "data": "/fsx/d", "task": "masked_lm", "criterion": "masked_lm"}
    fairseq |= {"arch": "roberta_base"}
    spec = {"framework": "fairseq", "script": None, "batch": {"micro": 8}, "fairseq": fairseq}
    rate = {"optimization.lr": [1e-4]} if cli == HYDRA else {"lr": 1e-4}
    return {**spec, **more, "args": {"optimizer": "adam", **rate, **more.get("args", {})}}


def what_is_said(**more: Any) -> list[str]:
    return [f"{one.path}: {one.what} {one.hint}" for one in problems_of(**more) if not one.warning]


def test_fairseq_train_is_refused_with_bf16_and_the_hint_names_the_other_program() -> None:
    (problem,) = problems_of(**keys(TRAIN, precision="bf16"))
    assert (problem.path, problem.warning) == ("precision", False)
    assert "--bf16 selects a TPU" in problem.what
    assert "cli: fairseq-hydra-train" in problem.hint


@pytest.mark.parametrize("argument", ["bf16", "memory-efficient-bf16"])
def test_bf16_in_the_arguments_is_refused_likewise(argument: str) -> None:
    (said,) = what_is_said(**keys(TRAIN, args={argument: True}))
    assert f"args.{argument}: {argument} selects a TPU" in said


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_hydra_gets_every_switch_of_precision(precision: str) -> None:
    words = plan_of(**keys(HYDRA, precision=precision)).launch.words
    found = dict(word.split("=") for word in words if word.startswith("common."))
    names = ("fp16", "bf16", "amp")
    assert found == {f"common.{name}": str(name == precision).lower() for name in names}


def test_a_config_keeps_its_precision_where_the_spec_has_none() -> None:
    words = plan_of(**keys(HYDRA)).launch.words
    assert not any(word.startswith("common.") for word in words)


@pytest.mark.parametrize(
    ("cli", "precision", "args"),
    [
        (HYDRA, "bf16", {"common.fp16": True}),
        (HYDRA, "fp16", {"common.bf16": True}),
        (HYDRA, "fp32", {"common.amp": True}),
        (TRAIN, "fp16", {"bf16": True}),
        (TRAIN, "fp32", {"fp16": True}),
        (TRAIN, "fp32", {"memory-efficient-fp16": True}),
    ],
)
def test_another_precision_in_the_arguments_is_refused(
    cli: str, precision: str, args: dict[str, Any]
) -> None:
    (said,) = what_is_said(**keys(cli, precision=precision, args=args))
    assert "precision (exp.yaml:1)" in said


def test_memory_efficient_fp16_is_a_kind_of_fp16() -> None:
    args = {"memory-efficient-fp16": True}
    assert what_is_said(**keys(TRAIN, precision="fp16", args=args)) == []


CONFIG = """# @package _group_
common: {fp16: true, amp: true}
task: {_name: masked_lm, data: "???"}
criterion: masked_lm
model: {_name: roberta}
"""


@pytest.mark.frameworks
def test_fairseq_itself_takes_bf16_for_a_tpu_in_one_program_and_not_in_the_other(
    fairseq_parses: Parse, tmp_path: pathlib.Path
) -> None:
    """The config says fp16, as fairseq's own do; the arguments that we write win."""
    (tmp_path / "base.yaml").write_text(CONFIG)
    config = {"config_dir": str(tmp_path), "config_name": "base"}
    spec = {**keys(HYDRA, precision="bf16"), "args": {"optimization.lr": [1e-4]}}
    plan = plan_of(**{**spec, "fairseq": {**spec["fairseq"], **config}})
    plain = ["fairseq-train", "/d", "--arch", "roberta_base", "--task", "masked_lm", "--bf16"]
    hydra = [word for word in plan.launch.words if isinstance(word, str)]
    found, by_train = fairseq_parses([hydra, plain])
    switches = ("fp16", "bf16", "amp", "tpu")
    assert "error" not in found, found
    assert [found[f"common.{name}"] for name in switches] == [False, True, False, False]
    assert (found["task._name"], found["model._name"]) == ("masked_lm", "roberta_base")
    assert by_train["common.tpu"] is True
