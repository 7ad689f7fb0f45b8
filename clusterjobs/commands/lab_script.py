"""The script that `lab run` submits: a given one, or a spec's, with folders for its buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterjobs.spec.references import has_variable

if TYPE_CHECKING:
    from clusterjobs.lab.folder import LabFolder
    from clusterjobs.plan.plan import Plan


def split_settings(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of the words after the spec: the values of `--set`, and the others, which go to sbatch."""
    settings: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--set":
            if (value := next(rest, None)) is None:
                raise click.UsageError("--set needs KEY=VALUE")
            settings.append(value)
        elif word.startswith("--set="):
            settings.append(word.removeprefix("--set="))
        else:
            others.append(word)
    return settings, others


def script_for(job: Path, output: Path, settings: Sequence[str], lab: LabFolder) -> Path:
    """The script to submit. Raises InputError if the lab lacks a bucket that the spec reads."""
    if job.suffix not in (".yaml", ".yml"):
        if settings:
            raise click.UsageError("--set changes a spec, but this is a script")
        return job
    from clusterjobs.commands.pipeline import load_project
    from clusterjobs.commands.show import show_problems
    from clusterjobs.commands.write import write_outputs

    project = load_project(job, settings)
    outputs = project.outputs()
    show_problems(project.warnings)
    _bring_buckets(project.plan, lab)
    write_outputs(output, outputs, force=False)
    return output / "job.sh"


def _bring_buckets(plan: Plan, lab: LabFolder) -> None:
    from clusterjobs.lab import buckets

    buckets.check_sources(lab, _fixed(one.source for one in plan.staging.data))
    exported = [one.bucket_path for one in plan.checkpoints.links]
    copied = [one.target for one in plan.checkpoints.exports]
    buckets.make_targets(lab, _fixed(iter([*exported, *copied])))
    buckets.link_folders(lab, [(one.folder, one.bucket_path) for one in plan.links])


def _fixed(urls: Iterator[str]) -> list[str]:
    """The sources in buckets, without those that contain variables of the nodes."""
    return [url for url in urls if url.startswith("s3://") and not has_variable(url)]
