"""What foresight expects of a spec, for `--against`."""

from __future__ import annotations

import pathlib

from clusterjobs.commands.foresight.job import Unknown
from clusterjobs.commands.foresight.of_project import foresight_of
from clusterjobs.commands.pipeline import Project, load
from clusterjobs.commands.show import show_problems
from clusterjobs.errors import one_problem
from clusterjobs.report.against import Predicted


def predicted_for(spec: pathlib.Path) -> Predicted:
    """The prediction. Raises InputError if the spec is wrong, or nothing can be predicted."""
    project = load(spec, (), to_write=False)
    if not isinstance(project, Project):
        raise one_problem(f"--against {spec}: it has a sweep", hint="name a spec without a sweep")
    found = foresight_of(project, with_nearest=False)
    if isinstance(found, Unknown):
        show_problems(found.problems)
        raise one_problem(f"--against {spec}: {found.why}", hint=found.hint)
    speed = found.speed
    return Predicted(
        spec.name,
        speed and speed.step_seconds,
        speed and speed.tokens_per_second_per_gpu,
        speed and speed.tflops_per_gpu,
        speed and speed.mfu,
        found.memory.gib,
    )
