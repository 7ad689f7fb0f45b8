"""Published measurements, each with its source, as records to compare an estimate with.

The file has a row for each measured configuration: what ran, and its time or its memory. `use`
says what a row is good for: `time` (calibrate and judge), `time?` (a doubtful part of the
configuration), `mem` (memory alone), `recalled`, `offload`, `no` (`note` says why).
"""

from __future__ import annotations

import csv
import functools
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from clusterjobs.foresight.gpus import find_gpu
from clusterjobs.foresight.records import Engine, Experts, Gpu, Layout, ModelShape, Network

DATA_FILE = pathlib.Path(__file__).with_name("published.csv")

ENGINES: dict[str, Engine] = {
    "mcore": "megatron-core",
    "megatron": "megatron-2020",
    "meg-ds": "megatron-deepspeed",
    "ds": "deepspeed",
    "fsdp": "fsdp",
    "fairscale": "fairscale",
    "ddp": "ddp",
    "internevo": "internevo",
    "jax": "jax",
}
RECOMPUTE = {"selop": "selective_ops"}
_EACH = ("mosaicml llm-foundry", "torchtitan")  # gradients are shared out in each micro batch
PRECISION = {"bf16-true": "pure_bf16"}


class Published(NamedTuple):
    """One measured configuration. `step_seconds` is None where only memory was measured."""

    source: str
    url: str
    use: str
    name: str
    model: ModelShape
    layout: Layout
    gpu: Gpu
    network: Network
    step_seconds: float | None
    memory: str  # GiB, "OOM" or ""
    memory_kind: str
    memory_stage: str
    note: str
    assumed: str = ""  # what the source does not say


@functools.cache
def published() -> tuple[Published, ...]:
    """All rows that name GPU, layout and batch."""
    with DATA_FILE.open(encoding="utf-8", newline="") as lines:
        return tuple(read_rows(lines))


def read_rows(lines: Iterable[str]) -> Iterator[Published]:
    """The complete rows of a file with the same columns, such as one of a site's own runs."""
    for row in csv.DictReader(lines):
        gpu = find_gpu(row["gpu"])
        if gpu and row["n_gpus"] and row["micro_batch"] and row["layers"] and row["vocab"]:
            yield read_row(row, gpu)


def read_row(row: dict[str, str], gpu: Gpu) -> Published:
    path = f"{row['repo']}: {row['path']}" if row["repo"] else row["path"]
    model, layout = _model(row), _layout(row)
    return Published(
        source=row["source"],
        url=f"{path} at {row['commit']}" if row["commit"] else path,
        use=row["use"],
        name=row["model"],
        model=model,
        layout=layout,
        gpu=gpu,
        network=Network(float(row["node_gbps"] or 0)),
        step_seconds=_step_seconds(row, model, layout),
        memory=row["mem_gib"],
        memory_kind=row["mem_kind"],
        memory_stage=row["mem_stage"],
        note=row["note"],
        assumed=row["assumed"],
    )


def _step_seconds(row: dict[str, str], model: ModelShape, layout: Layout) -> float | None:
    """Some sources give the time of a step, others tokens/s of a GPU."""
    if row["step_s"]:
        return float(row["step_s"])
    if row["tok_s_gpu"]:
        return layout.global_batch * model.sequence / (float(row["tok_s_gpu"]) * layout.gpus)
    return None


def _features(row: dict[str, str]) -> dict[str, str]:
    """What only some rows say: `norm=layer bias=1 dropout_hidden=0.1 etp=2`."""
    return dict(item.split("=", 1) for item in row["features"].split())


def _model(row: dict[str, str]) -> ModelShape:
    features = _features(row)
    hidden, heads = int(row["hidden"]), int(row["heads"])
    llama = row["arch"] in ("llama", "moe")
    experts = None
    if row["experts"]:
        experts = Experts(
            int(row["experts"]),
            int(row["topk"]),
            int(row["moe_ffn"]),
            int(features.get("shared_ffn", 0)),
        )
    return ModelShape(
        layers=int(row["layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(row["kv"] or heads),
        head_dim=int(row["head_dim"] or hidden // heads),
        ffn=int(row["ffn"] or 4 * hidden),
        sequence=int(row["seq"]),
        vocab=int(row["vocab"]),
        gated=row["glu"] == "1",
        tied=row["tied"] == "1",
        positions="learned" if row["pos"] == "1" else "rotary",
        bias=features.get("bias", "0" if llama else "1") == "1",
        norm="rms" if features.get("norm", "rms" if llama else "layer") == "rms" else "layer",
        causal=row["arch"] != "bert",
        experts=experts,
        predicted_share=float(row["head_frac"] or 1),
    )


def _layout(row: dict[str, str]) -> Layout:
    features = _features(row)
    engine = ENGINES[row["framework"]]
    dropout = "0.1" if engine in ("megatron-2020", "megatron-deepspeed", "ddp") else "0"
    gpus, replicas = int(row["n_gpus"]), int(row["dp"])
    micro_batch = int(float(row["micro_batch"]))
    return Layout(
        gpus=gpus,
        gpus_per_node=int(row["gpus_per_node"]),
        micro_batch=micro_batch,
        global_batch=int(float(row["global_batch"] or micro_batch * replicas)),
        engine=engine,
        tensor=int(row["tp"]),
        pipeline=int(row["pp"]),
        virtual_pipeline=int(row["vpp"] or 1),
        context=int(row["cp"]),
        expert=int(row["ep"]),
        expert_tensor=int(features["etp"]) if "etp" in features else None,
        zero=int(row["zero"] or 0),
        zero_group=int(row["zero_group"]) if row["zero_group"] else None,
        recompute=RECOMPUTE.get(row["recompute"], row["recompute"]),  # type: ignore[arg-type]
        flash=row["flash"] == "1",
        sequence_parallel=row["sp"] == "1",
        precision=PRECISION.get(row["precision"], row["precision"]),  # type: ignore[arg-type]
        optimizer=row["optimizer"],
        attention_dropout=float(features.get("dropout_attention", dropout)) > 0,
        hidden_dropout=float(features.get("dropout_hidden", dropout)) > 0,
        offload="optimizer" if row["use"] == "offload" else "none",
        compiled=row["compile"] == "1",
        logit_bytes=4.0 if row["source"].startswith("mosaicml llm-foundry") else None,
        gradient_bytes=2.0 if "NeMo" in row["source"] else None,
        gradient_sync="each" if row["source"].startswith(_EACH) else None,
    )
