"""What foresight costs: thousands of layouts, and what it adds to `plan`."""

from __future__ import annotations

import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.timing import Row, first_run_done, medians_in_turns, processor_seconds
from clusterjobs.foresight.formulas.layouts import Candidate, SearchSpace, layouts, ranked
from clusterjobs.foresight.formulas.memory import memory_share
from clusterjobs.foresight.formulas.step import step_seconds
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Layout, ModelShape, Network

TITLE = "Foresight: layouts ranked, and the time that it adds to plan"
RUNS = 21
_LAYOUTS, _MAX_SECONDS, _MAX_MS = 10_000, 2.0, 10
GPT3 = ModelShape(96, 12288, 96, 96, 128, 49152, 2048, 51200)
BASE = Layout(1024, 8, 1, 1536, "megatron-core")
FREE = SearchSpace(
    virtual_pipeline=True,
    sequence_parallel=True,
    zero=(0, 1),
    recompute=("none", "selective", "full"),
)
SPEC = """\
name: a
cluster: p4d-a100
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 50257}
batch: {micro: 8, global: 64}
args: {lr: 1e-4, train-iters: 1000}
"""
_PLAN = "from clusterjobs.cli.main import run; run(['plan', 'exp.yaml'])"
_WITHOUT = """\
import sys, types
stub = types.ModuleType("of_project")
stub.foresight_block = lambda project: ()
sys.modules["clusterjobs.foresight.of_job"] = stub
"""


def measure() -> list[Row]:
    start = time.perf_counter()
    tried = _rank()
    seconds = (time.perf_counter() - start) * _LAYOUTS / tried
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "exp.yaml").write_text(SPEC, encoding="utf-8")
        environment = first_run_done(folder)
        programs = {"without": _WITHOUT + _PLAN, "with": _PLAN}
        measured = {
            key: partial(processor_seconds, [sys.executable, "-c", code], environment, folder)
            for key, code in programs.items()
        }
        found = medians_in_turns(measured, RUNS, warm_up=2)
    without, with_model = found["without"] * 1000, found["with"] * 1000
    is_met = with_model - without <= _MAX_MS
    return [
        Row(
            f"{_LAYOUTS:,} layouts: memory, step time, ranking",
            "s",
            None,
            seconds,
            f"<= {_MAX_SECONDS:g} s",
            seconds <= _MAX_SECONDS,
        ),
        Row(
            "plan with foresight / without, CPU time",
            "ms",
            without,
            with_model,
            f"<= baseline + {_MAX_MS} ms",
            is_met,
        ),
    ]


def _rank() -> int:
    """The number of layouts that were tried."""
    gpu, network = find_gpu("A100-80"), Network(800, "infiniband")
    assert gpu
    candidates = []
    for nodes in range(8, 129, 8):
        for one in layouts(GPT3, BASE._replace(gpus=nodes * 8), FREE)[0]:
            share = memory_share(GPT3, one, gpu)
            seconds = step_seconds(GPT3, one, gpu, network)
            candidates.append(Candidate("A100", nodes, one, seconds, share))
    ranked(candidates)
    return len(candidates)
