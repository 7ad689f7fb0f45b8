"""How each data set of a spec gets to its target.

A file system that is linked to a bucket lists it and reads a file from it when the file is first
read, or when the job preloads it. Everything else is copied by the job.
Source: the FSx for Lustre user guide, "Linking your file system to an S3 bucket" and "Preloading
files into your file system".
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.sections.context import Context
from clusterjobs.sections.files.plan import Input, check_data_paths, plan_inputs
from clusterjobs.sections.staging.checks import (
    ZSTD_ARCHIVES,
    check_data,
    check_overlaps,
    check_own_folders,
    check_room,
)
from clusterjobs.spec.keys.staging import Data
from clusterjobs.spec.references import expanding, show


class DataSet(NamedTuple):
    """One data set. `verify`: what is compared before an existing copy is used.

    `linked`: the file system shows the bucket's files; the job only preloads them.
    """

    source: str
    target: str
    per_node: bool
    linked: bool
    unpack: bool
    verify: str
    overwrite: bool


class Staging(NamedTuple):
    """The required inputs, the data to copy, and the links that file systems need."""

    inputs: tuple[Input, ...]
    data: tuple[DataSet, ...]
    links: tuple[BucketLink, ...]

    @property
    def needs_zstd(self) -> bool:
        """Whether an archive is unpacked by the program zstd, which nodes may lack."""
        return any(one.unpack and one.source.lower().endswith(ZSTD_ARCHIVES) for one in self.data)

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it runs on the nodes; stage.py imports the last two by name."""
        copied = [one for one in self.data if not one.linked]
        needed = {
            "preload.py": any(one.linked for one in self.data),
            "stage.py": bool(copied),
            "stage_s3.py": any(one.source.startswith("s3://") for one in copied),
            "stage_archive.py": any(one.unpack for one in copied),
        }
        return tuple(name for name, is_needed in needed.items() if is_needed)


def plan(context: Context) -> Staging:
    """The section `staging`. Shared targets first: a node's local copy may come from there."""
    data, inputs = context.spec.data, plan_inputs(context)
    check_data_paths(context)
    check_own_folders(context)
    sets: list[DataSet] = []
    links: list[BucketLink] = []
    for index, one in enumerate(data):
        check_data(context, index, one)
        linked = _is_linked(context, index, one)
        how, reason, source = _explained(one, linked, context.facts.bucket_service)
        context.record(f"data[{index}]", how, reason, source)
        source, target = expanding(one.source), expanding(one.target)
        per_node = one.scope == "node"
        sets.append(
            DataSet(source, target, per_node, linked, one.unpack, one.verify, one.overwrite)
        )
        if linked:
            if one.overwrite:
                context.problem(
                    ("data", index, "overwrite"),
                    "an association shows a bucket as it is, and overwrites nothing",
                    "leave it out",
                )
            where = context.diagnostics.where(("data", index, "target"))
            reason = f"data of the experiment {context.spec.name}"
            links.append(BucketLink(one.target, one.source, reason, where=where))
    check_overlaps(context)
    check_room(context)
    return Staging(inputs, tuple(sorted(sets, key=lambda one: one.per_node)), tuple(links))


def _is_linked(context: Context, index: int, data: Data) -> bool:
    storage = context.storage
    possible = data.source.startswith("s3://") and data.scope == "shared" and not data.unpack
    can_link = storage.can_link(data.target)
    if data.via != "association":
        return possible and can_link and data.via is None
    if not possible:
        context.problem(
            ("data", index, "via"),
            "an association shows a bucket as it is, in a folder that all nodes share",
            "via: copy",
        )
    elif not can_link:
        context.problem(
            ("data", index, "target"),
            f"{show(data.target)} is not a fixed folder on {storage.service}, which alone shows a "
            "bucket",
            f"file systems: {storage.linking}; elsewhere, via: copy",
        )
    return True


def _explained(data: Data, linked: bool, service: str) -> tuple[str, str, str]:
    if linked:
        return (
            f"{data.target}: shown by {service}, and preloaded before the training",
            f"a bucket on {service} is read by its servers, and the job only preloads it",
            f"{service} user guide: lfs hsm_restore",
        )
    where = "to every node's own disk" if data.scope == "node" else "once, for all nodes"
    verb = "unpacked" if data.unpack else "copied"
    tool = "by s5cmd or aws" if data.source.startswith("s3://") else "by several processes"
    return f"{data.target}: {verb} {where}", f"from {show(data.source)}, {tool}", ""
