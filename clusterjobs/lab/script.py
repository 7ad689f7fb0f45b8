"""Buckets of a lab: `buckets/NAME` in its folder stands for s3://NAME.

A link in a shared folder stands for an association of FSx. On the nodes, `stage_lab.py` finds the
folders. This module knows the links and buckets that a job uses; it must not know experiments.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from clusterjobs.errors import InputError, Problem
from clusterjobs.lab.folder import LabFolder
from clusterjobs.text import Value

if TYPE_CHECKING:
    from clusterjobs.sections.plan import Plan


def bucket_folder(lab: LabFolder, url: str) -> Path:
    """The folder or file on this machine that stands for `s3://bucket/prefix`."""
    return lab / "buckets" / url.removeprefix("s3://").rstrip("/")


def check_sources(lab: LabFolder, urls: Iterable[str]) -> None:
    """Raise InputError for buckets to be read for which there is nothing in this lab."""
    folders = {url: bucket_folder(lab, url) for url in urls}
    missing = {url: folder for url, folder in folders.items() if not folder.exists()}
    if missing:
        raise InputError(_missing(url, folder) for url, folder in missing.items())


def _missing(url: str, folder: Path) -> Problem:
    parent, target = shlex.quote(str(folder.parent)), shlex.quote(str(folder))
    return Problem(
        f"the lab has no network, and no folder here stands for {url}",
        hint=f"a few of its files are enough: mkdir -p {parent} && cp -r FILES {target}",
    )


def make_targets(lab: LabFolder, urls: Iterable[str]) -> None:
    """Create what a job exports to."""
    for url in urls:
        bucket_folder(lab, url).mkdir(parents=True, exist_ok=True)


def link_folders(lab: LabFolder, links: Iterable[tuple[str, str]]) -> None:
    """For each (folder of the nodes, bucket): the folder becomes a link to the bucket's.

    A folder that exists already is left as it is: its files stand for the bucket's.
    """
    for folder, url in links:
        here = lab.host_path(folder)
        if here.is_symlink():
            here.unlink()
        if not here.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(bucket_folder(lab, url))


# ------------------------------------------------------------------ lab script
#
# The script that `lab run` submits: a given one, or a spec's, with folders for its buckets.


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
    from clusterjobs.console.show import show_problems
    from clusterjobs.runs.load import load_first
    from clusterjobs.runs.write import write_outputs

    run = load_first(job, settings)
    outputs = run.outputs()
    show_problems(run.warnings)
    _bring_buckets(run.plan, lab)
    write_outputs(output, outputs, force=False)
    return output / "job.sh"


def _bring_buckets(plan: Plan, lab: LabFolder) -> None:

    check_sources(lab, _fixed(one.source for one in plan.staging.data))
    exported = [one.bucket_path for one in plan.checkpoints.links]
    copied = [one.target for one in plan.checkpoints.exports]
    make_targets(lab, _fixed([*exported, *copied]))
    link_folders(lab, [(one.folder, one.bucket_path) for one in plan.links])


def _fixed(urls: Iterable[Value]) -> list[str]:
    """The sources in buckets, without those that contain variables of the nodes."""
    return [url for url in urls if isinstance(url, str) and url.startswith("s3://")]
