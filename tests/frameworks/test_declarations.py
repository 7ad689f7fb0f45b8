"""What frameworks and launchers declare decides what the plan checks, warns of and refuses."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS

MODEL = {"layers": 8, "hidden": 512, "heads": 8, "sequence": 512}
BATCH = {"batch": {"micro": 1}}
EXTRA: dict[str, dict[str, Any]] = {
    "command": {"script": None, "command": "./train"},
    "deepspeed": BATCH,
    "fairseq": {
        **BATCH,
        "script": None,
        "fairseq": {"cli": "fairseq-hydra-train", "arch": "roberta_base", "data": "/fsx/d"},
        "args": {"optimizer": "adam", "optimization.lr": [1e-4]},
    },
    "gpt-neox": {**BATCH, "configs": ["a.yml"]},
    "megatron-deepspeed": {**BATCH, "model": MODEL, "args": {"train-iters": 10, "lr": 0.1}},
    "megatron-lm": {**BATCH, "model": MODEL, "args": {"train-iters": 10, "lr": 0.1}},
    "torchtitan": {"torchtitan": {"module": "llama3", "config": "llama3_8b"}},
}


def write_spec(folder: pathlib.Path, framework: str, **keys: Any) -> None:
    common = {"name": "a", "cluster": "p4d-a100", "script": "t.py", "framework": framework}
    data = {**common, **EXTRA.get(framework, {}), **keys}
    spec = {key: value for key, value in data.items() if value is not None}
    (folder / "exp.yaml").write_text(json.dumps(spec))


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
def test_a_launcher_that_numbers_gpus_from_0_needs_whole_nodes(
    launcher: str, clusterjobs, folder
) -> None:
    framework = next(name for name, one in FRAMEWORKS.items() if launcher in one.launchers)
    shared = {"gpus_per_node": 2, "sbatch": {"exclusive": False}}
    write_spec(folder, framework, launcher=launcher, **shared)
    outcome = clusterjobs("plan", "exp.yaml")
    problem = f"launcher: {launcher} takes a node's first GPUs, and this job shares its nodes"
    assert (problem in outcome.err) == (launcher in ("deepspeed", "deepspeed-pdsh", "horovodrun"))
    assert outcome.code == (1 if problem in outcome.err else 0), outcome.err


DECLARED = {  # packages that preflight looks for, whether CUDA code is compiled, precision is read
    "accelerate": ("torch,accelerate", False, True),
    "command": ("", False, False),
    "composer": ("torch,composer", False, False),
    "deepspeed": ("torch,deepspeed", True, True),
    "fairseq": ("", False, True),
    "gpt-neox": ("torch,deepspeed", True, True),
    "horovod": ("", False, False),
    "huggingface": ("torch,transformers,accelerate", False, True),
    "jax": ("jax", False, False),
    "lightning": ("torch", False, True),
    "megatron-deepspeed": ("torch,deepspeed", True, True),
    "megatron-lm": ("torch", False, True),
    "torchrun": ("torch", False, False),
    "torchtitan": ("torch", False, True),
}


@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_preflight_and_lint_ask_the_framework(framework: str, clusterjobs, folder) -> None:
    packages, compiles, reads_precision = DECLARED[framework]
    write_spec(folder, framework, precision="bf16", preflight=True)
    outcome = clusterjobs("render", "exp.yaml", "-o", "out")
    assert outcome.code == 0, outcome.err
    lines = (folder / "out" / "job.sh").read_text().splitlines()
    words = [line.split()[0].strip("'") for line in lines if line.startswith("  ") and line.split()]
    checks = [word for word in words if word.startswith("packages=") or word == "build"]
    assert checks == [f"packages={packages}"] * bool(packages) + ["build"] * compiles
    assert ("precision: " in outcome.err) == (not reads_precision), outcome.err
