"""Measurements of single layouts: what a calibration stores, and how it narrows a prediction.

A measurement is valid for the same model, layout, GPU and software; the number of nodes may differ.
Each site folder has a file of them, `measurements.jsonl`, one run a line.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from clusterjobs.errors import Location, one_problem
from clusterjobs.foresight.formulas.memory import Memory, estimate_memory, verdict_of
from clusterjobs.foresight.formulas.speed import Speed
from clusterjobs.foresight.formulas.step import step_seconds
from clusterjobs.models.records import Layout, Range
from clusterjobs.runs.training import Training
from clusterjobs.sites.folders import MEASUREMENTS_FILE, SiteFolders, read_text, user_folder

# A run of the same layout on another number of GPUs, as a factor on the estimate: 80 % of 260
# published pairs lay within these ends.
NARROW = (0.92, 1.10)
NARROW_MEMORY = 0.05
# What may differ between the measured and the predicted job.
_FREE = ("gpus", "global_batch", "zero_group")


class Measurement(NamedTuple):
    """One measured run. `step_seconds` is the median; `peak_gib`: None if the log had no memory.

    `key` names model, layout, GPU and software; `gpus` and `global_batch` are the run's own.
    """

    key: Mapping[str, Any]
    gpus: int
    global_batch: int
    nodes: int
    step_seconds: float
    peak_gib: float | None
    steps: int
    date: str
    where: str

    def is_of(self, job: Training) -> bool:
        """Whether it is valid for the job: of the same layout, on GPUs enough for it."""
        return dict(self.key) == measured_key(job) and _layout_of(self, job).data > 0

    def shown(self) -> str:
        gpus = f"{self.gpus} {self.key['gpu']}"
        return f"measured on {gpus} ({self.where}, {self.date}, {self.steps} steps)"


def measured_key(job: Training) -> dict[str, Any]:
    """What must be the same, as JSON has it."""
    layout = {name: value for name, value in job.layout._asdict().items() if name not in _FREE}
    model = {**job.model._asdict(), "experts": job.model.experts and list(job.model.experts)}
    key = {"model": model, "layout": layout, "gpu": job.gpu.name, "software": job.software}
    found: dict[str, Any] = json.loads(json.dumps(key))
    return found


def _layout_of(known: Measurement, job: Training) -> Layout:
    return job.layout._replace(gpus=known.gpus, global_batch=known.global_batch)


def narrowed_speed(speed: Speed | None, known: Measurement | None, job: Training) -> Speed | None:
    """The prediction times what the measured run took by the prediction of itself."""
    if known is None or speed is None:
        return speed
    of_run = step_seconds(job.model, _layout_of(known, job), job.gpu, job.network)
    mid = speed.step_seconds.mid * known.step_seconds / of_run
    seconds = Range(mid * NARROW[0], mid, mid * NARROW[1])
    names = ("tokens_per_second_per_gpu", "tflops_per_gpu", "mfu", "hfu")
    middles = {name: getattr(speed, name).mid * speed.step_seconds.mid for name in names}
    rates = {name: seconds.inverse(middle) for name, middle in middles.items()}
    return speed._replace(step_seconds=seconds, **rates)  # type: ignore[arg-type]


def narrowed_memory(memory: Memory, known: Measurement | None, job: Training) -> Memory:
    """The prediction plus what the measured run had more than the prediction of itself."""
    if known is None or known.peak_gib is None:
        return memory
    own = estimate_memory(job.model, _layout_of(known, job), job.gpu)
    peak = max(memory.gib.mid + known.peak_gib - own.gib.mid, memory.gib.mid / 10)
    gib = Range(peak * (1 - NARROW_MEMORY), peak, peak * (1 + NARROW_MEMORY))
    verdict = "fits" if gib.high <= memory.capacity else verdict_of(gib.mid / memory.capacity)
    return memory._replace(gib=gib, verdict=verdict, margin=1 - peak / memory.capacity)


def read_measurements(site: SiteFolders) -> tuple[Measurement, ...]:
    """The measurements of all site folders, the newest of each folder first. Raises InputError."""
    found: list[Measurement] = []
    for file in site.files(MEASUREMENTS_FILE):
        lines = enumerate(read_text(file).splitlines(), 1)
        found += [_measurement(line, file, n) for n, line in lines if line.strip()][::-1]
    return tuple(found)


def _measurement(line: str, file: pathlib.Path, number: int) -> Measurement:
    try:
        data: Any = json.loads(line)
        found = Measurement(**data)
        key = found.key
        is_valid = isinstance(key, dict) and isinstance(key["gpu"], str)
        is_valid &= _is_number(found.step_seconds)
        is_valid &= found.peak_gib is None or _is_number(found.peak_gib)
        counts = (found.gpus, found.global_batch, found.nodes, found.steps)
        is_valid &= all(isinstance(one, int) and _is_number(one) for one in counts)
        is_valid &= isinstance(found.date, str) and isinstance(found.where, str)
    except (ValueError, TypeError, KeyError, RecursionError):
        is_valid = False
    if not is_valid:
        where = Location(str(file), number, 1, line[:200])
        hint = "remove the line, and measure again with clusterjobs calibrate"
        raise one_problem("this line is no measurement", where, hint=hint)
    return found


def _is_number(value: object) -> bool:
    """Seconds, GiB or a count that a run can have: predictions multiply and divide by it."""
    return isinstance(value, (int, float)) and 1e-9 < value < 1e12


def store(found: Measurement) -> pathlib.Path:
    """Append it to the user's own file, and return its path. Raises InputError."""
    folder = user_folder()
    if folder is None:
        raise one_problem("there is no home folder to store the measurement in", hint="set HOME")
    file = folder / MEASUREMENTS_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found._asdict(), sort_keys=True) + "\n")
    except OSError as error:
        raise one_problem(f"cannot write {file}: {error.strerror}") from None
    return file
