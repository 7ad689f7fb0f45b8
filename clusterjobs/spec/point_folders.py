"""Gives each point of a sweep a checkpoint folder of its own.

It knows which keys name such folders; it must not know how checkpoints are written or copied.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.expand_references import expanded_text
from clusterjobs.spec.references import variable_names
from clusterjobs.yaml.document import Path, dotted

_OWN = "/{{ point.label }}"
_OF_ONE_POINT = {"point_name", "point_label", "point_index", "job_dir", "SLURM_JOB_ID"}
_FOLDERS = (("checkpoints", "path"), ("checkpoints", "export"))


def with_own_folders(data: dict[str, Any], source: Locator, notes: list[Problem]) -> dict[str, Any]:
    """The spec of a point; its label is appended to folders that all points would share.

    The notes say so.
    """
    for path in _FOLDERS:
        written = expanded_text(data, *path)
        if written and not _OF_ONE_POINT.intersection(variable_names(written)):
            section, key = path
            inner = data[section]
            appended = f"{str(inner[key]).rstrip('/')}{_OWN}"
            data = {**data, section: {**inner, key: appended}}
            what = "the points would share this folder, so {{ point.label }} is appended"
            notes.append(_note(what, source, path, f"write {appended}"))
    return data


def _note(what: str, source: Locator, path: Path, hint: str) -> Problem:
    return Problem(what, source.locate(path), dotted(path), hint, warning=True, info=True)
