"""clusterjobs budget: the GPU-hours that a spec may use."""

from __future__ import annotations

import pathlib

import click

import clusterjobs
from clusterjobs_accelerate.budget import gpu_hours


@click.command()
@click.argument("spec", type=click.Path(path_type=pathlib.Path))
def budget(spec: pathlib.Path) -> None:
    """Show the GPU-hours that SPEC may use, for all points of a sweep."""
    run = clusterjobs.load(spec)
    click.echo(f"{sum(map(gpu_hours, run.planned_jobs)):,.0f} GPU-hours")
