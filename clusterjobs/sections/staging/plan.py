"""How each data set of a spec gets to its target.

A file system that is linked to a bucket lists it and reads a file from it when the file is first
read, or when the job preloads it. Everything else is copied by the job.
Source: the FSx for Lustre user guide, "Linking your file system to an S3 bucket" and "Preloading
files into your file system".
"""

from __future__ import annotations

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.sections.context import Context
from clusterjobs.sections.files.plan import check_data_paths, plan_inputs
from clusterjobs.sections.plan import DataSet, Staging
from clusterjobs.sections.staging.checks import (
    check_data,
    check_overlaps,
    check_own_folders,
    check_room,
)
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import expanding, show


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
        paths, per_node = (expanding(one.source), expanding(one.target)), one.scope == "node"
        sets.append(DataSet(*paths, per_node, linked, one.unpack, one.verify, one.overwrite))
        if linked:
            if one.overwrite:
                context.problem(
                    ("data", index, "overwrite"),
                    "an association shows a bucket as it is, and overwrites nothing",
                    "leave it out",
                )
            where = context.diagnostics.where(("data", index, "target"))
            reason = f"data of the experiment {context.spec.name}"
            links.append(BucketLink(show(one.target), show(one.source), reason, where=where))
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
            f"{show(data.target)}: shown by {service}, and preloaded before the training",
            f"a bucket on {service} is read by its servers, and the job only preloads it",
            f"{service} user guide: lfs hsm_restore",
        )
    where = "to every node's own disk" if data.scope == "node" else "once, for all nodes"
    verb = "unpacked" if data.unpack else "copied"
    tool = "by s5cmd or aws" if data.source.startswith("s3://") else "by several processes"
    return f"{show(data.target)}: {verb} {where}", f"from {show(data.source)}, {tool}", ""
