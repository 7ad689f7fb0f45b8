"""Where the jobs of a spec have written: `<logs>/<job id>`, as job.sh makes them."""

from __future__ import annotations

import os
import pathlib
import re

from clusterjobs.commands.files import read_text
from clusterjobs.errors import one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import load_spec
from clusterjobs.spec.references import as_text

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def job_folders(spec: pathlib.Path) -> dict[str, pathlib.Path]:
    """Job id -> its folder, the newest job last. Raises InputError where no job has written yet."""
    folder = _logs(spec)
    found = [path for path in folder.glob("[0-9]*") if path.name.isdecimal() and path.is_dir()]
    if not found:
        raise one_problem(
            f"no job has written to {folder} yet",
            hint="this is where `logs` of the spec leads; a job writes there once it has started",
        )
    return {path.name: path for path in sorted(found, key=lambda path: int(path.name))}


def chosen_folder(spec: pathlib.Path, job_id: str | None) -> tuple[str, pathlib.Path]:
    """The job's id and folder; the newest job where none is named."""
    folders = job_folders(spec)
    wanted = job_id or list(folders)[-1]
    if wanted not in folders:
        known = ", ".join(list(folders)[-8:])
        raise one_problem(f"no job {wanted} of this spec", hint=f"its jobs: {known}")
    return wanted, folders[wanted]


def _logs(spec: pathlib.Path) -> pathlib.Path:
    experiment = load_spec(read_text(spec), str(spec), option_models()).experiment
    written = as_text(experiment.logs.path)
    missing = [name for name in _VARIABLE.findall(written) if name not in os.environ]
    if missing:
        raise one_problem(
            f"logs is {written}, and {missing[0]} is not set here",
            hint=f"{missing[0]}=... clusterjobs ...",
        )
    return pathlib.Path(_VARIABLE.sub(lambda match: os.environ[match[1]], written))
