"""Job arrays: `sbatch: {array: 0-99%10}` runs one command once for each index.

Source: sbatch(1), --array; slurm.conf(5), MaxArraySize.
"""

from __future__ import annotations

import re

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import variable_names

_RANGE = r"\d{1,7}(?:-\d{1,7}(?::[1-9]\d{0,6})?)?"
_ARRAY = re.compile(rf"({_RANGE}(?:,{_RANGE})*)(?:%\d{{1,7}})?", re.ASCII)
_DEFAULT_MAX_ARRAY_SIZE = 1001  # one more than the largest index
_PATH = ("sbatch", "array")
_OF_ONE_TASK = {"SLURM_ARRAY_TASK_ID", "SLURM_JOB_ID", "job_dir"}


def is_array(experiment: Experiment) -> bool:
    """Whether the spec is an array of jobs."""
    return "array" in experiment.sbatch


def check_array(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """The indexes, and what tasks must not share."""
    if not is_array(experiment):
        return
    if experiment.sweep is not None:
        hint = "remove it: sweep.max_running limits how many run at a time"
        diagnostics.problem(_PATH, "a sweep already runs its points as a job array", hint)
        return
    text = str(experiment.sbatch["array"])
    match = _ARRAY.fullmatch(text)
    if match is None or any(first > last for first, last in _ranges(match[1])):
        hint = "write 0-99, 0-99%10 (at most ten at a time), 1,5,7 or 0-100:10"
        diagnostics.problem(_PATH, f"{text!r} is not a list of indexes", hint)
    elif (highest := max(last for _, last in _ranges(match[1]))) >= _DEFAULT_MAX_ARRAY_SIZE:
        diagnostics.problem(
            _PATH,
            f"{highest} is more than the highest index of a Slurm with its default settings, 1000",
            "use several arrays, or let an administrator raise MaxArraySize",
            warning=True,
        )
    if experiment.framework != "command":
        diagnostics.problem(
            _PATH,
            "an array runs the same command once for each index: a training would run unchanged",
            "write it as framework: command, with {{ job.array_index }}",
        )
    _check_checkpoints(experiment, diagnostics)


def _ranges(text: str) -> list[tuple[int, int]]:
    """First and last index of each range."""
    bounds = [part.partition(":")[0].partition("-") for part in text.split(",")]
    return [(int(first), int(last or first)) for first, _, last in bounds]


def _check_checkpoints(experiment: Experiment, diagnostics: Diagnostics) -> None:
    if experiment.checkpoints is None:
        return
    if not _OF_ONE_TASK.intersection(variable_names(experiment.checkpoints.path)):
        path = experiment.checkpoints.path.rstrip("/")
        diagnostics.problem(
            ("checkpoints", "path"),
            "all tasks of the array would write into this folder",
            f"{path}/{{{{ job.array_index }}}}",
        )
