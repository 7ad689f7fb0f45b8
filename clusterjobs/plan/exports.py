"""What a job copies away while it runs and when it ends: checkpoints and logs.

FSx for Lustre exports by itself what lies in a folder with an association (AutoExportPolicy), and
goes on after the job's end. Everything else is copied by the job, beside the training.
Source: the FSx for Lustre user guide, "Automatically export updates to your S3 bucket".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Location
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.plan.storage import Storage, is_below
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import show, variable
from clusterjobs.yaml.document import Path


class Export(NamedTuple):
    """One folder on its way out. `by_association`: FSx does it, and the job does nothing.

    `is_of_job`: the job's own folder, of which the keys for ssh stay where they are.
    """

    source: str
    target: str
    by_association: bool
    reason: str
    where: Location
    is_of_job: bool = False


def resolve_exports(
    experiment: Experiment, storage: Storage, diagnostics: Diagnostics, provenance: Provenance
) -> tuple[Export, ...]:
    """The exports of `checkpoints.export` and `logs_export`."""
    exports = tuple(_wanted(experiment, storage, diagnostics, provenance))
    _check_via(experiment, storage, diagnostics)
    return exports


def _wanted(
    experiment: Experiment, storage: Storage, diagnostics: Diagnostics, provenance: Provenance
) -> Iterator[Export]:
    checkpoints, name = experiment.checkpoints, experiment.name
    if checkpoints and checkpoints.export:
        source, target = checkpoints.path, checkpoints.export
        path: Path = ("checkpoints", "export")
        _check_apart(path, source, target, diagnostics)
        by_association = checkpoints.via != "copy" and (
            checkpoints.via == "association"
            or (target.startswith("s3://") and storage.is_on_lustre(source))
        )
        _explain("checkpoints.export", target, by_association, provenance)
        reason = f"checkpoints of the experiment {name}"
        yield Export(source, target, by_association, reason, diagnostics.where(path))
    if experiment.logs_export:
        path, logs = ("logs_export",), experiment.logs or "logs"
        _check_apart(path, logs, experiment.logs_export, diagnostics)
        _explain("logs_export", experiment.logs_export, False, provenance)
        target = f"{experiment.logs_export.rstrip('/')}/{variable('SLURM_JOB_ID')}"
        reason = f"logs of {name}"
        yield Export(JOB_DIR, target, False, reason, diagnostics.where(path), is_of_job=True)


def _explain(key: str, target: str, by_association: bool, provenance: Provenance) -> None:
    if by_association:
        provenance.record(
            key,
            f"{show(target)}: exported by FSx for Lustre",
            "its servers copy what is new or changed, and go on after the job's end",
            "FSx for Lustre user guide: AutoExportPolicy",
        )
    else:
        provenance.record(
            key,
            f"{show(target)}: copied by the job",
            "beside the training, from the start on, and once more at the end",
        )


def _check_apart(path: Path, source: str, target: str, diagnostics: Diagnostics) -> None:
    if target.startswith("s3://"):
        return
    if not target.startswith(("/", "${", "\0")):
        diagnostics.problem(
            path,
            f"{show(target)} is relative, and the nodes have no folder in common to count from",
            f"an absolute path: /fsx/{show(target)}",
        )
    elif is_below(target, source) or is_below(source, target):
        diagnostics.problem(
            path,
            f"{show(target)} and {show(source)} are the same, or one lies in the other",
            "a folder beside it",
        )


def _check_via(experiment: Experiment, storage: Storage, diagnostics: Diagnostics) -> None:
    checkpoints = experiment.checkpoints
    if checkpoints is None or checkpoints.via is None:
        return
    if checkpoints.export is None:
        diagnostics.problem(("checkpoints", "via"), "there is no export", "add export: s3://...")
    elif checkpoints.via == "association" and not (
        checkpoints.export.startswith("s3://") and storage.is_on_lustre(checkpoints.path)
    ):
        known = ", ".join(storage.lustre) or f"{storage.cluster} has none"
        diagnostics.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is not a fixed folder on FSx for Lustre, which alone "
            "exports to a bucket by itself",
            f"file systems: {known}; elsewhere, via: copy",
        )
