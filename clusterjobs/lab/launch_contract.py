"""Compares what a job script promises to its ranks with what the ranks of a lab have recorded.

The ranks run rank_probe.py, which writes the records.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from clusterjobs.errors import InputError
from clusterjobs.lab import rank_probe
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.selection import say
from clusterjobs.lab.shape import LabSpec, lab_spec
from clusterjobs.plugins import PlannedJob
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import render_script
from clusterjobs.sites.folders import SiteFolders


class Record(NamedTuple):
    """What one rank has written: its variables, None if unset, and whom it met."""

    told: dict[str, str | None]
    host: str
    met: list[int]
    problem: str


def read_records(folder: Path) -> list[Record]:
    """The records of all ranks that ran."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("[!.]*.json"))]
    return [
        Record({name: one[name] for name in _NAMES}, one["host"], one["met"], one["problem"])
        for one in found
    ]


_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def broken_promises(
    records: Sequence[Record], nodes: int, ranks_per_node: int, meets: bool
) -> Iterator[str]:
    """A sentence for each promise that is not kept. `meets`: rank 0 listens for the others."""
    world = nodes * ranks_per_node
    told = sorted(str(one.told["RANK"]) for one in records)
    if told != sorted(map(str, range(world))):
        yield (
            f"RANK must be 0 to {world - 1}, each once; {len(records)} ranks have run, with "
            f"{', '.join(told) or 'none'}"
        )
        return
    ranks = sorted(records, key=lambda one: int(str(one.told["RANK"])))
    wrong = list(_wrong_variables(ranks, ranks_per_node))
    yield from wrong
    for rank, one in enumerate(ranks):
        if one.host != ranks[rank - rank % ranks_per_node].host:
            yield f"rank {rank} runs on another node than rank {rank - rank % ranks_per_node}"
    if not wrong and meets:
        yield from _failed_meetings(ranks)


def _wrong_variables(ranks: Sequence[Record], ranks_per_node: int) -> Iterator[str]:
    first = ranks[0]
    port = first.told["MASTER_PORT"] or "the same for all ranks"
    for name in _NAMES[1:]:
        fixed = {"WORLD_SIZE": str(len(ranks)), "MASTER_ADDR": first.host, "MASTER_PORT": port}
        wanted = [fixed.get(name, str(rank % ranks_per_node)) for rank in range(len(ranks))]
        wrong = [rank for rank, one in enumerate(ranks) if one.told[name] != wanted[rank]]
        if wrong:
            rank, *more = wrong
            others = f"; it is wrong for {len(more)} more" if more else ""
            is_told = ranks[rank].told[name] or "unset"
            yield f"{name} is {is_told} for rank {rank}, and must be {wanted[rank]}{others}"


def _failed_meetings(ranks: Sequence[Record]) -> Iterator[str]:
    for rank, one in enumerate(ranks):
        if one.problem:
            yield f"rank {rank} could not reach rank 0: {one.problem}"
    if ranks[0].met != list(range(1, len(ranks))):
        yield f"rank 0 has met {len(ranks[0].met)} of {len(ranks) - 1} other ranks"


# ------------------------------------------------------------------ jobs in a lab
# `templates test --lab` starts the ranks of each test in a lab.
# Only the templates are tested: the program is ours, and what a lab lacks is left out of the spec
# (data, software, containers, checks of the nodes). A node count above two becomes two.


_NODES = 2
_FAILURE = 17
_SECONDS = 300
_CONFIG = "./config.yaml"
# A site's lines may load modules; a lab has none.
_MODULE = "() { printf 'the lab has no modules: module %s\\n' \"$*\"\n}"


def run_in_lab(jobs: Iterable[tuple[str, PlannedJob]]) -> Iterator[tuple[str, str]]:
    """The name and the result of each job, as it is known: passed, failed or skipped."""
    by_shape: dict[LabSpec, list[tuple[str, PlannedJob]]] = {}
    for name, job in jobs:
        if why := _unfit(job):
            say(f"{name}: not started in a lab: {why}")
            yield name, "skipped"
        else:
            shape = lab_spec(job.source.shape(), _NODES, job.plan.placement.partition)
            by_shape.setdefault(shape, []).append((name, job))
    for shape, fit in by_shape.items():
        yield from _run_all(shape, fit)


def _run_all(shape: LabSpec, jobs: Sequence[tuple[str, PlannedJob]]) -> Iterator[tuple[str, str]]:
    """The results of jobs that a lab of one shape can run."""
    with tempfile.TemporaryDirectory(prefix="clusterjobs-lab-") as temporary:
        folder = pathlib.Path(temporary)
        say(f"starting a lab of {len(shape.nodes)} nodes of {shape.cluster}")
        with running_lab(shape, folder / "lab", say=say) as lab:
            for number, (name, job) in enumerate(jobs):
                problems = _problems(job, lab, folder / str(number))
                for problem in problems:
                    click.echo(f"{name}: {problem}", err=True)
                yield name, "failed" if problems else "passed"


def _unfit(job: PlannedJob) -> str:
    launcher = job.plan.launch.launcher.name
    if launcher == "torchrun" and shutil.which("torchrun") is None:
        return "this machine has no torchrun"
    return "" if launcher in ("srun", "torchrun") else f"{launcher} cannot start our program"


def _problems(job: PlannedJob, lab: Lab, folder: pathlib.Path) -> list[str]:
    folder.mkdir()
    try:
        return list(_broken_promises(job, lab, folder))
    except InputError as error:  # sbatch refuses the script
        return [problem.what for problem in error.problems]
    except TimeoutError as error:
        return [f"its job does not end: {error}"]


def _broken_promises(job: PlannedJob, lab: Lab, folder: pathlib.Path) -> Iterator[str]:
    """Of two jobs: one whose ranks end well, and one whose last rank fails."""
    shape, launcher = job.plan.placement.shape, job.plan.launch.launcher
    code, log = _run(job, lab, folder / "well", 0)
    yield from broken_promises(
        read_records(folder / "well"),
        min(shape.nodes, _NODES),
        shape.ranks_per_node,
        meets=launcher.name != "torchrun",
    )
    if code:
        yield f"the ranks have not failed, but the job has, with exit code {code}:\n{log}"
        return
    code, _ = _run(job, lab, folder / "failing", _FAILURE)
    if not code:
        yield f"a rank has failed with exit code {_FAILURE}, but the job has ended with 0"


def _run(job: PlannedJob, lab: Lab, folder: pathlib.Path, last_code: int) -> tuple[int, str]:
    """The exit code of the job of our program, and the end of its log."""
    folder.mkdir()
    _, config = job.inputs.cluster
    (folder / _CONFIG).write_text(config, encoding="utf-8")
    spec = folder / "spec.yaml"
    spec.write_text(yaml.safe_dump(_spec(job, folder, last_code)), encoding="utf-8")
    files = SpecFiles(spec, SiteFolders())  # no defaults of the site: they are not its templates
    plan = resolve(files.load(), files.cluster(_CONFIG).source.facts)
    script = render_script(plan, job.inputs._replace(spec=(str(spec), files.text)))
    (folder / "job.sh").write_text(script.text, encoding="utf-8")
    environment = {**os.environ, "BASH_FUNC_module%%": _MODULE}
    job_id = lab.sbatch(folder / "job.sh", env=environment, cwd=folder)
    try:
        end = lab.wait(job_id, _SECONDS)
    except TimeoutError:
        lab.run(["scancel", job_id])  # its nodes are for the next test
        raise
    log = folder / "logs" / job_id / "job.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["(it has no log)"]
    return end.exit_code, "\n".join(f"    {line}" for line in lines[-10:])


def _spec(job: PlannedJob, folder: pathlib.Path, last_code: int) -> dict[str, object]:
    """A spec of the same placement and launcher, whose command is our program."""
    placement, launch = job.plan.placement, job.plan.launch
    return {
        "name": "launch-contract",
        "cluster": _CONFIG,
        "queue": placement.partition,
        "nodes": min(placement.shape.nodes, _NODES),
        "gpus_per_node": placement.shape.gpus_per_node,
        "ranks_per_node": placement.shape.ranks_per_node,
        "time_limit": 10,
        "framework": "command",
        "launcher": launch.launcher.name,
        "command": [sys.executable, rank_probe.__file__, str(folder), str(last_code)],
        "logs": str(folder / "logs"),
    }
