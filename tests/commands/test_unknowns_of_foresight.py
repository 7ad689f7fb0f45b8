"""Foresight says what is unknown, once and with what would help, and guesses nothing."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.foresight.text import number, percent, short

SPEC = """\
name: gpt
cluster: p4d-a100
nodes: 2
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 50257}
batch: {micro: 8, global: 512}
precision: bf16
args: {train-iters: 100000, lr: 1e-4}
"""
DESCRIPTION = """\
kind: slurm
node_types: {a: {cpus: 64, memory_mib: 480000, gpus: 8, gpu_model: A100, gpu_memory: 40}}
partitions: {g: {nodes: {a: 100}}}
"""
MINE = ("--set", "cluster=./mine.yaml")
PLAIN = """\
name: a
cluster: p4d-a100
framework: torchrun
script: train.py
batch: {micro: 1, global: 512}
"""
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "vocab_size": 128256,
}


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    file = folder / "exp.yaml"
    file.write_text(SPEC)
    (folder / "mine.yaml").write_text(DESCRIPTION)
    return file


def foresight(clusterjobs: Callable[..., Any], *words: object) -> Any:
    done = clusterjobs("plan", *words, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["foresight"]


def block(clusterjobs: Callable[..., Any], *words: object) -> str:
    done = clusterjobs("plan", *words)
    assert done.code == 0, done.err
    text: str = done.out.partition("foresight\n")[2].partition("\n\n")[0]
    return text


def test_what_would_make_it_fit_is_shown(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    words = ("--set", "batch.micro=32", "--set", "model.sequence=2048")
    found = foresight(clusterjobs, spec, *words)
    assert found["verdict"] == "does_not_fit"
    assert found["margin"] < 0
    assert found["remedies"]
    assert f"would fit: {found['remedies'][0]}" in block(clusterjobs, spec, *words)
    assert foresight(clusterjobs, spec)["remedies"] == []


def test_an_unknown_length_is_said_once(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    model = (
        "model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 100, sharding: ddp}\n"
    )
    spec.write_text(PLAIN + model)
    text = block(clusterjobs, spec)
    assert text.count("unknown") == 1
    assert "time        unknown: add training: {tokens: 300e9}, or samples, or steps" in text


def test_an_unknown_interval_of_saves_is_assumed_and_said(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    """A job that never saved would lose half of its work with each failure."""
    assert "; saves at the best interval\n" in block(clusterjobs, spec)
    total = foresight(clusterjobs, spec, "--set", "args.train-iters=100000000")["total_seconds"]
    assert total["lost_to_failures"]["high"] < 0.1 * total["high"]


def test_a_network_of_unknown_speed_gives_no_time(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    found = foresight(clusterjobs, spec, *MINE)
    reason = "the speed of the network between the nodes is not known"
    assert found["step_seconds"] is None
    assert found["doubts"][0].startswith(reason)
    assert f"step        unknown: {reason}" in block(clusterjobs, spec, *MINE)
    refused = clusterjobs("advise", spec, *MINE)
    assert refused.code == 1
    assert f"a: {reason}" in refused.err
    assert clusterjobs("advise", spec, *MINE, "--nodes", "1").code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gpu_memory: 40", "gpu_memory: 10", "no numbers are known for A100 with 10 GiB"),
        ("gpu_model: A100", "gpu_model: MI250X", "no numbers are known for MI250X with 40 GiB"),
        ("gpu_model: A100, ", "", "the GPUs of a are unknown (describe them: gpu_model: A100)"),
    ],
)
def test_gpus_without_numbers_are_not_guessed(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    folder: pathlib.Path,
    old: str,
    new: str,
    message: str,
) -> None:
    (folder / "mine.yaml").write_text(DESCRIPTION.replace(old, new))
    assert foresight(clusterjobs, spec, *MINE) is None
    assert block(clusterjobs, spec, *MINE).startswith(
        f"  memory, time and cost are unknown: {message}"
    )


def test_a_framework_without_predictions_gets_no_wrong_hint(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    model = "model: {layers: 2, hidden: 64, heads: 2, sequence: 64, vocab: 100, sharding: ddp}\n"
    spec.write_text(f"name: a\ncluster: p4d-a100\nframework: command\ncommand: ./run\n{model}")
    told = "  memory, time and cost are unknown: nothing is predicted for framework: command"
    assert block(clusterjobs, spec) == told


def test_the_longest_sequence_of_a_config_is_not_the_one_that_is_trained(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    spec.write_text(PLAIN + "model: {config: config.json, sharding: ddp}\n")
    told = "the sequence length is unknown: 131072 is the longest that the model takes"
    assert f"{told} (add sequence to model, the tokens of one sample)" in block(clusterjobs, spec)
    written = foresight(clusterjobs, spec, "--set", "model.sequence=4096")
    for name in ("max_length", "block_size", "max_seq_length"):
        spec.write_text(
            PLAIN + f"model: {{config: config.json, sharding: ddp}}\nargs: {{{name}: 4096}}\n"
        )
        assert foresight(clusterjobs, spec) == written
    assert foresight(clusterjobs, spec, "--set", "model.sequence=2048") != written
    spec.write_text(
        PLAIN + "model: {config: config.json, sharding: ddp}\nargs: {max_length: auto}\n"
    )
    assert foresight(clusterjobs, spec) is None


def test_only_megatrons_pad_the_vocabulary(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    assert "model.vocab_padded" in clusterjobs("plan", spec).out
    model = (
        "model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 100, sharding: ddp}\n"
    )
    spec.write_text(PLAIN + model)
    assert "model.vocab_padded" not in clusterjobs("plan", spec).out


def test_numbers_have_two_digits_and_no_exponent() -> None:
    assert [number(one) for one in (0.0123, 3.14, 99.6, 2380, 1e15)] == [
        *("0.012", "3.1", "100", "2,400", "1,000,000,000,000,000")
    ]
    assert (percent(0.0026), percent(62.0)) == ("0.26 %", "6,200 %")
    assert [short(one) for one in (355e6, 6.664e9, 1.05e16)] == ["355M", "6.66B", "10,500T"]


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("gpu_type: nvidia_a100_3g.20gb", "no numbers are known for A100 with 20 GiB"),
        ("gpu_model: NVIDIA H100 PCIe", "no numbers are known for NVIDIA H100 PCIe"),
        ("gpu_type: nvidia_a100_7g.80gb", "(A100-80)"),
        ("gpu_model: NVIDIA H100 80GB HBM3", "(H100-80)"),
    ],
)
def test_a_part_of_a_gpu_or_a_slower_one_is_not_taken_for_the_whole_or_the_faster_one(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    folder: pathlib.Path,
    gpu: str,
    expected: str,
) -> None:
    nodes = f"{{cpus: 64, gpus: 4, {gpu}, fabric: infiniband, network_gbps: 400}}"
    described = f"kind: slurm\nnode_types: {{a: {nodes}}}\npartitions: {{p: {{nodes: {{a: 4}}}}}}\n"
    (folder / "own.yaml").write_text(described)
    spec.write_text(
        "name: a\ncluster: own.yaml\nnodes: 2\nframework: torchrun\nscript: /x/t.py\n"
        "batch: {micro: 1}\nlogs: /x/logs\n"
        "model: {layers: 2, hidden: 64, heads: 2, sequence: 64, vocab: 100, sharding: ddp}\n"
    )
    assert expected in block(clusterjobs, spec)


def test_a_training_in_fp32_has_no_time(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    found = foresight(clusterjobs, spec, "--set", "precision=fp32")
    assert found["verdict"] == "fits"
    assert (found["step_seconds"], found["total_seconds"], found["cost"]) == (None, None, None)
    assert "no time is given for a training in fp32" in found["doubts"][0]


def test_all_that_is_missing_is_said_at_once(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    (folder / "exp.yaml").write_text(PLAIN.replace("batch:", "# batch:"))
    said = clusterjobs("plan", "exp.yaml").out
    for part in ("the model is unknown", "how the script shards", "the batch size is unknown"):
        assert part in said
    for key in ("add model: ", "add sharding to model: ", "add batch: "):
        assert key in said
