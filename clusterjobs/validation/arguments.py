"""Asks the framework's own parser about a spec's arguments, on this machine.

The same program that a job runs on a node (`sections/argument_check.py`), with the Python of the
spec's environment if that is here.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

from clusterjobs import resources
from clusterjobs.errors import Location, Problem
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.plugins import PlannedJob, on_this_machine
from clusterjobs.sections.argument_check import REQUEST, request_of
from clusterjobs.sections.plan import Plan
from clusterjobs.text import ShellVariable, Text, Value, parts_of

_FAILED = 69  # of the program, if the parser refuses the arguments


def argument_problems(job: PlannedJob) -> list[Problem]:
    """What the parser refuses, or a note why it was not asked."""
    plan = job.plan
    if plan.argument_check is None:
        return []
    python, why = _python(job)
    workdir = on_this_machine(plan.job.workdir) if isinstance(plan.job.workdir, str) else None
    if plan.job.workdir is not None and (workdir is None or not workdir.is_dir()):
        why = why or "workdir is not on this machine"
    if not python or why:
        return [_note(plan, why)]
    with tempfile.TemporaryDirectory(prefix="clusterjobs-") as name:
        folder = pathlib.Path(name)
        _write_files(plan, folder)
        return list(_asked(plan, python, folder, workdir or pathlib.Path()))


def _note(plan: Plan, why: str) -> Problem:
    what = f"{plan.job.framework}'s own parser was not asked about the arguments: {why}"
    hint = "preflight: true asks it in the job, before anything is staged"
    return Problem(what, hint=hint, warning=True, info=True)


def _python(job: PlannedJob) -> tuple[str, str]:
    """The Python of the environment here, or why it cannot be reached."""
    software = job.loaded.spec.software
    if software.container:
        return "", "its Python is in a container"
    if software.modules or software.setup or software.source:
        return "", "the environment needs software.modules, setup or source"
    for key, folder in (("venv", software.venv), ("conda", software.conda)):
        if folder:
            python = (
                on_this_machine(folder) / "bin" / "python3" if isinstance(folder, str) else None
            )
            is_here = python is not None and os.access(python, os.X_OK)
            return (str(python), "") if is_here else ("", f"software.{key} is not on this machine")
    python3 = shutil.which("python3")
    return (python3, "") if python3 else ("", "there is no python3")


def _write_files(plan: Plan, folder: pathlib.Path) -> None:
    """What the job's folder has when its check runs: programs, config files and the request."""
    check = plan.argument_check
    assert check
    for name in resources.with_imports(check.all_programs):
        (folder / name).write_text(resources.node_program(name), encoding="utf-8")
    for file in plan.files.configs:
        target = folder / file.folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_expanded(file.text, folder), encoding="utf-8")
    (folder / REQUEST).write_text(request_of(plan, check, is_in_job=False), encoding="utf-8")


def _expanded(value: Value, folder: pathlib.Path) -> str:
    """The text with the variables of this shell; what only the job has is 1."""
    found = ""
    for part in parts_of(value):
        if isinstance(part, str):
            found += part
        elif Text((part,)) == JOB_DIR:
            found += str(folder)
        elif os.environ.get(part.name):
            found += os.environ[part.name]
        elif isinstance(part, ShellVariable) and part.default is not None:
            found += _expanded(part.default, folder)
        else:
            found += "1"
    return found


def _asked(
    plan: Plan, python: str, folder: pathlib.Path, workdir: pathlib.Path
) -> Iterator[Problem]:
    check = plan.argument_check
    assert check
    command = [python, "-B", str(folder / "argument_check.py"), "--json", str(folder / REQUEST)]
    done = subprocess.run(
        [*command, f"job_dir={folder}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=workdir,
        check=False,
    )
    if done.returncode not in (0, _FAILED) or not done.stdout:
        said = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        yield _note(plan, f"{python}: {said}")
        return
    answer = json.loads(done.stdout)
    name = answer["version"] or plan.job.framework
    if answer["not_checked"]:
        yield _note(plan, answer["not_checked"])
    for problem in answer["problems"]:
        line = check.lines.get(problem["origin"])
        where = (
            Location(line.file, line.line, line.column, line.source, line.width) if line else None
        )
        subject = "" if line else f"{problem['flag']}: " * bool(problem["flag"])
        hint = f"in {problem['source']}" if problem["source"] else ""
        what = f"{subject}{name}: {problem['message']}"
        yield Problem(what, where, line.path if line else "", hint)
