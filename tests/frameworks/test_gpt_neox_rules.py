"""GPT-NeoX's rules: each finds its mistake, at the line where it is written, and not another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import yaml
from plans import BASE
from pydantic import ValidationError

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import option_models
from clusterjobs.frameworks.gpt_neox import rules as checks
from clusterjobs.frameworks.gpt_neox.config import Config
from clusterjobs.frameworks.gpt_neox.rules import MODEL_RULES, TRAINING_RULES
from clusterjobs.frameworks.rules import Rule
from clusterjobs.sections.order import resolve
from clusterjobs.spec.load import load_spec

RIGHT = """\
num_layers: 24
hidden_size: 1024
num_attention_heads: 16
seq_length: 2048
max_position_embeddings: 2048
optimizer: {type: Adam, params: {lr: 0.0006}}
train_iters: 1000
zero_optimization: {stage: 1}
train_micro_batch_size_per_gpu: 4
"""


def found(more: str = "", without: str = "", **keys: Any) -> list[Problem]:
    """All problems of a spec with the file a.yml: RIGHT with more lines, without one key."""
    lines = [line for line in RIGHT.splitlines() if not without or not line.startswith(without)]
    text = "\n".join(lines) + "\n" + more
    spec = {**BASE, "framework": "gpt-neox", "script": "train.py", "configs": ["a.yml"], **keys}
    loaded = load_spec(json.dumps(spec), "exp.yaml", option_models())
    config = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text(encoding="utf-8")
    facts = cluster_facts(read_cluster(config, "p4d-a100.yaml", {})[0])
    try:
        return list(resolve(loaded, facts, {"a.yml": text}).warnings)
    except InputError as error:
        return list(error.problems)


def test_the_right_file_has_no_problem() -> None:
    assert found() == []


# More lines, the key that is left out, the key that is reported, what is said, whether it warns.
MISTAKES = [
    ("rotary_pct: 0.25", "pos_emb", "rotary_pct", "not read: the positions are not rotary", True),
    ("moe_top_k: 2", "", "moe_top_k", "the model has no experts", True),
    ("eval_interval: 10000000", "", "eval_interval", "longer than the training", True),
    ("lr_decay_style: Cosine", "lr_decay_style", "lr_decay_style", "would stay as it is", True),
    ("norm: RMSNorm", "norm", "norm", "compared exactly", True),
    ("train_epochs: 1e1", "train_iters", "train_epochs", "1e1 is text in YAML 1.1", False),
    ("min_lr: 6e-5", "", "min_lr", "6e-5 is text in YAML 1.1", False),
    (
        "optimizer: {type: Adam, params: {lr: 6e-4}}",
        "optimizer",
        "optimizer.params.lr",
        "6e-4 is text in YAML 1.1",
        False,
    ),
    ("bf16: {enabled: true}", "zero_opt", "bf16", "zero_optimization is missing", False),
    ("precision: bfloat16", "zero_opt", "precision", "zero_optimization is missing", False),
    ("zero_optimization: {x: 1}", "zero_opt", "zero_optimization", "stage is missing", False),
    (
        "zero_optimization: {stage: 2}\npipe_parallel_size: 1",
        "zero_opt",
        "pipe_parallel_size",
        "GPT-NeoX 2.0 makes a pipeline of one stage",
        True,
    ),
    ("precision: fp32\nbf16: {enabled: true}", "", "bf16", "the precision is fp32", False),
    ("bf16: {enabled: true}\nfp16: {enabled: true}", "", "bf16", "the precision is fp16", False),
    ("fp16: {loss_scale: 0}", "", "fp16", "enabled is missing", False),
    (
        "fp16: {enabled: true, type: bfloat16}",
        "",
        "fp16.type",
        "does not read the type, and trains in fp16",
        True,
    ),
    ("fp16: {enabled: true, fp16: true}", "", "fp16.fp16", "DeeperSpeed 0.16.5 takes it", True),
    ("precision: fp16", "", "precision", "deepy.py adds fp16.type", True),
    ("optimizer: {params: {lr: 0.1}}", "optimizer", "optimizer", "type is missing", False),
    ("optimizer: {type: Adam}", "optimizer", "optimizer", "params is missing", False),
    ("optimizer: {type: A, params: {}}", "optimizer", "optimizer", "it is then 0.001", True),
    ("", "optimizer", "configs", "optimizer is missing", True),
    ("lr: 0.0006", "", "lr", "overwrites it by optimizer.params.lr", True),
    ("clip_grad: 0.5", "", "clip_grad", "overwrites it by gradient_clipping", True),
    ("min_lr: 0.1", "", "min_lr", "0.1 is above lr 0.0006", False),
    ("warmup: 2000", "", "warmup", "2000 is a share of the training", True),
    ("train_epochs: 2", "", "train_epochs", "train_iters is given, too", False),
    ("", "train_iters", "configs", "train_iters is missing", True),
    ("", "hidden_size", "configs", "hidden_size missing in the configs", False),
    (
        "max_position_embeddings: 1024",
        "max_pos",
        "max_position_embeddings",
        "1024 positions, and sequences of 2048",
        False,
    ),
    ("num_kv_heads: 3", "", "num_kv_heads", "16 heads are not a multiple of 3", False),
    (
        "num_kv_heads: 2\nmodel_parallel_size: 4",
        "",
        "num_kv_heads",
        "not a multiple of model_parallel_size 4",
        False,
    ),
    (
        'attention_config: [[["flash"], 44]]',
        "",
        "attention_config",
        "describes 44 layers, and num_layers is 24",
        False,
    ),
    ("num_unique_layers: 7", "", "num_unique_layers", "not a multiple of 7", False),
    (
        "moe_num_experts: 8\nzero_optimization: {stage: 2}",
        "zero_opt",
        "moe_num_experts",
        "cannot be combined with ZeRO 2",
        False,
    ),
    ("fp16_lm_cross_entropy: true", "", "fp16_lm_cross_entropy", "the precision is fp32", False),
    ("global_num_gpus: 8", "", "global_num_gpus", "is set when the job runs", False),
    ("deepspeed: false", "", "deepspeed", "runs with DeepSpeed alone", False),
    ("train_data_paths: [/a]", "", "train_data_paths", "valid_data_paths", False),
    (
        "data_path: /a\ntrain_data_paths: [/a]\nvalid_data_paths: [/a]\ntest_data_paths: [/a]",
        "",
        "data_path",
        "train_data_paths is given, too",
        False,
    ),
    (
        "train_data_paths: [/a]\nvalid_data_paths: [/a]\ntest_data_paths: [/a]\n"
        "train_data_weights: [1.0, 2.0]",
        "",
        "train_data_weights",
        "2 weights for 1 path",
        False,
    ),
    ("num_layer: 24", "", "num_layer", "has no key num_layer", True),
    ("of_a_fork: 1", "", "of_a_fork", "of_a_fork is not in our table of GPT-NeoX", True),
    ("save_iters: [1]", "", "save_iters", "has no key save_iters: another version had it", True),
    ("log_interval: 10.5", "", "log_interval", "expects an integer", False),
    ("activation: gelo", "", "activation", "expects one of gelu", True),
    ("gpt_j_residual: 1", "", "gpt_j_residual", "expects true or false", False),
]


@pytest.mark.parametrize(("more", "without", "key", "what", "warning"), MISTAKES)
def test_a_mistake_in_a_file_is_reported_at_its_line(
    more: str, without: str, key: str, what: str, warning: bool
) -> None:
    problems = [one for one in found(more, without) if one.path == key]
    assert [(what in one.what, one.warning) for one in problems] == [(True, warning)], problems
    (problem,) = problems
    assert problem.where
    assert problem.where.file == ("exp.yaml" if key == "configs" else "a.yml")
    assert key == "configs" or key.partition(".")[0] in problem.where.source
    assert problem.hint


@pytest.mark.parametrize(
    ("text", "number"),
    [("1e3", "1000"), ("1E3", "1000"), ("2.5e3", "2500"), ("1e-3", "1.0e-3"), ("6.e4", "60000")],
)
def test_the_hint_is_a_number_that_yaml_1_1_reads(text: str, number: str) -> None:
    (problem,) = found(f"train_iters: {text}", "train_iters")
    assert problem.hint == f"write {number}"
    assert isinstance(yaml.safe_load(number), (int, float))


@pytest.mark.parametrize(
    "more",
    [
        "comment: 1e3",
        "seed:",
        "activation: GELU",
        "train_batch_size: auto\nautotuning: {enabled: true}",
        "max_position_embeddings: 4096",
        'attention_config: [[["flash", "global"], 12]]',
        'attention_config: [[["flash"], "all"]]',
        "min_lr: 0",
        "wandb: {note: 1e3x}",
        "precision: fp16\nfp16: {enabled: true, auto_cast: true}",
    ],
)
def test_what_gpt_neox_takes_is_not_reported(more: str) -> None:
    without = more.partition(":")[0] if more.partition(":")[0] in RIGHT else ""
    assert found(more, without) == []


def test_a_mistake_in_neox_is_reported_in_the_spec() -> None:
    (problem,) = found(neox={"train-epoch": 3})
    assert (problem.path, problem.warning) == ("neox.train-epoch", True)
    assert "did you mean train_epochs?" in problem.hint
    (problem,) = found(without="train_iters", neox={"train_iters": 1000.5})
    assert problem.path == "neox.train_iters"
    assert "expects an integer" in problem.what


def test_bf16_of_the_spec_needs_a_stage_and_has_it_from_zero() -> None:
    (problem,) = found(without="zero_opt", precision="bf16")
    assert (problem.path, "zero_optimization is missing" in problem.what) == ("precision", True)
    assert found(without="zero_opt", precision="bf16", zero={"stage": 1}) == []


def test_a_pinned_deeperspeed_takes_its_own_keys() -> None:
    text = "fp16: {enabled: true, fp16: true}"
    assert found(text, software={"requires": {"deepspeed": "0.16.5"}}, preflight=True) == []
    (problem,) = found(text, software={"requires": {"deepspeed": "0.19.8"}}, preflight=True)
    assert "requires: {deepspeed: 0.16.5}" in problem.hint


def test_deepspeed_refuses_the_keys_of_deeperspeed_and_takes_auto_cast(
    deepspeed_config: Callable[[dict[str, Any], int], Any],
) -> None:
    config: dict[str, Any] = {"train_batch_size": 8, "fp16": {"enabled": True, "auto_cast": True}}
    assert deepspeed_config(config, 8).float16_config.auto_cast
    for key in ({"fp16": True}, {"type": "fp16"}):
        with pytest.raises(ValidationError, match="Extra inputs"):
            deepspeed_config({**config, "fp16": {"enabled": True, **key}}, 8)


def test_accumulation_is_one_where_the_files_do_not_say_it() -> None:
    (problem,) = found("train_batch_size: 64")
    assert "1 contradicts micro and global, which make it 2" in problem.what
    assert problem.where
    assert problem.where.source.startswith("train_batch_size")
    assert found("train_batch_size: 64\ngradient_accumulation_steps: 2") == []
    assert found("train_batch_size: 32") == []


def test_every_rule_finds_a_mistake_of_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set()

    def findings_of(rules: Iterable[Rule[Config]], config: Config) -> tuple[()]:
        names.update(one.mistake for one in rules if list(one.find(config)))
        return ()

    monkeypatch.setattr(checks, "findings_of", findings_of)
    for more, without, *_ in MISTAKES:
        found(more, without)
    assert names == {one.mistake for one in (*TRAINING_RULES, *MODEL_RULES)}
