"""Buckets of a lab: `buckets/NAME` in its folder stands for s3://NAME.

A link in a shared folder stands for an association of FSx. On the nodes, `stage_lab.py` finds the
folders. This module knows the links and buckets that a job uses; it must not know experiments.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from clusterjobs.errors import InputError, Problem
from clusterjobs.lab.folder import LabFolder


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
