"""Gives each point of a sweep a checkpoint folder of its own.

It knows which keys name such folders; it must not know how they are written or copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.expand_references import expanded_text
from clusterjobs.spec.references import POINT_VARIABLES, variable, variable_names
from clusterjobs.yaml.document import dotted, look_at

if TYPE_CHECKING:
    from clusterjobs.spec.points import Point

OWN = "{{ point.label }}"
_OF_ONE_POINT = {*POINT_VARIABLES, "job_dir"}
_OF_ONE_TASK = "SLURM_JOB_ID"
_FOLDERS = (("checkpoints", "path"), ("checkpoints", "export"))


def with_own_folders(
    data: dict[str, Any], source: Locator, notes: list[Problem], *, packed: bool
) -> dict[str, Any]:
    """The spec of a point; its label is appended to folders that points would share.

    The notes say so. `packed`: several points have the same job id.
    """
    for path in _FOLDERS:
        written = look_at(data, path)
        if not isinstance(written, str) or not written:
            continue
        if is_shared(expanded_text(data, *path) or written, packed=packed):
            section, key = path
            inner, appended = data[section], f"{written.rstrip('/')}/{OWN}"
            data = {**data, section: {**inner, key: appended}}
            what = f"the points would share this folder, so {OWN} is appended"
            where, hint = source.locate(path), f'write "{appended}"'
            notes.append(Problem(what, where, dotted(path), hint, warning=True, info=True))
    return data


def is_shared(folder: str, *, packed: bool) -> bool:
    """Whether several points would have this folder."""
    own = _OF_ONE_POINT if packed else {*_OF_ONE_POINT, _OF_ONE_TASK}
    return not own.intersection(variable_names(folder))


def in_the_job(folder: str, point: Point, *, packed: bool) -> str:
    """The folder of this point, with what tells its job from others in place of the marks."""
    own = {"point_name": point.name, "point_label": point.label, "point_index": str(point.index)}
    own |= {"job_dir": f"/{point.name}", _OF_ONE_TASK: "job" if packed else point.name}
    for name, value in own.items():
        folder = folder.replace(variable(name), value)
    return folder
