"""advise: ranks layouts, says what to set, writes it, and refuses what it cannot do."""

from __future__ import annotations

import json
import pathlib
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.foresight.advise import command as plot
from clusterjobs.foresight.advise.command import NO_PRICES, terminal_plot

SPEC = """\
# A model of 7 billion parameters.
name: gpt-7b
cluster: p4de-a100
nodes: 8
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 32, hidden: 4096, heads: 32, sequence: 2048, vocab: 50257}   # as LLaMA's
parallel:
  tensor: 8   # to be sure
batch: {micro: 1, global: 512}
precision: bf16
args:
  train-iters: 1000   # a trial
  lr: 3e-4
"""


@pytest.fixture
def spec(folder: pathlib.Path) -> pathlib.Path:
    file = folder / "exp.yaml"
    file.write_text(SPEC)
    return file


def advice(clusterjobs: Callable[..., Any], *words: object) -> dict[str, Any]:
    done = clusterjobs("advise", *words, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_options_keep_the_batch_and_the_first_beats_the_spec(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    found = advice(clusterjobs, spec)
    assert found["unchanged"] == {"global_batch": 512, "precision": "bf16"}
    assert found["tried"] > 200
    own = json.loads(clusterjobs("plan", spec, "--json").out)["foresight"]["step_seconds"]["mid"]
    best = found["options"][0]
    assert best["step_seconds"]["mid"] < own
    assert best["verdict"] == "fits"
    assert any(rule["why"].startswith("a node has 8 GPUs") for rule in found["ruled_out"])


def test_the_lines_to_set_give_the_option(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    best, *others = advice(clusterjobs, spec)["options"]
    for one in (best, others[-1]):
        words = [word for setting in one["set"] for word in ("--set", setting)]
        planned = clusterjobs("plan", spec, *words, "--json")
        assert planned.code == 0, planned.err
        step = json.loads(planned.out)["foresight"]["step_seconds"]
        # The vocabulary is padded for each number of tensor ranks.
        assert step["mid"] == pytest.approx(one["step_seconds"]["mid"], rel=0.02)
    text = clusterjobs("advise", spec).out
    line = next(line for line in text.splitlines() if line.startswith("  --set"))
    assert shlex.split(line)[1::2] == best["set"]
    again = clusterjobs("advise", spec, *shlex.split(line))
    assert "the spec has the first layout already" in again.out


def test_write_changes_values_and_nothing_else(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    best = advice(clusterjobs, spec)["options"][0]
    done = clusterjobs("advise", spec, "--write")
    assert done.code == 0, done.err
    assert done.err.endswith(f"wrote {spec}\n")
    text = spec.read_text()
    for comment in ("# A model of 7", "# as LLaMA's", "# to be sure", "# a trial"):
        assert comment in text
    planned = json.loads(clusterjobs("plan", spec, "--json").out)["foresight"]
    step = best["step_seconds"]["mid"]
    assert planned["step_seconds"]["mid"] == pytest.approx(step, rel=0.02)
    assert clusterjobs("advise", spec).out.count("the spec has the first layout already") == 1


def test_write_keeps_links_and_ends_of_lines(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    (folder / "real.yaml").write_bytes(SPEC.replace("\n", "\r\n").encode())
    (folder / "link.yaml").symlink_to("real.yaml")
    assert clusterjobs("advise", folder / "link.yaml", "--write").code == 0
    assert (folder / "link.yaml").is_symlink()
    written = (folder / "real.yaml").read_bytes()
    assert b"use-distributed-optimizer: true\r\n" in written
    assert written.count(b"\r\n") == written.count(b"\n")


def test_node_types_of_clusters_are_compared_with_their_prices(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, site_home: pathlib.Path
) -> None:
    found = advice(clusterjobs, spec, "--clusters", "p4de-a100,p5-h100", "--top", 50)
    places = {one["where"] for one in found["options"]}
    assert places <= {"p4de-a100: p4de.24xlarge", "p5-h100: p5.48xlarge"}
    front = found["pareto"]
    assert front == sorted(front, key=lambda one: one["step_seconds"])
    assert [one["usd"] for one in front] == sorted((one["usd"] for one in front), reverse=True)
    cheap = advice(clusterjobs, spec, "--clusters", "p4de-a100,p5-h100", "--by", "cost")
    least = min(one["usd"] for one in front)
    assert cheap["options"][0]["cost"]["mid"] <= least * 1.5
    for one in found["options"]:
        assert one["price"]["where"] == "us-east-1"
        assert one["price"]["purchase"] == "ONDEMAND"


def test_each_cluster_has_a_row_and_rows_are_in_order(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, site_home: pathlib.Path
) -> None:
    found = advice(clusterjobs, spec, "--clusters", "p4de-a100,p5-h100", "--by", "cost")
    assert {one["where"].partition(":")[0] for one in found["options"]} == {"p4de-a100", "p5-h100"}
    costs = [one["cost"]["high"] for one in found["options"] if one["verdict"] == "fits"]
    assert costs == sorted(costs)
    text = clusterjobs("advise", spec, "--clusters", "p4de-a100,p5-h100", "--by", "cost").out
    rows = [line for line in text.splitlines() if ", at most $" in line]
    assert len(rows) == len(found["options"])
    assert all("p4de-a100: " in row or "p5-h100: " in row for row in rows)


def test_no_cluster_is_needed(clusterjobs: Callable[..., Any], spec: pathlib.Path) -> None:
    spec.write_text(SPEC.replace("cluster: p4de-a100\nnodes: 8\n", ""))
    found = advice(clusterjobs, spec, "--gpu", "A100-80", "--gpus", 64)
    assert {one["gpus"] for one in found["options"]} == {64}
    assert {one["cost"] for one in found["options"]} == {None}
    faster = advice(clusterjobs, spec, "--gpu", "H100-80", "--gpus", 64, "--fabric-gbps", 3200)
    of = [one["options"][0]["step_seconds"]["mid"] for one in (found, faster)]
    assert of[1] < of[0]


def test_a_spec_without_prices_has_no_cost(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    done = clusterjobs("advise", spec, "--gpu", "A100-80", "--gpus", 8, "--pareto")
    assert "no price: --gpu names no cluster or region" in done.out
    assert NO_PRICES in done.out


def test_the_plot_in_the_terminal_has_axes_and_the_front(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    done = clusterjobs("advise", spec, "--nodes", "2,4,8", "--pareto")
    assert done.code == 0, done.err
    plotted = done.out.partition("ruled out:")[2].partition("\n\n")[2]
    assert " s a step" in plotted
    assert "  A  " in plotted
    assert max(map(len, plotted.partition("  A  ")[0].splitlines())) <= 80
    assert terminal_plot([]) == NO_PRICES


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_plot_is_a_picture(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path, ending: str
) -> None:
    pytest.importorskip("matplotlib")
    file = folder / f"pareto.{ending}"
    done = clusterjobs("advise", spec, "--nodes", "4,8", "--plot", file)
    assert done.code == 0, done.err
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[ending]
    assert file.read_bytes().startswith(start)


def test_without_matplotlib_the_message_says_what_to_install(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    done = clusterjobs("advise", spec, "--plot", "a.png")
    assert done.code == 1
    assert done.err == (
        "--plot needs the package matplotlib\n"
        "   hint: pip install 'matplotlib>=3.8', or use --pareto for the terminal\n"
    )
    assert plot.FORMATS == (".png", ".svg")


def test_a_job_that_fits_nowhere_ends_with_1(
    clusterjobs: Callable[..., Any], spec: pathlib.Path
) -> None:
    spec.write_text(SPEC.replace("layers: 32, hidden: 4096", "layers: 96, hidden: 12288"))
    done = clusterjobs("advise", spec, "--nodes", "1")
    assert done.code == 1
    assert done.err.endswith("no layout of this job fits; see what was ruled out\n")
    assert "does not fit: " in done.out


def test_of_a_sweep_the_first_point_is_ranked(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    sweep = folder / "sweep.yaml"
    sweep.write_text(SPEC + "sweep: {grid: {args.lr: [1e-4, 2e-4]}}\n")
    assert advice(clusterjobs, sweep)["point"].startswith("0000-lr=")
    assert "\nthe first point of the sweep: 0000-lr=" in clusterjobs("advise", sweep).out
    refused = clusterjobs("advise", sweep, "--write")
    assert refused.code == 1
    assert "--write: the best layout of one point may not be that of the others" in refused.err


BAD = [
    (["--write", "--gpu", "A100-80", "--gpus", "8"], "--write, --gpu: write the one that", 2),
    (["--write", "--set", "nodes=4"], "--write, --set: the options rest on values that SPEC", 2),
    (["--gpu", "Z900", "--gpus", "8"], "--gpu: Z900 is unknown", 1),
    (["--gpu", "A100-81", "--gpus", "8"], "--gpu: A100-81 is unknown", 1),
    (["--gpu", "A100-80"], "--gpu needs --gpus, how many: --gpu A100-80 --gpus 64", 2),
    (
        ["--gpu", "A100-80", "--gpus", "12"],
        "--gpus: 12 is not a multiple of the 8 GPUs of a node",
        1,
    ),
    (
        ["--gpu", "A100-80", "--gpus", "8", "--fabric-gbps", "-1"],
        "--fabric-gbps: -1 is no rate",
        1,
    ),
    (
        ["--gpu", "A100-80", "--gpus", "8", "--fabric-gbps", "nan"],
        "--fabric-gbps: nan is no rate",
        1,
    ),
    (["--gpus", "8"], "--gpus, --gpus-per-node, --fabric-gbps: only with --gpu", 2),
    (["--gpu", "A100-80", "--clusters", "small"], "--gpu, --clusters: choose one of them", 2),
    (["--nodes", "4,x"], "--nodes: '4,x' is no list of numbers of nodes", 1),
    (["--nodes", "0"], "--nodes: '0' is no list of numbers of nodes", 1),
    (["--nodes", "٣"], "--nodes: '٣' is no list of numbers of nodes", 1),
    (["--clusters", "a,,b"], "--clusters: a name is empty, write p4d-a100,p5-h100", 2),
    (["--clusters", "nowhere"], "there is no cluster config 'nowhere'", 1),
    (["--clusters", "small"], "--clusters: no nodes with known GPUs in small", 1),
    (["--plot", "a.pdf"], "--plot: a.pdf is no .png or .svg", 1),
    (["--set", "precision=fp32"], "no time is given for a training in fp32", 1),
    (
        ["--set", "cluster=small", "--set", "nodes=1", "--set", "parallel.tensor=1"],
        "c6i.xlarge has no GPU",
        1,
    ),
    (
        ["--by", "cost", "--gpu", "A100-80", "--gpus", "8"],
        "--by cost: no price: --gpu names no cluster or region",
        1,
    ),
]


@pytest.mark.parametrize(("words", "message", "code"), BAD, ids=lambda one: str(one)[:40])
def test_what_cannot_be_answered_is_refused(
    clusterjobs: Callable[..., Any],
    spec: pathlib.Path,
    words: list[str],
    message: str,
    code: int,
) -> None:
    done = clusterjobs("advise", spec, *words)
    assert done.code == code, done.err
    assert message in done.err
    assert "hint" in done.err or code == 2


def test_the_settings_can_be_pasted_into_a_shell(
    clusterjobs: Callable[..., Any], spec: pathlib.Path, folder: pathlib.Path
) -> None:
    name = "./a b$(x).yaml"
    node = "{cpus: 96, gpus: 8, gpu_model: A100, gpu_memory: 80, network_gbps: 1600, fabric: efa}"
    (folder / name).write_text(
        f"kind: slurm\nnode_types: {{a: {node}}}\npartitions: {{p: {{nodes: {{a: 8}}}}}}\n"
    )
    done = clusterjobs("advise", spec, "--clusters", name, "--nodes", "8", "--top", "1")
    assert done.code == 0, done.err
    pasted = done.out.partition("for the first:\n")[2].splitlines()[0]
    assert shlex.split(pasted)[:2] == ["--set", f"cluster={name}"]
