"""Run the benchmarks and print their tables: `python -m benchmarks [NAME ...] [--json]`."""

from __future__ import annotations

import importlib
import json
import os
import time
from typing import Any

import click

from benchmarks.timing import Row, table
from clusterjobs.errors import InputError

_NAMES = (
    *("cold_start", "throughput", "versions", "impact", "site_cost", "foresight"),
    *("status", "sweep", "launch", "staging", "report_reading"),
)


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(_NAMES), metavar="[NAME]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
def main(names: tuple[str, ...], as_json: bool) -> None:
    """Measure a baseline and clusterjobs alternately.

    NAMEs: cold_start, throughput, versions, impact, site_cost, foresight, status, sweep, launch,
    staging, report_reading; all of them if none is given.
    """
    report: dict[str, Any] = {"load_before": _load(), "cpus": os.cpu_count(), "benchmarks": {}}
    for name in names or _NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        start = time.perf_counter()
        try:
            rows: list[Row] = module.measure()
        except InputError as error:  # this machine cannot run the lab
            click.echo(f"{module.TITLE}: not measured: {error}\n", err=True)
            continue
        report["benchmarks"][name] = [_plain(row) for row in rows]
        if not as_json:
            took = time.perf_counter() - start
            click.echo(f"{module.TITLE} ({took:.0f} s, load {_load()})\n\n{table(rows)}\n")
    if as_json:
        click.echo(json.dumps({**report, "load_after": _load()}, indent=2, ensure_ascii=False))


def _plain(row: Row) -> dict[str, Any]:
    return {**vars(row), "ratio": row.ratio}


def _load() -> float:
    """The load average of the last minute; above the number of CPUs, other processes compete."""
    return round(os.getloadavg()[0], 1)


main()
