"""What has to be there before a rank starts: the script, and the paths that data comes from.

What is missing is missing in every attempt, so the job looks for it once, and does not come back.
A bucket is not looked at: an empty answer is hard to tell from one that does not come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Location
from clusterjobs.frameworks.base import Program
from clusterjobs.plan.storage import is_below
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import expanding
from clusterjobs.yaml.document import Path, dotted


class Input(NamedTuple):
    """A path that is read; a relative one counts from where the ranks run.

    `staged`: where it is staged to; what is there already needs its source no more.
    `made_late`: a command before the training, or the data, may be what brings it.
    """

    what: str
    key: str
    path: str
    staged: str | None
    made_late: bool
    where: Location


def resolve_inputs(
    experiment: Experiment, program: Program, diagnostics: Diagnostics
) -> tuple[Input, ...]:
    """The inputs that can be looked for on the first node."""
    return (*_scripts(experiment, program, diagnostics), *_sources(experiment, diagnostics))


def _scripts(experiment: Experiment, program: Program, diagnostics: Diagnostics) -> Iterator[Input]:
    """deepy.py is one as well, in front of the script that it starts."""
    if experiment.script is None or not program.is_python:
        return
    for path in dict.fromkeys((program.command[0], expanding(experiment.script))):
        if _is_seen_from_here(experiment, path):
            late = bool(experiment.before) or _is_brought(_whole(experiment, path), experiment)
            yield _input("script", ("script",), path, None, late, diagnostics)


def _is_seen_from_here(experiment: Experiment, path: str) -> bool:
    """In a container `workdir` alone is certain to be where it is outside."""
    return experiment.software.container is None or not path.startswith(("/", "\0"))


def _whole(experiment: Experiment, path: str) -> str:
    return path if path.startswith(("/", "\0")) else f"{experiment.workdir or '.'}/{path}"


def _sources(experiment: Experiment, diagnostics: Diagnostics) -> Iterator[Input]:
    for index, data in enumerate(experiment.data):
        if data.source.startswith("s3://") or _is_brought(data.source, experiment):
            continue
        source, target = expanding(data.source), expanding(data.target)
        yield _input("data source", ("data", index, "source"), source, target, False, diagnostics)


def _is_brought(path: str, experiment: Experiment) -> bool:
    return any(is_below(path, one.target) for one in experiment.data)


def _input(
    what: str, key: Path, path: str, staged: str | None, made_late: bool, diagnostics: Diagnostics
) -> Input:
    return Input(what, dotted(key), path, staged, made_late, diagnostics.where(key))
