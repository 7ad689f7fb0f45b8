"""The key `training` as the argument of the program that says how long it trains."""

from __future__ import annotations

from typing import Any

import pytest
from plans import plan_of, problems_of

from clusterjobs.text import show

MODEL = {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 1024, "vocab": 50304}
MEGATRON = {"lr": "1e-4", "data-path": "/fsx/a", "vocab-file": "/fsx/v", "merge-file": "/fsx/m"}
SPECS: dict[str, dict[str, Any]] = {
    "megatron-deepspeed": {"args": MEGATRON, "script": "pretrain_gpt.py", "model": MODEL},
    "megatron-lm": {
        "args": {"lr": "1e-4", "data-path": "/fsx/a", "tokenizer-type": "NullTokenizer"}
        | {"vocab-size": 50303},
        "script": "pretrain_gpt.py",
        "model": MODEL,
    },
    "huggingface": {"args": {"learning_rate": "1e-4"}, "model": MODEL},
}
FLAGS = {"huggingface": "--max_steps", "fairseq": "--max-update"}


NEOX = {
    "script": "train.py",
    "configs": ["a.yml"],
    "model": {"layers": 24, "hidden": 1024, "heads": 16, "sequence": 1024},
}


def words(framework: str, **keys: Any) -> list[str]:
    spec = {**SPECS[framework], **keys}
    plan = plan_of(framework=framework, precision="bf16", batch={"micro": 8, "global": 64}, **spec)
    return [show(word) for word in plan.launch.words]


@pytest.mark.parametrize("framework", SPECS)
@pytest.mark.parametrize(
    ("training", "steps"),
    [({"tokens": 1e9}, 15259), ({"samples": 6401}, 101), ({"steps": 7}, 7)],
)
def test_the_length_is_passed_on(framework: str, training: dict[str, float], steps: int) -> None:
    found = words(framework, training=training)
    assert found[found.index(FLAGS.get(framework, "--train-iters")) + 1] == str(steps)


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        *(("megatron-lm", "train-samples"), ("megatron-deepspeed", "train-iters")),
        *(("huggingface", "max_steps"), ("huggingface", "num_train_epochs")),
    ],
)
def test_a_length_in_args_stays(framework: str, name: str) -> None:
    args = {**SPECS[framework]["args"], name: 5}
    found = words(framework, args=args, training={"tokens": 1e9})
    assert found.count(f"--{name}") == 1
    assert "15259" not in found


def test_a_file_of_arguments_may_have_the_length() -> None:
    args = {"config": "sft.yaml"}
    assert "--max_steps" not in words("huggingface", args=args, training={"samples": 1e6})


def test_nothing_is_passed_on_where_a_sample_has_an_unknown_length() -> None:
    assert "--max_steps" not in words("huggingface", model=None, training={"tokens": 1e9})


@pytest.mark.parametrize(
    ("args", "keys", "said"),
    [
        (
            {"num_train_epochs": 4},
            {"training": {"samples": 1e6}},
            "trains for num_train_epochs 4: the same as training if its data has 250,000 samples",
        ),
        (
            ["--num_train_epochs=2"],
            {"training": {"steps": 100}, "batch": {"micro": 8, "global": 64}},
            "trains for num_train_epochs 2: the same as training if its data has 3,200 samples",
        ),
        ({"max_steps": 9}, {"training": {"steps": 100}}, "is 100 steps, but args.max_steps makes"),
        ({"max_steps": 9, "num_train_epochs": 2}, {"training": {"steps": 100}}, "makes it 9 steps"),
        ({"max_steps": -1}, {"training": {"steps": 100}}, "trains for max_steps -1"),
        ({}, {"training": {"tokens": 1e9}}, "gets no max_steps from it, since batch is unknown"),
        (
            {},
            {"training": {"tokens": 1e9}, "batch": {"micro": 8}, "model": None},
            "gets no max_steps from it, since model.sequence is unknown",
        ),
        ({"max_steps": 100}, {"training": {"steps": 100}}, ""),
        ({"max_steps": -1, "num_train_epochs": 2}, {"training": {"samples": 64}}, "has 32 samples"),
        ({"config": "sft.yaml"}, {"training": {"samples": 64}}, ""),
    ],
)
def test_a_length_that_the_program_does_not_follow_is_said(
    args: Any, keys: dict[str, Any], said: str
) -> None:
    found = plan_of(framework="huggingface", **{"args": args, "model": MODEL, **keys})
    about = [one.what for one in found.warnings if one.path == "training"]
    assert len(about) == bool(said), about
    assert not said or said in about[0]


def test_megatron_without_any_length_is_told_of_it() -> None:
    spec = {**SPECS["megatron-lm"], "framework": "megatron-lm", "batch": {"micro": 8}}
    assert any("train-iters is missing" in one.what for one in problems_of(**spec))
    assert not any("train-iters" in one.what for one in problems_of(**spec, training={"steps": 9}))


def test_arguments_that_are_a_list_get_the_length_too() -> None:
    pairs = SPECS["megatron-lm"]["args"].items()
    args = [word for name, value in pairs for word in (f"--{name}", str(value))]
    assert words("megatron-lm", args=args, training={"steps": 7})[-2:] == ["--train-iters", "7"]


def test_gpt_neox_with_a_length_is_not_told_that_it_is_missing() -> None:
    spec = {**NEOX, "framework": "gpt-neox", "batch": {"micro": 8}, "texts": {"a.yml": "seed: 1"}}
    assert any("train_iters is missing" in one.what for one in plan_of(**spec).warnings)
    found = plan_of(**spec, training={"steps": 9}).warnings
    assert not any("train_iters" in one.what for one in found)
