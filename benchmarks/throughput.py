"""Throughput: from a spec's text to its script, many times in one process.

The baseline is a minimal renderer: it parses YAML with libyaml and prints a text of the same length
from one Jinja template.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from benchmarks.specs import SITE, different_specs
from benchmarks.timing import Row
from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.clusters.source import find_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.sites.folders import load_site
from clusterjobs.spec.load import load_spec

TITLE = "Throughput: from text to script, one process, one core"
COUNTS = (1_000, 5_000, 20_000)
ROUNDS = 3
_WANTED_PER_SECOND = 1_000
_LINEAR = 1.1


def measure() -> list[Row]:
    baseline = baseline_renderer()
    for text in different_specs(300):  # warm-up: fills the caches
        baseline(text)
        render(text)
    rates = _rates(baseline)
    grown = _memory_grown(COUNTS[-1])
    rows = [
        Row(
            f"{count:,} different specs",
            "specs/s",
            rates["baseline", count],
            rates["ours", count],
            f">= {_WANTED_PER_SECOND:,} specs/s",
            rates["ours", count] >= _WANTED_PER_SECOND,
        )
        for count in COUNTS
    ]
    first, last = (1e6 / rates["ours", count] for count in (COUNTS[0], COUNTS[-1]))
    target, is_met = f"<= {_LINEAR:g} x baseline", last <= _LINEAR * first
    what = f"one of {COUNTS[-1]:,} / one of {COUNTS[0]:,}"
    rows.append(Row(what, "µs", first, last, target, is_met))
    rows.append(Row(f"memory grown over {COUNTS[-1]:,} more", "MiB", None, grown))
    return rows


def _rates(baseline: Callable[[str], str]) -> dict[tuple[str, int], float]:
    """Specs per second, by renderer and number of specs: medians of alternating rounds."""
    found: dict[tuple[str, int], list[float]] = {}
    first = 1_000
    for _ in range(ROUNDS):
        for count in COUNTS:
            texts = list(different_specs(count, first))
            first += count
            for name, renderer in (("baseline", baseline), ("ours", render)):
                rate = count / _seconds(renderer, texts)
                found.setdefault((name, count), []).append(rate)
    return {key: statistics.median(rates) for key, rates in found.items()}


def _seconds(renderer: Callable[[str], str], texts: Sequence[str]) -> float:
    """CPU time of this process: other processes on the machine do not count."""
    start = time.process_time()
    for text in texts:
        renderer(text)
    return time.process_time() - start


def render(text: str) -> str:
    """Like `clusterjobs render`, but without files. `versions` calls it in each version."""
    loaded = load_spec(text, "exp.yaml", option_models())
    plan = resolve(loaded, _cluster(loaded.spec.cluster))
    return render_script(plan, Inputs(("exp.yaml", text), (f"{plan.job.cluster}.yaml", ""))).text


@functools.cache
def _cluster(name: str) -> ClusterFacts:
    config = find_cluster(name, Path())
    site = load_site([(str(SITE), SITE.read_text())])
    return cluster_facts(read_cluster(config.read_text(), str(config), site)[0])


def baseline_renderer() -> Callable[[str], str]:
    """A renderer with one template per kind of spec; the framework selects it."""
    environment = jinja2.Environment("<%", "%>", "<<", ">>", "<##", "##>")
    templates: dict[str, jinja2.Template] = {}
    for text in different_specs(3):
        spec = _parsed(text)
        script = render(text).replace("<<", "< <").replace(spec["name"], "<< name >>")
        templates[spec["framework"]] = environment.from_string(script)

    def renderer(text: str) -> str:
        spec = _parsed(text)
        return templates[spec["framework"]].render(spec)

    return renderer


def _parsed(text: str) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return spec


def _memory_grown(count: int) -> float:
    """How much this process grows, in MiB; its caches are full by now."""
    before = _memory_mib()
    for text in different_specs(count, first=1_000_000):
        render(text)
    return _memory_mib() - before


def _memory_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
