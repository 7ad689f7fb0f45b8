"""Foresight in plan, render and submit: the block, the JSON, prices, warnings and measurements."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

SPEC = """\
name: gpt
cluster: p4d-a100
nodes: 2
time_limit: 1-00:00:00
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 50257}
batch: {micro: 8, global: 512}
precision: bf16
args: {train-iters: 100000, lr: 1e-4, save-interval: 1000}
checkpoints: {path: /fsx/checkpoints}
"""
KEYS = [
    *("parameters", "memory_gib", "verdict", "step_seconds", "tokens_per_second_per_gpu"),
    *("tflops_per_gpu", "mfu", "limits", "validated", "nearest", "total_seconds", "cost"),
]


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    file = folder / "exp.yaml"
    file.write_text(SPEC)
    return file


def foresight(clusterjobs: Callable[..., Any], *words: object) -> dict[str, Any]:
    done = clusterjobs("plan", *words, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)["foresight"]
    return found


def test_the_json_has_the_documented_keys(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    found = foresight(clusterjobs, spec)
    assert set(KEYS) <= set(found)
    assert found["verdict"] == "fits"
    memory = found["memory_gib"]
    assert sum(memory["parts"].values()) == pytest.approx(memory["mid"], rel=0.001)
    for key in ("memory_gib", "step_seconds", "mfu", "tflops_per_gpu", "total_seconds", "cost"):
        assert found[key]["low"] < found[key]["mid"] < found[key]["high"], key
    step, total = found["step_seconds"]["mid"], found["total_seconds"]
    assert total["steps"] == 100_000
    assert total["mid"] > 100_000 * step
    tokens = 512 * 1024 / 16 / step
    assert found["tokens_per_second_per_gpu"]["mid"] == pytest.approx(tokens, rel=0.001)


def test_the_block_has_the_same_numbers(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    block = clusterjobs("plan", spec).out.partition("foresight\n")[2].partition("\n\n")[0]
    rows = [line.split()[0] for line in block.splitlines() if not line.startswith("   ")]
    assert rows == ["model", "memory", "step", "time", "checkpoint", "cost", "nearest"]
    assert "100,000 steps" in block
    assert "every 1,000 steps: saves and failures take" in block
    cost = foresight(clusterjobs, spec)["cost"]
    low, high = (f"{float(f'{cost[end]:.2g}'):,.0f}" for end in ("low", "high"))
    assert f"${low}-{high}, middle $" in block
    assert block.count("assumed: ") == 1
    assert "would fit" not in block


@pytest.mark.parametrize(
    ("framework", "missing"),
    [("deepspeed", "(add model: {"), ("torchrun", "add sharding to model")],
)
def test_a_training_on_gpus_without_a_model_is_told_what_is_missing(
    framework: str, missing: str, clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    spec = folder / "exp.yaml"
    start = "name: a\ncluster: p4d-a100\nscript: train.py\nbatch: {micro: 1}\n"
    spec.write_text(f"{start}framework: {framework}\n")
    assert foresight(clusterjobs, spec) is None
    block = clusterjobs("plan", spec).out.partition("foresight\n")[2]
    assert block.startswith("  memory, time and cost are unknown: ")
    assert missing in block


def test_without_a_model_and_gpus_nothing_is_said(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    spec = folder / "exp.yaml"
    spec.write_text("name: a\ncluster: small\nframework: command\ncommand: ./run\n")
    assert foresight(clusterjobs, spec) is None
    assert "foresight" not in clusterjobs("plan", spec).out


# ------------------------------------------------------------------ prices


def test_the_catalogues_price_is_for_its_region(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    price = foresight(clusterjobs, spec)["cost"]["price"]
    assert (price["where"], price["purchase"]) == ("us-east-1", "ONDEMAND")
    assert price["date"]
    assert price["source"].startswith("AWS's public price list")


def test_in_a_region_without_a_price_another_one_is_assumed_and_marked(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    (folder / "site.yaml").write_text("region: eu-west-1\n")
    price = foresight(clusterjobs, spec)["cost"]["price"]
    assert price["where"] == "list price of us-east-1"
    text = clusterjobs("plan", spec).out
    assert "cost        about $" in text
    assert "no price of eu-west-1 is known, which may be 40 % higher" in text


def test_without_a_region_a_list_price_is_assumed_and_marked(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    (folder / "site.yaml").write_text("region: ''\n")
    price = foresight(clusterjobs, spec)["cost"]["price"]
    assert price["where"] == "list price of us-east-1"
    assert "region: us-west-2 in site.yaml says it" in price["assumed"]
    text = clusterjobs("plan", spec).out
    assert "cost        about $" in text
    assert "assumed, since the region of p4d-a100 is unknown" in text


def test_the_sites_price_wins(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    row = "{instance_type: p4d.24xlarge, cluster: p4d-a100, usd_per_hour: 1.5, date: 2026-10, "
    (folder / "site.yaml").write_text(f"prices:\n  - {row}source: ours}}\n")
    cost = foresight(clusterjobs, spec)["cost"]
    assert (cost["price"]["usd_per_hour"], cost["price"]["source"]) == (1.5, "ours")
    assert cost["price"]["where"] == "cluster p4d-a100"
    assert cost["mid"] == pytest.approx(1.5 * cost["node_hours"]["mid"], rel=0.001)


def test_points_that_share_a_node_share_its_price(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    file = folder / "exp.yaml"
    sizes = "layers: 12, hidden: 768, heads: 12, sequence: 1024, vocab: 50257"
    model = f"model: {{{sizes}, sharding: ddp}}"
    lines = ("name: a", "cluster: p4d-a100", "framework: torchrun", "launcher: srun", model)
    more = ("script: t.py", "batch: {micro: 4, global: 8}", "training: {steps: 1000}", "logs: /fsx")
    sweep = "sweep: {per_node: 4, grid: {args.lr: [1, 2, 3, 4]}}"
    file.write_text("\n".join([*lines, *more, sweep, ""]))
    found = foresight(clusterjobs, file)
    whole = found["total_seconds"]["mid"] + 600  # and until an idle node ends
    assert found["cost"]["node_hours"]["mid"] == pytest.approx(whole / 3600 / 4, rel=0.001)


def test_control_characters_of_a_source_are_not_printed(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    row = "{instance_type: p4d.24xlarge, cluster: p4d-a100, usd_per_hour: 1.5, date: 2026-10, "
    (folder / "site.yaml").write_text(f'prices:\n  - {row}source: "our \\u202eown"}}\n')
    text = clusterjobs("plan", spec).out
    assert "(our " in text
    assert "\u202e" not in text


@pytest.mark.parametrize("words", [["render"], ["plan"], ["plan", "--json"]], ids=str)
def test_a_wrong_price_warns_and_stops_nothing_else(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path, words: list[str]
) -> None:
    (folder / "site.yaml").write_text("prices: 3\n")
    done = clusterjobs(*words, spec)
    assert done.code == 0
    assert done.err.count("warning: prices: expected a list") == 1
    if words == ["plan"]:
        told = "time and cost are unknown: prices or measurements of the site cannot be read"
        assert told in done.out


# ------------------------------------------------------------------ warnings

LARGE = "model={layers: 96, hidden: 12288, heads: 96, sequence: 2048, vocab: 50257}"


def test_a_model_that_does_not_fit_warns_and_with_strict_fails(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    done = clusterjobs("render", spec, "--set", LARGE)
    assert done.code == 0
    assert "warning: batch.micro: does not fit: about " in done.err
    strict = clusterjobs("render", spec, "--set", LARGE, "--strict")
    assert strict.code == 1
    assert "batch.micro: does not fit: about " in strict.err
    assert "warning: batch.micro: does not fit" not in strict.err
    assert clusterjobs("render", spec, "--strict").code == 0
    assert clusterjobs("submit", spec, "--set", LARGE, "--strict").code == 1


def test_a_sweep_names_the_points_that_do_not_fit(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    spec.write_text(SPEC + "sweep: {grid: {model.layers: [24, 4800]}}\nlogs: /fsx/logs\n")
    done = clusterjobs("render", spec)
    assert done.code == 0, done.err
    assert "does not fit" in done.err
    assert "in the point 0001-layers=4800" in done.err
    assert clusterjobs("render", spec, "--strict").code == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["parallel.pipeline=8", "batch.micro=1", "batch.global=8"],
            "the pipeline is idle 64% of the time: 4 micro batches in 8 stages",
        ),
        (["gpus_per_node=4"], "idle GPUs on every node, which you pay for: 4 of 8"),
        (
            ["time_limit=00:10:00", "args.save-interval=100000"],
            "the time limit of 10 min is shorter than the ",
        ),
        (
            ["training={steps: 5000}"],
            "training is 5,000 steps, but args.train-iters makes it 100,000 steps",
        ),
    ],
)
def test_what_is_wasted_is_warned_of(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, settings: list[str], message: str
) -> None:
    assert message not in clusterjobs("render", spec).err
    words = [word for setting in settings for word in ("--set", setting)]
    done = clusterjobs("render", spec, *words)
    assert done.code == 0, done.err
    assert done.err.count("warning: ") == done.err.count(message) == 1


@pytest.mark.parametrize(
    "settings",
    [
        ["training={tokens: 52428800000}"],
        ["training={samples: 51200100}"],
        ["training={steps: 5000}", 'args={lr: 1e-4, max_steps: "-1", train-samples: 2560000}'],
        ["training={tokens: 5e9}", "args.rampup-batch-size=16 16 1000"],
    ],
)
def test_two_lengths_that_agree_or_cannot_be_compared_cause_no_warning(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, settings: list[str]
) -> None:
    done = clusterjobs("render", spec, *(word for one in settings for word in ("--set", one)))
    assert "makes it" not in done.err, done.err


# ------------------------------------------------------------------ measurements


def log_of(seconds: float, steps: int = 20, more: str = "") -> str:
    lines = [
        f" iteration {n:8}/{steps:8} | consumed samples: {n * 512} | elapsed time per iteration "
        f"(ms): {1000 * (seconds if n > 5 else 5 * seconds):.1f} | learning rate: 1.0E-04 | "
        f"global batch size:   512 | lm loss: 6.6E+00 | loss scale: 1.0 | grad norm: 1.214 | "
        f"number of skipped iterations:   0 | number of nan iterations:   0 |"
        for n in range(1, steps + 1)
    ]
    return "\n".join([*lines, more, ""])


def test_a_measurement_narrows_the_ranges(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    before = foresight(clusterjobs, spec)
    (folder / "job.log").write_text(log_of(0.9, more="[Rank 0] max allocated: 20480.0 | max"))
    done = clusterjobs("calibrate", spec, "--log", "job.log", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["step_seconds"], found["peak_gib"]) == (0.9, 20.0)
    after = foresight(clusterjobs, spec)
    assert after["step_seconds"]["mid"] == pytest.approx(0.9, rel=0.001)
    assert after["memory_gib"]["mid"] == pytest.approx(20.0, rel=0.001)
    for key in ("step_seconds", "memory_gib"):
        wide, narrow = (one[key]["high"] / one[key]["low"] for one in (before, after))
        assert narrow < wide
    assert after["measured"].startswith("measured on 16 A100-40 (p4d-a100: p4d.24xlarge, ")
    assert "measured on 16 A100-40" in clusterjobs("plan", spec).out


def test_a_measurement_is_for_its_layout_and_any_number_of_nodes(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    predicted = foresight(clusterjobs, spec)["step_seconds"]["mid"]
    (folder / "job.log").write_text(log_of(2 * predicted))
    assert clusterjobs("calibrate", spec, "--log", "job.log").code == 0
    more = ["--set", "nodes=4"]
    wide = foresight(clusterjobs, spec, *more)
    assert wide["measured"]
    other = foresight(clusterjobs, spec, "--set", "batch.micro=4")
    assert other["measured"] is None


def test_the_short_job_keeps_layers_and_micro_batch(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    done = clusterjobs("calibrate", spec, "--render", "--steps", "10")
    assert done.code == 0, done.err
    script = (folder / "generated-calibration/job.sh").read_text()
    for text in ("gpt-calibration", "--num-layers 24", "--micro-batch-size 8", "--train-iters 10"):
        assert text in script, text
    assert "#SBATCH --nodes=1" in script
    assert "checkpoints-calibration" in script


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--log", "empty.log"], "empty.log: too few lines with a speed after the start: 0"),
        (["--log", "short.log"], "short.log: too few lines with a speed after the start: 2"),
        (["--log", "binary.log"], "binary.log: too few lines with a speed after the start: 0"),
        (["--log", "nosuch.log"], "cannot read nosuch.log: No such file or directory"),
        (["--log", "empty.log", "--nodes", "2"], "remove --render and --nodes"),
        (["--set", "args={lr: 1e-4}"], "args.train-iters: train-iters is missing"),
        (["--set", "parallel.tensor=8", "--nodes", "1", "--render", "--steps", "4"], "5<=x<=1000"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    folder: pathlib.Path,
    words: list[str],
    message: str,
) -> None:
    (folder / "empty.log").write_text("")
    (folder / "short.log").write_text(log_of(0.9, steps=2))
    (folder / "binary.log").write_bytes(bytes(range(256)) * 10)
    done = clusterjobs("calibrate", spec, *words)
    assert done.code in (1, 2), done.err
    assert message in done.err


def test_hostile_numbers_in_a_log_are_no_measurement(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    values = ["samples/s: 0", "samples/s: 1e999", "samples/s: ...", "step time: 1..2 ms"] * 5
    lines = (f"step {n} {value}\n" for n, value in enumerate(values, 1))
    (folder / "job.log").write_text("".join(lines))
    done = clusterjobs("calibrate", spec, "--log", "job.log")
    assert done.code == 1
    assert "job.log: too few lines with a speed" in done.err


def test_one_rank_is_read_of_several_that_print(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    lines = [f"{rank}: step {n} samples/s: 160\n" for n in range(1, 11) for rank in range(4)]
    (folder / "job.log").write_text("".join(lines))
    done = clusterjobs("calibrate", spec, "--log", "job.log", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["step_seconds"], found["steps"]) == (512 / 160, 9)


@pytest.mark.parametrize(
    "changed",
    [
        {"peak_gib": 10**400},
        {"step_seconds": 1e308},
        {"step_seconds": 10**400, "peak_gib": None},
        {"gpus": 10**400},
        {"steps": math.inf},
        {"date": 7},
        {"where": ["\x1b[31m"]},
    ],
    ids=str,
)
def test_a_measurement_that_no_run_can_have_is_refused(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    folder: pathlib.Path,
    changed: dict[str, Any],
) -> None:
    file = stored_measurement(clusterjobs, spec, folder, **changed)
    done = clusterjobs("plan", spec)
    assert done.code == 0, done.err
    assert f"{file}:1:1 warning: this line is no measurement" in done.err


def test_a_measurement_on_too_few_gpus_for_the_layout_is_not_used(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    stored_measurement(clusterjobs, spec, folder, "--set", "parallel.tensor=8", gpus=1)
    assert foresight(clusterjobs, spec, "--set", "parallel.tensor=8")["measured"] is None


def stored_measurement(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    folder: pathlib.Path,
    *words: str,
    **changed: Any,
) -> pathlib.Path:
    """The user's file of measurements, with a line that was changed by hand."""
    (folder / "job.log").write_text(log_of(0.9))
    done = clusterjobs("calibrate", spec, "--log", "job.log", *words)
    assert done.code == 0, done.err
    file = pathlib.Path(done.out.split("stored in ")[1].strip())
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}) + "\n")
    return file
