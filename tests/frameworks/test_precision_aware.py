"""Megatron-LM's optimizer with states of other types than fp32 changes the memory."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

SPEC = """\
name: a
cluster: p5-h100
nodes: 4
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 32, hidden: 4096, heads: 32, sequence: 4096, vocab: 50257}
batch: {micro: 1, global: 64}
precision: bf16
"""


def parts(clusterjobs: Callable[..., Any], folder: pathlib.Path, arguments: str) -> Any:
    (folder / "exp.yaml").write_text(f"{SPEC}args: {{train-iters: 10, lr: 1e-4, {arguments}}}\n")
    done = clusterjobs("plan", "exp.yaml", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["foresight"]["memory_gib"]["parts"]


def test_gradients_and_moments_in_16_bit_take_half_of_the_memory(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    usual = parts(clusterjobs, folder, "use-distributed-optimizer: true")
    types = "exp-avg-dtype: bf16, exp-avg-sq-dtype: bf16, main-grads-dtype: bf16"
    aware = f"use-distributed-optimizer: true, use-precision-aware-optimizer: true, {types}"
    found = parts(clusterjobs, folder, aware)
    assert found["gradients"] == usual["gradients"] / 2
    assert round(found["optimizer"] / usual["optimizer"], 3) == round(8 / 12, 3)
    assert found["weights"] == usual["weights"]
