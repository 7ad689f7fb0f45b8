"""What a site folder costs a render: whole processes, with and without one."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.site_folders import write_site, write_values
from benchmarks.specs import TINY
from benchmarks.timing import (
    Row,
    first_run_done,
    medians_in_turns,
    process_seconds,
    processor_seconds,
)

TITLE = "A site folder: whole processes with and without one"
RUNS = 41
_MAX_MS = 10


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sites = {
            "values": write_values(folder / "values"),
            "all": write_site(folder / "all"),
            "override": write_site(folder / "override", override=True),
        }
        program = str(Path(sys.executable).with_name("clusterjobs"))
        measured = {}
        for site, path in sites.items():
            command = [
                sys.executable,
                program,
                "render",
                str(TINY),
                "-o",
                str(folder / "out" / site),
            ]
            environment = first_run_done(folder, CLUSTERJOBS_SITE=str(path))
            measured[site] = partial(process_seconds, command, environment, folder)
            measured[f"{site}, CPU"] = partial(processor_seconds, command, environment, folder)
        found = medians_in_turns(measured, RUNS, warm_up=2)
    ms = {name: seconds * 1000 for name, seconds in found.items()}
    return [
        _row("all kinds of site files / site.yaml alone", ms["values"], ms["all"]),
        _row("the same, in CPU time", ms["values, CPU"], ms["all, CPU"]),
        _row("with a template override, too", ms["values"], ms["override"]),
        _row("the same, in CPU time", ms["values, CPU"], ms["override, CPU"]),
    ]


def _row(what: str, without: float, with_site: float) -> Row:
    is_met = with_site - without <= _MAX_MS
    return Row(what, "ms", without, with_site, f"<= baseline + {_MAX_MS} ms", is_met)
