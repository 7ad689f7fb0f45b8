"""The checkpoints' folder, and the exports: checkpoints and logs that are copied elsewhere.

Some file systems export a folder to a bucket by themselves, also after the job's end: that is a
BucketLink. All other exports are made by the job, in parallel to the training.
Source: the FSx for Lustre user guide, "Automatically export updates to your S3 bucket".
"""

from collections.abc import Iterator, Sequence
from typing import Any

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.frameworks.base import JOB_DIR, folder_on_the_node
from clusterjobs.script import shell
from clusterjobs.script.lines import NOTHING, command_text
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.plan import POINT, Checkpoints, Export, Staging
from clusterjobs.sections.storage import Storage, is_below
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.staging import Checkpoints as WrittenCheckpoints
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import (
    Text,
    Value,
    expanding,
    is_absolute,
    joined,
    not_required,
    parts_of,
    show,
    variable,
    variable_names,
    without_points,
    without_slash,
)
from clusterjobs.yaml.document import Path


def plan(context: Context) -> Checkpoints:
    spec, saving = context.spec, context.framework.saving
    checkpoints, exports = spec.checkpoints, list[Export | BucketLink]()
    path: Value | None = None
    marker: Value | None = saving.marker
    if checkpoints:
        path, marker = folder_on_the_node(checkpoints.path), checkpoints.marker or marker
        _check_marker(context, checkpoints.marker)
        _check_via(context, checkpoints)
        exports += _export(context, checkpoints)
        if saving.resume_option:
            context.record(
                "resume",
                f"{saving.resume_option} with the newest complete checkpoint-N, if there is one",
                "the Trainer resumes only from a checkpoint that it is given",
                "transformers, Trainer.train",
            )
    if spec.logs.overwrite and not spec.logs.export:
        _report_missing_export(context, "logs")
    if spec.logs.export:
        exports.append(_logs(context, spec.logs.export))
    return Checkpoints(
        path,
        joined(path, "/", expanding(marker)) if path and marker else None,
        tuple(one for one in exports if isinstance(one, Export)),
        tuple(one for one in exports if isinstance(one, BucketLink)),
        saving.resume_option if path else "",
        checkpoints is not None and checkpoints.from_ == "any",
        saving.overwritten if path else (),
    )


def _logs(context: Context, target: Value) -> Export:
    spec = context.spec
    logs, sweep = spec.logs, spec.sweep
    _check_apart(context, ("logs", "export"), logs.path, target)
    _record_copy(context, "logs.export", target)
    folder = without_slash(expanding(target))
    if sweep:  # as below logs.path: points that share a node have the same job id
        folder = joined(folder, "/", sweep.name or spec.name, "/", POINT)
    target = joined(folder, "/", variable("SLURM_JOB_ID"))
    return Export(JOB_DIR, target, logs.overwrite, of_job=True)


def _export(context: Context, checkpoints: WrittenCheckpoints) -> Iterator[Export | BucketLink]:
    source, target, via = checkpoints.path, checkpoints.export, checkpoints.via
    if target is None:
        return
    path: Path = ("checkpoints", "export")
    _check_apart(context, path, source, target)
    linked = _linked(source, target, context.storage)
    if via != "association" and not (linked and via is None):
        _record_copy(context, "checkpoints.export", target)
        yield Export(folder_on_the_node(source), expanding(target), checkpoints.overwrite)
        return
    service = context.storage.facts.bucket_service
    context.record(
        "checkpoints.export",
        f"{show(target)}: exported by {service}",
        "its servers copy new and changed files, also after the job's end",
        f"{service} user guide: AutoExportPolicy",
    )
    reason = f"checkpoints of the experiment {context.spec.name}"
    where = context.diagnostics.where(path)
    folder, prefix = linked or (show(source), show(target))
    yield BucketLink(folder, prefix, reason, export=True, where=where)


def _linked(source: Value, target: Value, storage: Storage) -> tuple[str, str] | None:
    """The folder and the bucket's prefix to link; None if neither can be linked.

    For a sweep, it is the common part of the points' folders.
    """
    if not target.startswith("s3://"):
        return None
    folder, prefix = without_points(source), without_points(target)
    if isinstance(folder, Text) or isinstance(prefix, Text):
        return None
    if (folder, prefix) == (source, target):
        return (folder, prefix) if storage.can_link(folder) else None
    own = parts_of(source)[1:]
    is_below_both = (parts_of(source), parts_of(target)) == ((folder, *own), (prefix, *own))
    if not (is_below_both and folder.endswith("/") and prefix.endswith("/")):
        return None
    return (folder.rstrip("/"), prefix.rstrip("/")) if storage.can_link(folder) else None


def _record_copy(context: Context, key: str, target: Value) -> None:
    context.record(
        key,
        f"{show(target)}: copied by the job",
        "in parallel to the training, and once more at the end",
    )


def _check_marker(context: Context, marker: Value | None) -> None:
    if marker and marker.startswith("/"):
        context.problem(
            ("checkpoints", "marker"),
            "the marker must be a file in the checkpoints' folder",
            "write its name only: `marker: latest`",
        )


def _check_apart(context: Context, path: Path, source: Value, target: Value) -> None:
    if target.startswith("s3://"):
        return
    if not is_absolute(target):
        context.problem(
            path,
            f"{show(target)} is relative, but the nodes have no common working folder",
            f"an absolute path: /fsx/{show(target)}",
        )
    elif is_below(target, source) or is_below(source, target):
        context.problem(
            path,
            f"{show(target)} and {show(source)} are the same, or one is below the other",
            "choose a folder outside of it",
        )


def _check_via(context: Context, checkpoints: WrittenCheckpoints) -> None:
    storage = context.storage
    export = checkpoints.export
    if checkpoints.overwrite and export is None:
        _report_missing_export(context, "checkpoints")
    if checkpoints.via and export is None:
        context.problem(("checkpoints", "via"), "there is no export", "add export: s3://...")
    elif checkpoints.via == "association" and not (
        export and _linked(checkpoints.path, export, storage)
    ):
        context.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is not a fixed folder on {storage.service}, which alone "
            "exports to a bucket by itself",
            f"file systems: {storage.linking}; elsewhere, via: copy",
        )


def _report_missing_export(context: Context, section: str) -> None:
    what = "there is no export, so nothing is overwritten"
    context.problem((section, "overwrite"), what, "add export: s3://..., or leave it out")


# ------------------------------------------------------------------ checks
# Warnings about folders that are lost or not found, and buckets that the nodes cannot access.


def check_bucket_access(context: Context) -> None:
    """Warn about each bucket that the nodes cannot access by the cluster's description.

    The bucket's own policy, which cannot be read here, may allow it. Buckets that are linked to a
    file system are not checked: its servers access them, not the nodes.
    """
    partition = context.facts.partition(context.placement.partition)
    if partition.bucket_access is None:
        return
    for path, place, writes in _used(context.spec.data, context.staging, context.checkpoints):
        bucket = place.removeprefix("s3://").partition("/")[0]
        if lack := partition.bucket_access.lack(bucket, writes):
            context.problem(
                path,
                f"by the cluster's config the nodes of queue {partition.name} may not "
                f"{'write to' if writes else 'read'} s3://{bucket}: {lack.what}",
                lack.hint,
                warning=True,
            )


def _used(
    data: Sequence[Data], staging: Staging, checkpoints: Checkpoints
) -> Iterator[tuple[Path, str, bool]]:
    linked = {one.target for one in staging.data if one.linked}
    for index, one in enumerate(data):
        if one.source.startswith("s3://") and one.target not in linked:
            yield ("data", index, "source"), show(one.source), False
    for export in checkpoints.exports:
        if export.target.startswith("s3://"):
            path = ("logs", "export") if export.of_job else ("checkpoints", "export")
            yield path, show(export.target), True


def check_folders(context: Context) -> None:
    """Check where logs and checkpoints are written."""
    spec = context.spec
    checkpoints, container = spec.checkpoints, spec.software.container
    _check_shared_folders(context)
    if checkpoints and "attempt" in variable_names(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            "each attempt has a folder of its own, so that none goes on from the one before",
            "leave out {{ job.attempt }}",
            warning=True,
        )
    workdir = spec.workdir or (container.workdir if container else None)
    if checkpoints and workdir and not is_absolute(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is one folder for the job, which counts from where sbatch "
            "is called, and another for the training, which runs in workdir",
            f"the whole path: /fsx/{show(checkpoints.path)}",
        )


def _check_shared_folders(context: Context) -> None:
    """Warn about logs and checkpoints on a node's local disk: they are lost with the node."""
    facts = context.facts
    mounts = [mount.path for mount in facts.mounts]
    shared = (*facts.shared_folders, *mounts)
    for path, folder in _folders(context.spec) if facts.mounts_complete else ():
        if folder.startswith("/") and not any(is_below(folder, one) for one in shared):
            known = ", ".join(mounts) or "none but /home"
            context.problem(
                path,
                f"{show(folder)} is not on shared storage of {facts.name}",
                f"its shared folders: {known}",
                warning=True,
            )


def _folders(spec: Experiment) -> Iterator[tuple[Path, Value]]:
    if spec.workdir:
        yield ("workdir",), spec.workdir
    yield ("logs", "path"), spec.logs.path
    if spec.checkpoints:
        yield ("checkpoints", "path"), spec.checkpoints.path


# ------------------------------------------------------------------ text
# Their folder and the exports.


def render(rendering: Rendering) -> dict[str, Any]:
    plan = rendering.plan
    checkpoints = plan.checkpoints
    options = [
        *([joined("--checkpoints=", checkpoints.path)] if checkpoints.path else []),
        *([joined("--marker=", checkpoints.marker)] if checkpoints.marker else []),
    ]
    return {
        "exports": [_export_text(one) for one in checkpoints.exports],
        "is_recorded_here": checkpoints.path is not None and plan.restarts is None,
        "newest": _newest(checkpoints),
        "is_repaired": bool(checkpoints.overwritten),
        "repaired": command_text(
            [checkpoints.path or "", *(word for pair in checkpoints.overwritten for word in pair)]
        ),
        "has_latest": plan.has_latest,
        "latest_arguments": command_text(
            one for one in (checkpoints.path or "", checkpoints.marker) if one
        ),
        "has_origin": bool(checkpoints.path and rendering.origin),
        "resumes_any": checkpoints.resumes_any,
        "has_resume": bool(checkpoints.resume_option),
        "resume_option": shell.quote(checkpoints.resume_option),
        "folder": shell.quote(checkpoints.path or ""),
        "newest_option": ShellText(f' --newest="$({_newest(checkpoints)})"')
        if checkpoints.resume_option
        else NOTHING,
        # The job may fail before the parameters and the environment are set.
        "attempt_options": ShellText(" ".join(map(_if_set, options))),
    }


def _newest(checkpoints: Checkpoints) -> ShellText:
    """A command that prints the name of the newest checkpoint, as attempt.py finds it."""
    if checkpoints.resume_option:
        return ShellText(f"newest_checkpoint {_if_set(checkpoints.path or '.')}")
    if checkpoints.marker:
        marker = _if_set(checkpoints.marker)
        return ShellText(f"timeout 10 head -c 1024 -- {marker} 2>/dev/null | head -n 1")
    folder = _if_set(checkpoints.path or ".")
    options = "-mindepth 1 -maxdepth 1 ! -name '.*' -printf '%T+ %f\\n'"
    return ShellText(f"find {folder} {options} 2>/dev/null | sort | tail -n 1")


def _if_set(text: Value) -> ShellText:
    return shell.quote(not_required(text), "-")


def _export_text(one: Export) -> ShellText:
    """Arguments of export.py: a folder and its target."""
    option = "--overwrite " if one.overwrite else ""
    return ShellText(f"{option}{shell.quote(one.source)} {shell.quote(one.target)}")
