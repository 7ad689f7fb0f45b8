"""What is trained: adapters, quantized weights, vision, sharding; what nobody says is unknown."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

MODEL = (
    "layers: 80, hidden: 8192, heads: 64, sequence: 4096, vocab: 128256, kv_heads: 8, ffn: 28672, "
    "glu: true"
)
TRAINER = """\
name: a
cluster: p5-h100
nodes: 1
framework: huggingface
workdir: /fsx/trl
script: sft.py
batch: {micro: 1, global: 16}
precision: bf16
"""
SCRIPT = """\
name: a
cluster: p5-h100
nodes: 2
framework: torchrun
workdir: /fsx/own
script: train.py
batch: {micro: 1, global: 64}
"""


def foresight(clusterjobs: Callable[..., Any], folder: pathlib.Path, spec: str) -> Any:
    (folder / "exp.yaml").write_text(spec)
    done = clusterjobs("plan", "exp.yaml", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["foresight"]


def block(clusterjobs: Callable[..., Any], folder: pathlib.Path, spec: str) -> str:
    (folder / "exp.yaml").write_text(spec)
    done = clusterjobs("plan", "exp.yaml")
    assert done.code == 0, done.err
    return str(done.out.partition("\nforesight\n")[2])


@pytest.mark.parametrize(
    ("keys", "arguments", "least", "most"),
    [
        ("", "", 400, 1000),  # all parameters: 18 bytes of each
        ("trainable: lora, rank: 16", "", 28, 45),  # 2 bytes of each, over 8 GPUs, and activations
        ("", "use_peft: true, lora_r: 16", 28, 45),
        ("", "finetuning_type: lora, lora_rank: 16", 28, 45),
        ("trainable: lora, quantized: 4", "", 17, 35),
        ("", "use_peft: true, load_in_4bit: true", 17, 35),
    ],
)
def test_of_an_adapter_only_its_own_parameters_have_states(
    clusterjobs: Callable[..., Any],
    folder: pathlib.Path,
    keys: str,
    arguments: str,
    least: float,
    most: float,
) -> None:
    model = f"model: {{{MODEL}{', ' if keys else ''}{keys}}}\n"
    text = (
        f"{TRAINER}fsdp: {{activation_checkpointing: true}}\n{model}args: {{a: 1, {arguments}}}\n"
    )
    found = foresight(clusterjobs, folder, text)
    assert least < found["memory_gib"]["mid"] < most
    assert found["verdict"] == ("fits" if most < 100 else "does_not_fit")


def test_quantized_weights_fit_one_gpu(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    """QLoRA of 65B was trained on a GPU of 48 GB (arXiv 2305.14314), its optimizer on the host."""
    text = TRAINER.replace("global: 16", "global: 1").replace(
        "nodes: 1", "nodes: 1\ngpus_per_node: 1"
    )
    model = MODEL.replace("sequence: 4096, vocab: 128256", "sequence: 512, vocab: 32000")
    keys = "trainable: lora, rank: 8, quantized: 4"
    text += f"model: {{{model}, {keys}}}\nargs: {{gradient_checkpointing: true}}\n"
    assert foresight(clusterjobs, folder, text)["memory_gib"]["mid"] < 48


def test_a_checkpoint_of_an_adapter_is_small(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    model = f"model: {{{MODEL}, trainable: lora, rank: 16}}\n"
    found = foresight(clusterjobs, folder, f"{TRAINER}zero: {{stage: 3}}\n{model}")
    assert found["checkpoint"]["gib"] < 5


def test_strict_refuses_no_guess(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    """Nothing says that all parameters are trained, so that it may be an adapter."""
    (folder / "exp.yaml").write_text(f"{TRAINER}model: {{{MODEL}}}\n")
    done = clusterjobs("render", "exp.yaml", "--strict")
    assert "does not fit" in done.err
    assert "warning" in done.err
    (folder / "exp.yaml").write_text(
        f"{TRAINER}model: {{{MODEL}, kind: decoder, trainable: all}}\n"
    )
    done = clusterjobs("render", "exp.yaml", "--strict")
    assert done.code == 1


def test_what_is_assumed_is_said(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    text = f"{SCRIPT}model: {{{MODEL}, sharding: fsdp}}\n"
    assert "assumed: a decoder, all parameters are trained" in block(clusterjobs, folder, text)
    found = foresight(clusterjobs, folder, text)
    assert found["assumed"] == ["a decoder", "all parameters are trained", "in bf16"]
    assert not found["validated"]
    said = text.replace("sharding", "kind: decoder, trainable: all, sharding") + "precision: bf16\n"
    assert foresight(clusterjobs, folder, said)["assumed"] == []


def test_how_a_script_shards_the_model_is_not_guessed(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    text = f"{SCRIPT}model: {{{MODEL}}}\n"
    assert "unknown: how the script shards the model is unknown (add sharding to model" in block(
        clusterjobs, folder, text
    )
    said = foresight(clusterjobs, folder, text.replace("glu: true", "glu: true, sharding: fsdp"))
    for argument in ("use_fsdp: true", "strategy: fsdp", "sharding_strategy: FULL_SHARD"):
        assert foresight(clusterjobs, folder, f"{text}args: {{{argument}}}\n") == said
    zero = foresight(clusterjobs, folder, f"{text}args: {{zero_stage: 3}}\n")
    assert zero == foresight(
        clusterjobs, folder, text.replace("glu: true", "glu: true, sharding: zero3")
    )


def test_a_vision_transformer_needs_no_vocabulary(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    """ViT-H/14 has 632 million parameters (arXiv 2010.11929)."""
    sizes = "layers: 32, hidden: 1280, heads: 16, sequence: 257"
    text = f"{SCRIPT}model: {{{sizes}, kind: vision, sharding: ddp}}\n"
    assert foresight(clusterjobs, folder, text)["parameters"] == pytest.approx(632e6, rel=0.01)
    assert "no published measurement trained a vision transformer" in block(
        clusterjobs, folder, text
    )


def test_nothing_is_predicted_for_diffusion(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    text = f"{SCRIPT}model: {{{MODEL}, kind: diffusion, sharding: ddp}}\n"
    assert "unknown: nothing is predicted for models of kind diffusion" in block(
        clusterjobs, folder, text
    )


def test_no_mfu_is_above_100_percent(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    """With long sequences the causal half of attention counts once; the range ends at 100 %."""
    model = MODEL.replace("sequence: 4096", "sequence: 131072").replace("layers: 80", "layers: 4")
    text = f"{SCRIPT}model: {{{model}, sharding: fsdp}}\n"
    found = foresight(clusterjobs, folder, text)
    assert found["mfu_counts_causal_half"]
    assert found["mfu"]["high"] <= 1
    assert "attention counted once for its causal half" in block(clusterjobs, folder, text)
    short = foresight(clusterjobs, folder, text.replace("131072", "2048"))
    assert not short["mfu_counts_causal_half"]


@pytest.mark.parametrize("model", ["GH200", "H800", "A800", "H20", "MI300X", "A6000"])
def test_these_gpus_have_numbers(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, model: str
) -> None:
    memory = {"GH200": 96, "H20": 96, "MI300X": 192, "A6000": 48}.get(model, 80)
    (folder / "mine.yaml").write_text(
        "kind: slurm\nnode_types: {a: {cpus: 64, memory_mib: 480000, gpus: 8, "
        f"gpu_model: {model}, gpu_memory: {memory}, network_gbps: 400}}}}\n"
        "partitions: {g: {nodes: {a: 100}}}\n"
    )
    text = f"{SCRIPT}model: {{{MODEL.replace('80', '2')}, sharding: fsdp}}\n"
    found = foresight(clusterjobs, folder, text.replace("p5-h100", "./mine.yaml"))
    assert found["step_seconds"]["mid"] > 0
    assert found["doubts"]


@pytest.mark.parametrize(
    ("arguments", "unread"),
    [
        ("lora_enable: true, bits: 4", "lora_enable, bits"),
        ("tuner_type: lora, quant_bits: 4", "tuner_type, quant_bits"),
        ("lora_target_modules: all-linear, lora_alpha: 32", "lora_target_modules, lora_alpha"),
        ("finetuning_type: freeze", "finetuning_type"),
        ("freeze_backbone: true", "freeze_backbone"),
        ("ref_model: base, beta: 0.1", "ref_model"),
        ("teacher_model_name_or_path: big", "teacher_model_name_or_path"),
        ("model_name_or_path: base", ""),
        ("optim: galore_adamw", "optim"),
        ("ulysses_degree: 8, data_parallel_size: 2", "ulysses_degree"),
        ("context_parallel_size: 1, bits: 16, freeze_backbone: false, lora: 0", ""),
        ("optim: paged_adamw_8bit", ""),
        ("use_peft: true, lora_alpha: 32", ""),
    ],
)
def test_arguments_whose_effect_is_not_read_make_the_foresight_unknown(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, arguments: str, unread: str
) -> None:
    shown = block(
        clusterjobs, folder, f"{TRAINER}model: {{{MODEL}}}\nargs: {{a: 1, {arguments}}}\n"
    )
    assert (f"unknown: it is unknown what these arguments change: {unread} (" in shown) == bool(
        unread
    )
    assert ("GiB of 79 GiB" in shown) != bool(unread)


@pytest.mark.parametrize("strategy", ["HYBRID_SHARD", "SHARD_GRAD_OP", "NO_SHARD"])
def test_weights_that_are_not_sharded_over_all_ranks_are_unknown(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, strategy: str
) -> None:
    text = f"{SCRIPT}model: {{{MODEL}}}\nargs: {{sharding_strategy: {strategy}}}\n"
    assert "these arguments change: sharding_strategy (" in block(clusterjobs, folder, text)
    said = text.replace("glu: true", "glu: true, sharding: fsdp")
    assert foresight(clusterjobs, folder, said)["memory_gib"]["mid"] > 0


def test_what_a_key_of_the_model_says_need_not_be_read(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    model = f"model: {{{MODEL}, trainable: lora, quantized: 4}}\n"
    with_arguments = f"{TRAINER}{model}args: {{lora_enable: true, bits: 4}}\n"
    found = foresight(clusterjobs, folder, with_arguments)
    assert found["memory_gib"] == foresight(clusterjobs, folder, TRAINER + model)["memory_gib"]


def test_deepspeeds_sequence_parallelism_is_not_predicted(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    text = f"{TRAINER}zero: {{stage: 3}}\nmodel: {{{MODEL}}}\n"
    text += "ds_config: {sequence_parallel_size: 8}\n"
    assert "unknown: nothing is predicted" in block(clusterjobs, folder, text)
