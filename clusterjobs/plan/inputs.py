"""What has to be there before a rank starts: the script, and the paths that data comes from.

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
    """A path that is read; a relative one counts from where the ranks run.

    `staged`: where it is staged to; what is there already needs its source no more.
    `made_late`: a command before the training, or the data, may create it.
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
    """The inputs that can be looked for on the first node."""
    scripts = _scripts(experiment, program) if experiment.script and program.is_python else ()
    where = diagnostics.where(("script",))
    return (
        *(Input("script", "script", path, None, late, where) for path, late in scripts),
        *_sources(experiment.data, diagnostics),
    )


def _scripts(experiment: Experiment, program: Program) -> Iterator[tuple[str, bool]]:
    """deepy.py is one as well, in front of the script that it starts. The bool: is made late."""
    for path in dict.fromkeys((program.command[0], expanding(experiment.script or ""))):
        is_whole = path.startswith(("/", "\0"))
        whole = path if is_whole else f"{experiment.workdir or '.'}/{path}"
        # In a container `workdir` alone is certain to be where it is outside.
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
