"""Asks the framework's own parser about a spec's arguments, without the spec's job.

The same program that a job runs on a node (`sections/argument_check.py`), with the Python of the
spec's environment if that is here; or on a node, in a job of one task.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import IO

from clusterjobs import resources
from clusterjobs.errors import Location, Problem
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.plugins import PlannedJob, on_this_machine
from clusterjobs.runs.submit.sbatch import clean
from clusterjobs.script.environment import template_environment
from clusterjobs.sections.argument_check import REQUEST, request_of
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import template_context
from clusterjobs.slurm.jobs import in_words
from clusterjobs.slurm.queue import cancel, known_jobs
from clusterjobs.text import ShellVariable, Text, Value, parts_of, show

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
    hint = "--in-job asks it on a node; preflight: true asks it in the job, before staging"
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
    for name in resources.with_imports(check.programs):
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
    command = [python, "-B", str(folder / "argument_check.py"), "--json", str(folder / REQUEST)]
    done = subprocess.run(
        [*command, f"job_dir={folder}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=workdir,
        check=False,
    )
    yield from _answered(plan, done.returncode, done.stdout, done.stderr, python)


def _answered(plan: Plan, code: int, said: str, errors: str, who: str) -> Iterator[Problem]:
    """The problems in what the program printed."""
    check = plan.argument_check
    assert check
    if code not in (0, _FAILED) or not said:
        last = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        yield _note(plan, f"{who}: {last}")
        return
    answer = json.loads(said)
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


# ------------------------------------------------------------------ in a job

# Options of the spec's job that decide where it may run and who pays for it.
_PLACE = ("account", "clusters", "constraint", "partition", "qos", "reservation", "wckey")
_MEMORY_MIB = 8192  # to import torch and a framework
_BETWEEN = 5.0  # seconds between two looks at the queue
_LEAVE = 10.0  # seconds for srun to cancel its job
_JOB = re.compile(r"^srun: job (\d+) queued")


def problems_in_job(job: PlannedJob, say: Callable[[str], None]) -> list[Problem]:
    """The problems of the arguments, found by a job of one task. `say` prints how far it is.

    If this is interrupted, the job is cancelled.
    """
    plan = job.plan
    if plan.argument_check is None:
        return [_note(plan, "nothing here can ask it about this job")]
    if plan.container:
        return [_note(plan, "its Python is in a container")]
    command = ["srun", *_options(plan), "bash", "-p"]
    script = _script(job)
    with tempfile.TemporaryFile("w+") as program, tempfile.TemporaryFile("w+") as answer:
        program.write(script)
        program.seek(0)
        try:
            process = subprocess.Popen(
                command,
                stdin=program,
                stdout=answer,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=clean(os.environ, script),
                start_new_session=True,  # Ctrl-C reaches this process alone, which ends srun
            )
        except FileNotFoundError:
            return [_note(plan, "there is no srun here, so no job can be started")]
        say(f"asking {plan.job.framework} in a job of one task; Ctrl-C cancels it")
        with process:
            lines = _wait(process, say)
        answer.seek(0)
        said = answer.read()
    of_job = [one for one in lines if not one.startswith("srun: ")]  # it says why, not how it ended
    errors = "\n".join(of_job or lines)
    return list(_answered(plan, process.returncode, said, errors, "the job"))


def _options(plan: Plan) -> Iterator[str]:
    """Of srun: one task, for as long as the check may take, where the spec's job would run."""
    check, memory = plan.argument_check, plan.placement.node_type.memory_mib
    assert check
    for one in plan.job.directives:
        if one.name in _PLACE and not isinstance(one.value, (bool, int)):
            yield f"--{one.name}={show(one.value)}"
    yield from (f"--job-name=validate-{plan.job.name}", "--nodes=1", "--ntasks=1")
    yield from (f"--time={check.seconds // 60 + 5}", "--mpi=none")
    if memory:  # the default of some clusters is too little, and some nodes have not more
        yield f"--mem={min(_MEMORY_MIB, memory // 2)}"


def _script(job: PlannedJob) -> str:
    """The environment of the job and the check, and nothing else of the job."""
    check = job.plan.argument_check
    assert check
    context = template_context(job.plan, job.inputs)
    names = {*resources.with_imports(check.programs), REQUEST}
    context["programs"] = [one for one in context["files"]["programs"] if one["name"] in names]
    further = job.plan.launch.launcher.template_folder
    environment = template_environment(further, job.inputs.templates)
    template = pathlib.Path(__file__).with_suffix(".sh.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(context)


def _wait(process: subprocess.Popen[str], say: Callable[[str], None]) -> list[str]:
    """Wait for srun; what it and the job printed, line by line. Says why the job waits."""
    lines: list[str] = []
    assert process.stderr
    reader = threading.Thread(target=_read, args=(process.stderr, lines, say))
    reader.start()
    told = ""
    try:
        while process.poll() is None:
            reader.join(_BETWEEN)
            why = _why_it_waits(lines) if process.poll() is None else ""
            if why not in ("", told):
                say(f"the job waits: {why}")
                told = why
    finally:
        _end(process, lines, say)
        reader.join()
    return lines


def _end(process: subprocess.Popen[str], lines: list[str], say: Callable[[str], None]) -> None:
    """End srun, if it still runs: it cancels its job then. One that does not end is killed."""
    process.terminate()
    try:
        process.wait(_LEAVE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # it leads a session of its own
        process.wait()
        ids = _job_ids(lines)
        refused = cancel(sorted(ids)) if ids else {}
        if refused or not ids:
            say(f"srun did not end in {_LEAVE:.0f} s; see squeue, its job may still be there")


def _read(errors: IO[str], lines: list[str], say: Callable[[str], None]) -> None:
    for line in errors:
        lines.append(line.rstrip("\n"))
        say(lines[-1])


def _why_it_waits(lines: list[str]) -> str:
    """Slurm's reason in words; "" for a job that does not wait."""
    ids = _job_ids(lines)
    waiting = [one for one in known_jobs() or () if one.job_id in ids and one.state == "PENDING"]
    return in_words(waiting[0].reason) if waiting else ""


def _job_ids(lines: list[str]) -> set[str]:
    return {found[1] for line in lines if (found := _JOB.match(line))}
