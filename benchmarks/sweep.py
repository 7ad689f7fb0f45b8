"""A sweep of 1,000 points: from the spec's text to the script of its array, in one process.

The baseline parses the spec with libyaml once for each point, and prints a text of the same length
from one Jinja template with a loop over the points. It checks and derives nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jinja2
import yaml

from benchmarks.timing import Row
from clusterjobs import resources
from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.runs.content import content_hash
from clusterjobs.sections.context import PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.points.arrays import point_arrays
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_points

TITLE = "A sweep of 1,000 points: from text to script, one process, one core"
ROUNDS = 5
_SECONDS = 2
_CLUSTER = "p4d-a100.yaml"
SPEC = f"""
name: sweep
cluster: p4d-a100
nodes: 2
time_limit: 1-00:00:00
framework: deepspeed
script: pretrain.py
workdir: /fsx/code
batch: {{micro: 8, global: 512}}
args: {{lr: 1.5e-4, train-iters: 500000, seed: 1}}
checkpoints: {{path: "/fsx/checkpoints/{{{{ name }}}}"}}
sweep:
  grid:
    args.lr: {[f"{number}e-5" for number in range(1, 51)]}
    batch.micro: [2, 4, 8, 16]
    args.seed: [1, 2, 3, 4, 5]
"""


def measure() -> list[Row]:
    file = resources.cluster_configs_dir() / _CLUSTER
    facts = cluster_facts(read_cluster(file.read_text(), _CLUSTER, {})[0])
    script = render(facts)
    baseline = baseline_renderer(script)
    timed: dict[str, Callable[[], object]] = {"baseline": baseline, "ours": lambda: render(facts)}
    seconds = {name: list[float]() for name in timed}
    for _ in range(ROUNDS):
        for name, renderer in timed.items():
            seconds[name].append(_seconds(renderer))
    floor, ours = (statistics.median(seconds[name]) for name in timed)
    kib = len(script.encode()) / 1024
    return [
        Row("1,000 points", "s", floor, ours, f"<= {_SECONDS} s", ours <= _SECONDS),
        Row("the script", "KiB", None, kib, "<= 1,024 KiB", kib <= 1024),
    ]


def _seconds(renderer: Callable[[], object]) -> float:
    """CPU time of this process: other processes on the machine do not count."""
    start = time.process_time()
    renderer()
    return time.process_time() - start


def render(facts: ClusterFacts) -> str:
    """Like `clusterjobs render`, but without files."""
    specs = load_points(SPEC, "exp.yaml", option_models())
    points = [
        PointPlan(one.point, resolve(one, facts), content_hash(one.expanded))
        for one in specs
        if one.point
    ]
    (array,) = point_arrays(points)
    inputs = Inputs(("exp.yaml", SPEC), (_CLUSTER, ""))
    return render_script(array.plan, inputs, array.table).text


def baseline_renderer(script: str) -> Callable[[], str]:
    """A renderer of the same text, a line for each point."""
    before, lines, after = _around_the_table(script)
    environment = jinja2.Environment("<%", "%>", "<<", ">>", "<##", "##>")
    loop = "<% for line in lines %><< line >>\n<% endfor %>"
    escaped = (text.replace("<<", "< <") for text in (before, after))
    template = environment.from_string(loop.join(escaped))

    def renderer() -> str:
        parsed: list[dict[str, Any]] = [yaml.load(SPEC, yaml.CSafeLoader) for _ in lines]
        return template.render(parsed[0], lines=lines)

    return renderer


def _around_the_table(script: str) -> tuple[str, list[str], str]:
    lines = script.splitlines(keepends=True)
    inside = [number for number, line in enumerate(lines) if ") set -- " in line]
    first, end = inside[0], inside[-1] + 1
    table = [line.rstrip("\n") for line in lines[first:end]]
    return "".join(lines[:first]), table, "".join(lines[end:])
