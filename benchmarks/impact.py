"""`clusterjobs impact` over many specs: time and memory of the whole command.

The floor is what no such command can avoid: each spec is read and parsed twice with libyaml, and a
text as long as its script is printed from one template. It uses one process; where clusterjobs is
measured by the clock, its time is divided by the number of workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.site_folders import write_site, write_values
from benchmarks.specs import different_specs
from benchmarks.throughput import baseline_renderer
from benchmarks.timing import Row

TITLE = "Impact: every spec rendered before and after a change"
COUNTS = (1_000, 10_000)
WORKERS = 4
_USERS = 40
_MAX_SECONDS = 30
_MAX_CPU_SECONDS = 100  # of all processes
_MAX_GROWTH = 1.2


class _Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    mib: float  # of its largest process


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_values(folder / "old")
        write_site(folder / "new")
        write_site(folder / "override", override=True)
        for count in COUNTS:
            _write_specs(folder / str(count), count)
        few, many = (_impact(folder, count) for count in COUNTS)
        checked = _impact(folder, COUNTS[0], "override")
        floor = _floor_seconds(folder / str(COUNTS[-1]))
    what = f"{COUNTS[-1]:,} specs, {WORKERS} processes"
    total, of_all = many.cpu_seconds, "the same, CPU time of all processes together"
    cpu_target, is_met = f"<= {_MAX_CPU_SECONDS} s", total <= _MAX_CPU_SECONDS
    target, quick = f"<= {_MAX_SECONDS} s", many.seconds <= _MAX_SECONDS
    grown = f"memory of the largest process, {COUNTS[-1]:,} / {COUNTS[0]:,} specs"
    checks = "CPU time of one spec, with a template override / without"
    is_flat = many.mib <= _MAX_GROWTH * few.mib
    return [
        Row(what, "s", floor / WORKERS, many.seconds, target, quick),
        Row(of_all, "s", floor, total, cpu_target, is_met),
        Row(checks, "ms", _ms_per_spec(few), _ms_per_spec(checked)),
        Row(grown, "MiB", few.mib, many.mib, f"<= {_MAX_GROWTH:g} x baseline", is_flat),
    ]


def _write_specs(folder: Path, count: int) -> None:
    for number, text in enumerate(different_specs(count)):
        path = folder / f"user-{number % _USERS}" / f"{number}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _ms_per_spec(run: _Run) -> float:
    return 1000 * run.cpu_seconds / COUNTS[0]


def _impact(folder: Path, count: int, site: str = "new") -> _Run:
    program = str(Path(sys.executable).with_name("clusterjobs"))
    options = ["--before", str(folder / "old"), "--jobs", str(WORKERS), "--json"]
    command = [sys.executable, program, "impact", str(folder / str(count)), *options]
    environment = {
        **os.environ,
        "CLUSTERJOBS_SITE": str(folder / site),
        "XDG_CONFIG_HOME": str(folder),
    }
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)  # with the workers that it has waited for
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"impact ended with {process.returncode}")
    return _Run(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def _floor_seconds(folder: Path) -> float:
    render = baseline_renderer()
    start = time.process_time()
    for path in sorted(folder.rglob("*.yaml")):
        for _ in ("before", "after"):
            render(path.read_text())
    return time.process_time() - start
