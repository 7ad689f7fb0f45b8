"""Runs or reads the job of a calibration, and makes a measurement of its log."""

from __future__ import annotations

import datetime
import pathlib
from collections.abc import Sequence

from clusterjobs.commands.calibrate.short_job import short_settings
from clusterjobs.commands.foresight.job import ForeseenJob, Unknown, foreseen_job
from clusterjobs.commands.foresight.measured import Measurement, measured_key
from clusterjobs.commands.foresight.measurements import store
from clusterjobs.commands.job_folders import logs_folder
from clusterjobs.commands.pipeline import Project, load_project
from clusterjobs.commands.report.read import blocks_of
from clusterjobs.commands.report.specs import formats_of
from clusterjobs.commands.write import write_outputs
from clusterjobs.errors import one_problem
from clusterjobs.jobs.folders import job_folders
from clusterjobs.report.job import Job
from clusterjobs.report.log import read_log
from clusterjobs.report.make_run import make_run
from clusterjobs.spec.references import as_text


def short_project(
    spec: pathlib.Path, settings: Sequence[str], steps: int, nodes: int | None
) -> Project:
    """The short job. Raises InputError."""
    whole = load_project(spec, settings)
    more = short_settings(whole.spec, job_of(whole), steps, nodes)
    return load_project(spec, [*settings, *more])


def job_of(project: Project) -> ForeseenJob:
    """The job of a project; CPUs count as GPUs where a node has none. Raises InputError."""
    facts, configs = project.source.facts, project.configs
    found = foreseen_job(project.plan, project.spec, facts, configs, with_cpus=True)
    if isinstance(found, Unknown):
        raise one_problem(found.why, project.spec.source.locate(()), hint=found.hint)
    return found


def write(project: Project, output: pathlib.Path, force: bool) -> None:
    """Write the files of the short job. Raises InputError."""
    write_outputs(output, project.outputs(), force)


def of_run(
    spec: pathlib.Path, project: Project, output: pathlib.Path, force: bool
) -> tuple[int, Measurement | None]:
    """Submit the short job, follow it, and read its log; the job's exit code."""
    from clusterjobs.commands.run import run_job

    code = run_job(spec, project, output, force, ())
    if code:
        return code, None
    logs = logs_folder(as_text(project.spec.experiment.logs.path))
    own = [one for one in job_folders(logs) if one.plan.get("name") == project.plan.job.name]
    if not own:
        raise one_problem(f"the short job left no folder in {logs}", hint="see its log, and --log")
    log = own[-1].path / "job.log"
    return 0, _measurement(project, log)


def of_log(spec: pathlib.Path, settings: Sequence[str], log: pathlib.Path) -> Measurement:
    """A measurement from the log of the job in the spec. Raises InputError."""
    return _measurement(load_project(spec, settings), log)


def _measurement(project: Project, log: pathlib.Path) -> Measurement:
    job = job_of(project)
    layout = job.layout
    formats = formats_of(project.spec.experiment.report)
    known = Job(batch=layout.global_batch, sequence=job.model.sequence, gpus=layout.gpus)
    run = make_run(read_log(blocks_of(log), formats), known)
    if "seconds" not in run.rates:
        why = run.no_steady_state or "it has no step with a speed"
        hint = "log each step, with samples/s: or step time: ... ms in the line"
        raise one_problem(f"{log}: {why}", hint=hint)
    return Measurement(
        measured_key(job),
        layout.gpus,
        layout.global_batch,
        layout.nodes,
        run.rates["seconds"].median,
        run.peak_memory_gib,
        run.rates["seconds"].count,
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        f"{project.plan.job.cluster}: {job.nodes.node_type}",
    )


def store_measurement(found: Measurement) -> pathlib.Path:
    return store([found])
