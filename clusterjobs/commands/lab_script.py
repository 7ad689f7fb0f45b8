"""The script that `lab run` submits: a given one, or a spec's, with folders for its buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from clusterjobs.spec.references import has_variable

if TYPE_CHECKING:
    from clusterjobs.lab.folder import LabFolder
    from clusterjobs.plan.plan import Plan


class OptionsAfterJob(NamedTuple):
    """The options after JOB: those of `lab run` itself, and `sbatch`'s own in their order.

    -o and --output are sbatch's there.
    """

    settings: list[str]
    names: list[str]
    as_json: bool
    sbatch: list[str]


def options_after_job(words: Sequence[str]) -> OptionsAfterJob:
    """Raises UsageError for an option without its value."""
    found: dict[str, list[str]] = {"--set": [], "--name": []}
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        if option not in found:
            others.append(word)
        elif equals or (value := next(rest, "")):
            found[option].append(value)
        else:
            raise click.UsageError(f"{option} needs {'KEY=VALUE' if option == '--set' else 'NAME'}")
    sbatch = [word for word in others if word != "--json"]
    return OptionsAfterJob(found["--set"], found["--name"], sbatch != others, sbatch)


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
