"""Makes a short job of a spec: the same layers and micro batch, few nodes, few steps.

It knows which values must change for that; it must not know how jobs are submitted.
"""

from __future__ import annotations

import math

from clusterjobs.commands.foresight.job import ForeseenJob
from clusterjobs.commands.foresight.length import steps_argument
from clusterjobs.errors import one_problem
from clusterjobs.spec.load import Spec
from clusterjobs.spec.references import as_text
from clusterjobs.yaml.document import dotted

TIME_LIMIT = "00:20:00"
SUFFIX = "-calibration"


def short_settings(spec: Spec, job: ForeseenJob, steps: int, nodes: int | None) -> list[str]:
    """What `--set` must say for the short job. Raises InputError if a layout needs more nodes."""
    layout, experiment = job.layout, spec.experiment
    ranks = layout.tensor * layout.pipeline * layout.context
    least = math.ceil(ranks / layout.gpus_per_node)
    number = nodes or least
    gpus = number * layout.gpus_per_node
    if gpus % ranks:
        what = f"{gpus} GPUs of {number} nodes cannot be divided by the {ranks} of one copy"
        raise one_problem(what, hint=f"--nodes {least}")
    accumulation = min(int(layout.micro_batches), max(1, 2 * layout.pipeline))
    batch = layout.micro_batch * accumulation * (gpus // ranks)
    settings = [
        f"name={experiment.name}{SUFFIX}",
        f"nodes={number}",
        f"time_limit={TIME_LIMIT}",
        f"batch.micro={layout.micro_batch}",
        f"batch.global={batch}",
    ]
    if experiment.batch and experiment.batch.accumulation is not None:
        settings.append(f"batch.accumulation={accumulation}")
    return settings + _length(spec, job, steps, batch) + _own_folders(spec)


def _length(spec: Spec, job: ForeseenJob, steps: int, batch: int) -> list[str]:
    """The program's own argument decides how long it runs."""
    found = steps_argument(spec.experiment)
    if found is None:
        raise one_problem(
            "no argument says how many steps the program makes",
            spec.source.locate(("args",)),
            hint="add one to args, as train-iters or max-steps, or measure a log: --log job.log",
        )
    path, unit = found
    amount = {
        "steps": steps,
        "samples": steps * batch,
        "tokens": steps * batch * job.model.sequence,
    }
    return [f"{dotted(path)}={amount[unit]}"]


def _own_folders(spec: Spec) -> list[str]:
    """Checkpoints of the short job must never mix with those of the real one."""
    wanted = spec.experiment.checkpoints
    if wanted is None or SUFFIX in wanted.path:
        return []
    written = as_text(wanted.path)
    if str(spec.merged.data.get("checkpoints", {}).get("path", "")).find("name }}") >= 0:
        return []  # the name is part of the path
    return [f"checkpoints.path={written.rstrip('/')}{SUFFIX}"]
