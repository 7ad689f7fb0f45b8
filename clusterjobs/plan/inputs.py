"""Files that must exist before a rank starts: the script, and the sources of data.

The job checks once, before its first attempt: a retry would miss the same files.
Buckets are not checked: an empty answer is hard to tell from a failed request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Location
from clusterjobs.frameworks.base import Program
from clusterjobs.plan.storage import is_below
from clusterjobs.spec.experiment import Data, Experiment
from clusterjobs.spec.references import expanding
from clusterjobs.yaml.document import Path, dotted


class Input(NamedTuple):
    """A path that is read; a relative one is relative to the ranks' folder.

    `staged`: its target, if it is staged; a complete target no longer needs its source.
    `made_late`: staging or a command before the training may create it.
    """

    what: str
    key: str
    path: str
    staged: str | None
    made_late: bool
    where: Location


def plan_inputs(
    experiment: Experiment, program: Program, diagnostics: Diagnostics
) -> tuple[Input, ...]:
    """The inputs that the first node can check."""
    scripts = _scripts(experiment, program) if experiment.script and program.is_python else ()
    where = diagnostics.where(("script",))
    return (
        *(Input("script", "script", path, None, late, where) for path, late in scripts),
        *_sources(experiment.data, diagnostics),
    )


def _scripts(experiment: Experiment, program: Program) -> Iterator[tuple[str, bool]]:
    """The scripts, and whether each is made late. deepy.py counts: it starts the other script."""
    for path in dict.fromkeys((program.command[0], expanding(experiment.script or ""))):
        is_whole = path.startswith(("/", "\0"))
        whole = path if is_whole else f"{experiment.workdir or '.'}/{path}"
        # In a container, only `workdir` is sure to have the same path as outside.
        if not (experiment.software.container and is_whole):
            yield path, bool(experiment.before) or _is_staged(whole, experiment.data)


def _sources(data: Sequence[Data], diagnostics: Diagnostics) -> Iterator[Input]:
    for index, one in enumerate(data):
        if one.source.startswith("s3://") or _is_staged(one.source, data):
            continue
        key: Path = ("data", index, "source")
        source, target = expanding(one.source), expanding(one.target)
        yield Input("data source", dotted(key), source, target, False, diagnostics.where(key))


def _is_staged(path: str, data: Sequence[Data]) -> bool:
    return any(is_below(path, one.target) for one in data)
