"""How each data set of a spec gets to its target.

A file system that is linked to a bucket lists it and reads a file from it when the file is first
read, or when the job preloads it. Everything else is copied by the job.
Source: the FSx for Lustre user guide, "Linking your file system to an S3 bucket" and "Preloading
files into your file system".
"""

from collections.abc import Mapping
from typing import Any

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.files import check_data_paths, plan_inputs
from clusterjobs.sections.plan import UNPACKERS, DataSet, Input, Staging
from clusterjobs.sections.storage import is_below
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import (
    expanding,
    is_absolute,
    is_rooted,
    joined,
    show,
    variable,
    without_slash,
)

# ------------------------------------------------------------------ checks
# Refuses data sets with impossible paths: they conflict with each other or with the cluster.


def check_data(context: Context, index: int, data: Data) -> None:
    """Check one data set by itself."""
    _check_paths(context, index, data)
    if data.scope == "node":
        _check_own_disk(context, index, data)
    else:
        _check_shared(context, index, data)
    if data.unpack and not show(data.source).lower().endswith(tuple(UNPACKERS)):
        context.problem(
            ("data", index, "source"),
            f"{show(data.source)} is not an archive that a job can unpack",
            f"one of {', '.join(UNPACKERS)}; or leave unpack out",
        )


def _check_paths(context: Context, index: int, data: Data) -> None:
    for key in ("source", "target"):
        value = getattr(data, key)
        if not (is_absolute(value) or value.startswith("s3://")):
            context.problem(
                ("data", index, key),
                f"{show(value)} is relative, but the nodes have no common working folder",
                f"an absolute path: /fsx/{show(value)}",
            )
    if data.source.startswith("s3://"):
        return
    place = ("data", index, "target")
    if without_slash(data.source) == without_slash(data.target):
        context.problem(place, "source and target are the same folder", "remove one of them")
    elif is_below(data.target, data.source) or is_below(data.source, data.target):
        context.problem(
            place,
            f"{show(data.target)} and {show(data.source)} lie inside each other",
            "choose a target outside of the source",
        )


def _check_own_disk(context: Context, index: int, data: Data) -> None:
    storage = context.storage
    place, folder = ("data", index, "target"), data.target
    if not folder.startswith("/"):
        return
    if storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is shared, so that every node would copy to the same place",
            f"scope: shared copies once; a node's own disk is {storage.scratch}",
        )
    elif not storage.is_own(folder):
        context.problem(
            place,
            f"{show(folder)} is not on a local disk of the nodes",
            f"a folder below {storage.scratch}",
        )
    elif without_slash(folder) == storage.scratch:
        context.problem(
            place,
            f"{show(folder)} is a mount point: nothing can be copied beside it first",
            f"a folder below it: {storage.scratch}/data",
        )
    elif is_below(folder, storage.scratch) and storage.node_type.local_disk_gb == 0:
        context.problem(
            place,
            f"a {storage.node_type.name} has no local disks: {storage.scratch} is on its "
            "root volume, if it exists",
            "scope: shared, or an instance type with NVMe disks",
            warning=True,
        )


def _check_shared(context: Context, index: int, data: Data) -> None:
    storage = context.storage
    place, folder = ("data", index, "target"), data.target
    if not folder.startswith("/") or not storage.facts.mounts_complete:
        return
    if storage.is_own(folder) and not storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is each node's own, and only the first node would have the data",
            f"scope: node copies to every node; shared folders: {storage.mounts}",
        )
    elif not storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is not on shared storage of {storage.facts.name}",
            f"its shared folders: {storage.mounts}",
            warning=True,
        )
    elif storage.is_mount_point(folder):
        context.problem(
            place,
            f"{show(folder)} is a mount point: nothing can be copied beside it first",
            f"a folder below it: {show(without_slash(folder))}/data",
        )


def check_overlaps(context: Context) -> None:
    """Refuse two data sets in one folder: their files could not be told apart."""
    data = context.spec.data
    for index, one in enumerate(data):
        for earlier in range(index):
            other = data[earlier].target
            if is_below(one.target, other) or is_below(other, one.target):
                line = context.diagnostics.line_of(("data", earlier, "target"))
                context.problem(
                    ("data", index, "target"),
                    f"{show(one.target)} and the target {show(other)} ({line}) are the same, or "
                    "one is below the other",
                    "choose a separate folder for each",
                )


def check_own_folders(context: Context) -> None:
    """Refuse a target that is the folder of the logs or the checkpoints, or above it, or in it."""
    spec = context.spec
    folders = {"logs": spec.logs.path}
    if spec.checkpoints:
        folders["checkpoints.path"] = spec.checkpoints.path
    for index, one in enumerate(spec.data):
        for key, folder in folders.items():
            if is_below(one.target, folder) or is_below(folder, one.target):
                context.problem(
                    ("data", index, "target"),
                    f"{show(one.target)} and {key}, {show(folder)}, are the same, or one is below "
                    "the other: staging would take the job's files for data",
                    "choose a separate folder for the data",
                )


def check_room(context: Context) -> None:
    """Compare the data for a folder with the folder's size, if both are known."""
    for folder, capacity, is_shared in context.storage.capacities:
        wanted = 0
        for index, one in enumerate(context.spec.data):
            if one.size_gib is None or not is_below(one.target, folder):
                continue
            wanted += one.size_gib
            if wanted > capacity:
                context.problem(
                    ("data", index, "size_gib"),
                    f"{folder} has {capacity:,} GiB, and {wanted:,} GiB are staged to it",
                    f"a larger {context.storage.facts.terms.capacity}, or less data"
                    if is_shared
                    else "scope: shared, or an instance type with larger disks",
                )
                break


def plan(context: Context) -> Staging:
    """Shared targets come first: a node's local copy may be made from there."""
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


# ------------------------------------------------------------------ text
# The inputs to check, and the data to copy.


_PACKAGES: Mapping[str, str] = {"xz": "xz-utils (Debian, Ubuntu) or xz"}  # others: as the program
_VERIFY: Mapping[str, str] = {"source": " --refresh", "contents": " --reread"}


def render(rendering: Rendering) -> dict[str, Any]:
    staging = rendering.plan.staging
    return {
        "inputs": [
            *(_require(one) for one in staging.inputs if not one.made_late),
            *map(_require_program, staging.unpackers),
            *(_require_bucket(one) for one in staging.data if one.source.startswith("s3://")),
        ],
        "late_inputs": [_require(one) for one in staging.inputs if one.made_late],
        "data": [_stage(one) for one in staging.data],
        "has_per_node": any(one.per_node for one in staging.data),
    }


def _require(one: Input) -> ShellText:
    path, is_absolute = shell.quote(one.path), is_rooted(one.path)
    need = "-x" if one.is_run else "-r"
    there = f"{need} {path}" if one.staged is None else f"-e {path} || -e {shell.quote(one.staged)}"
    place = "here" if is_absolute else joined("in ", variable("PWD"))
    keys = one.key if is_absolute else f"{one.key} or workdir"
    what = f"executable {one.what}" if one.is_run else one.what
    hint = f": correct the spec's {keys}, or put it there"
    complaint = joined("no ", what, " ", one.path, " ", place, hint)
    if one.staged is not None:
        node, hint = (
            variable("SLURMD_NODENAME"),
            f": correct the spec's {keys}, or put the data there",
        )
        complaint = joined("the data source ", one.path, " does not exist on node ", node, hint)
    return ShellText(f"[[ {there} ]] || fail {shell.quote(complaint)}")


def _require_program(program: str) -> ShellText:
    package = _PACKAGES.get(program, program)
    complaint = (
        f"no program {program} on this node, to unpack an archive of data: install the package "
        f"{package}, or pack the archive in another way"
    )
    return ShellText(f"[[ -n $(type -P {program}) ]] || fail {shell.quote(complaint)}")


def _require_bucket(data: DataSet) -> ShellText:
    """A bucket that cannot be read is found before other data is copied for hours."""
    if not data.linked:
        return _run_stage(data, " --check", "")
    # The slash: in a lab, the folder is a link.
    first = f"find {shell.quote(joined(data.target, '/'))} -mindepth 1 -print -quit 2> /dev/null"
    hint = " (cluster.yaml; pcluster update-cluster), and has FSx listed it?"
    complaint = shell.quote(
        joined("nothing in ", data.target, ": is it associated with ", data.source, hint)
    )
    return ShellText(f"[[ -n $({first}) ]] || fail {complaint}")


def _stage(data: DataSet) -> ShellText:
    """The command that copies a data set, or makes the file system load it."""
    target = shell.quote(data.target)
    if data.linked:
        return ShellText(f'stage python3 -B "$job_dir/preload.py" {target}')
    starter = '"${on_every_node[@]}" ' if data.per_node else ""
    options = _VERIFY.get(data.verify, "") + (" --overwrite" if data.overwrite else "")
    return _run_stage(data, options, starter)


def _run_stage(data: DataSet, option: str, starter: str) -> ShellText:
    options = (" --unpack" if data.unpack else "") + option
    paths = f"{shell.quote(data.source)} {shell.quote(data.target)}"
    return ShellText(f'stage {starter}python3 -B "$job_dir/stage.py"{options} {paths}')
