"""The folders of the jobs of a spec: `<logs>/<job id>`, as job.sh makes them."""

from __future__ import annotations

import os
import pathlib
import re

from clusterjobs.commands.configs import refuse_config
from clusterjobs.commands.files import read_text, shown_name
from clusterjobs.errors import one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.jobs.folders import job_folders as folders_below
from clusterjobs.spec.load import load_spec
from clusterjobs.spec.references import as_text

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def job_folders(spec: pathlib.Path) -> dict[str, pathlib.Path]:
    """Job id -> folder of each job of the spec, the newest last. Raises InputError for none."""
    text = read_text(spec)
    refuse_config(text, shown_name(spec))
    experiment = load_spec(text, shown_name(spec), option_models()).experiment
    logs = _logs_folder(as_text(experiment.logs.path))
    folders = folders_below(logs)
    found = [one for one in folders if one.is_of(experiment.name, spec.name)]
    if not found:
        others = f"; the jobs of other specs there: {len(folders)}" if folders else ""
        raise one_problem(
            f"no job of {spec.name} has written to {logs} yet",
            hint=f"a job writes to `logs` of its spec once it has started{others}",
        )
    return {one.job_id: one.path for one in found}


def chosen_folder(spec: pathlib.Path, job_id: str | None) -> tuple[str, pathlib.Path]:
    """The job's id and folder; the newest job where none is named."""
    folders = job_folders(spec)
    wanted = job_id or list(folders)[-1]
    if wanted not in folders:
        known = ", ".join(list(folders)[-8:])
        raise one_problem(f"no job {wanted} of this spec", hint=f"its jobs: {known}")
    return wanted, folders[wanted]


def _logs_folder(written: str) -> pathlib.Path:
    missing = [name for name in _VARIABLE.findall(written) if name not in os.environ]
    if missing:
        raise one_problem(
            f"logs is {written}, and {missing[0]} is not set here",
            hint=f"{missing[0]}=... clusterjobs ...",
        )
    return pathlib.Path(_VARIABLE.sub(lambda match: os.environ[match[1]], written))
