"""Published measurements, each with its source, as records to compare an estimate with.

The file has a row for each measured configuration: what ran, and its time or its memory. `use`
says what a row is good for: `time` (calibrate and judge), `time?` (a doubtful part of the
configuration), `mem` (memory alone), `recalled`, `offload`, `no` (`note` says why).
"""

from __future__ import annotations

import csv
import functools
import math
import pathlib
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.foresight.formulas.constants import Constants
from clusterjobs.foresight.formulas.layouts import TIE
from clusterjobs.foresight.formulas.speed import Nearest, coordinates, kind_of
from clusterjobs.foresight.formulas.step import step_time
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import (
    Engine,
    Experts,
    Gpu,
    Layout,
    ModelShape,
    Network,
    layer_weights,
    model_flops,
)

ROWS_FILE = pathlib.Path(__file__).with_name("published.csv")

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
    with ROWS_FILE.open(encoding="utf-8", newline="") as lines:
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


def prepare(rows: Iterable[Published]) -> dict[str, list[dict[str, Any]]]:
    """The content of nearest.json: each configuration once, by family of GPUs."""
    prepared: dict[str, list[dict[str, Any]]] = {}
    seen = set()
    for row in rows:
        if row.use != "time" or not row.step_seconds:
            continue
        at, kind = coordinates(row.model, row.layout), kind_of(row.model, row.layout)
        key = (row.source, *at, *kind)
        if key not in seen:
            seen.add(key)
            entry = {"at": at, "kind": kind, "nearest": list(_of_row(row, row.step_seconds))}
            prepared.setdefault(row.gpu.family, []).append(entry)
    return prepared


def _of_row(row: Published, seconds: float) -> Nearest:
    model, layout, gpu = row.model, row.layout, row.gpu
    batch = layout.global_batch
    billions = model.layers * layer_weights(model) / 1e9
    name = row.name or f"{billions:.3g}B in the layers"
    rate = model_flops(model, batch) / seconds / layout.gpus
    return Nearest(
        source=row.source,
        url=row.url,
        configuration=(
            f"{name}, {layout.gpus} × {gpu.name}, tensor {layout.tensor}, pipeline "
            f"{layout.pipeline}, sequence {model.sequence}"
        ),
        step_seconds=round(seconds, 4),
        tokens_per_second_per_gpu=round(batch * model.sequence / seconds / layout.gpus, 1),
        mfu=round(rate / gpu.peak(layout.precision), 4),
    )


# How well the step time is predicted: errors, ranges and ties over the published rows.

# Families of too few rows to be fitted alone.
FAMILY_COPIES = {"flash.V100": "flash.A100", "flash.H100-500W": "flash.H100"}


class Error(NamedTuple):
    """A row, and the logarithm of its predicted by its measured seconds."""

    row: Published
    log_ratio: float


def dense_rows(rows: Iterable[Published] | None = None) -> list[Published]:
    """What is fitted and judged: dense models on GPUs that several publications measured."""
    return [row for row in _timed_dense(rows) if row.gpu.family not in ("", "Blackwell")]


def blackwell_rows() -> list[Published]:
    """Without nvfp4, for which the model has no constant of its own."""
    return [
        row
        for row in _timed_dense(None)
        if row.gpu.family == "Blackwell" and row.layout.precision != "nvfp4"
    ]


def _timed_dense(rows: Iterable[Published] | None) -> Iterable[Published]:
    return (
        row
        for row in (published() if rows is None else rows)
        if row.use == "time" and row.step_seconds and not row.model.experts
    )


def with_values(base: Constants, values: dict[str, float]) -> Constants:
    """The constants with fitted values; `products.A100` is a value of a dictionary."""
    copies = {copy: values[name] for copy, name in FAMILY_COPIES.items() if name in values}
    changed: dict[str, Any] = {}
    for name, value in {**values, **copies}.items():
        field, _, family = name.partition(".")
        if family:
            changed.setdefault(field, dict(getattr(base, field)))[family] = value
        else:
            changed[field] = value
    return base._replace(**changed)


def error(row: Published, constants: Constants) -> Error:
    assert row.step_seconds
    seconds = step_time(row.model, row.layout, row.gpu, row.network, constants).seconds
    return Error(row, math.log(seconds / row.step_seconds))


def quantile(errors: Sequence[Error], share: float) -> float:
    """Of the absolute errors: predicted by measured, less one."""
    ordered = sorted(abs(math.expm1(e.log_ratio)) for e in errors)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def bias(errors: Sequence[Error]) -> float:
    return math.expm1(statistics.median(e.log_ratio for e in errors))


def inside(errors: Sequence[Error], low: float, high: float) -> float:
    """The share of rows that were measured between low and high times the prediction."""
    return statistics.mean(low <= math.exp(-e.log_ratio) <= high for e in errors)


def best_is_tied(errors: Sequence[Error]) -> list[bool]:
    """For each job of which several layouts were measured: is the measured best in the tie?"""
    jobs: dict[object, dict[Layout, list[Error]]] = defaultdict(lambda: defaultdict(list))
    for e in errors:
        row = e.row
        batch, precision = row.layout.global_batch, row.layout.precision
        job = (row.source, row.model, row.gpu, row.layout.gpus, batch, precision)
        jobs[job][row.layout].append(e)
    return [_measured_best_is_tied(layouts) for layouts in jobs.values() if len(layouts) > 1]


def _measured_best_is_tied(layouts: dict[Layout, list[Error]]) -> bool:
    measured, predicted = [], []
    for errors in layouts.values():
        seconds = statistics.median(e.row.step_seconds or 0.0 for e in errors)
        measured.append(seconds)
        predicted.append(seconds * math.exp(statistics.median(e.log_ratio for e in errors)))
    return tied(predicted)[measured.index(min(measured))]


def tied(seconds: Sequence[float]) -> list[bool]:
    """For each layout of one job: is it within the model's error of the fastest?"""
    best = min(seconds, default=0.0)
    return [second <= best * (1 + TIE) for second in seconds]
