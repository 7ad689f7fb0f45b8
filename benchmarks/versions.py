"""This version and two earlier ones: throughput in one process, and whole processes of `render`.

Each earlier version is a commit of this repository. It is unpacked into a temporary folder and runs
with this interpreter and the installed libraries. Modules move between versions, so each version is
called through its own files: `render` of its benchmarks/throughput.py, and the program and entry
points of its pyproject.toml.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.program import modules_loaded, started
from benchmarks.specs import ROOT, different_specs
from benchmarks.timing import Row, first_run_done, medians_in_turns, processor_seconds
from clusterjobs.errors import one_problem

TITLE = "Versions: this one and earlier ones"
_EARLIER = {"930ebb76": "21 November", "bc7a6159": "23 November"}
_WANTED = "930ebb76"  # the throughput to reach
_BATCH, _ROUNDS = 300, 15
_RUNS = 15

_WORKER = """\
import json, sys, time
from benchmarks.throughput import render
for line in sys.stdin:
    texts = json.loads(line)
    start = time.process_time()
    length = sum(len(render(text)) for text in texts)
    print(json.dumps([time.process_time() - start, length]), flush=True)
"""


class _Version(NamedTuple):
    root: Path
    program: str  # module:function
    environment: Mapping[str, str]


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        versions = {"this": _version(ROOT, folder / "this")}
        for commit in _EARLIER:
            if archive := _archive(commit):
                versions[commit] = _version(_unpacked(archive, folder / commit), folder / commit)
        if len(versions) == 1:
            raise one_problem("no earlier version was found to compare with")
        lengths, rates = _throughput(versions)
        seconds, modules = _whole_processes(versions, folder)
    rows = []
    for commit in list(versions)[1:]:
        label = f"{commit} of {_EARLIER[commit]}"
        wanted = (">= 1 x baseline", rates["this"] >= rates[commit]) if commit == _WANTED else ()
        rows += [
            Row(f"one process / {label}", "specs/s", rates[commit], rates["this"], *wanted),
            Row("an average script", "characters", lengths[commit], lengths["this"]),
            Row("render tiny-gpt, CPU time", "ms", seconds[commit] * 1000, seconds["this"] * 1000),
            Row("modules that it loads", "", modules[commit], modules["this"]),
        ]
    return rows


# ------------------------------------------------------------------ versions


def _archive(commit: str) -> bytes | None:
    """A tar of the commit without its tests. None if git cannot make it, with a note on stderr."""
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "--", ":(exclude)tests"]
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        why = "git is not installed"
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
    click.echo(
        f"{commit} is skipped: {why}. A shallow clone needs: git fetch --unshallow", err=True
    )
    return None


def _unpacked(archive: bytes, folder: Path) -> Path:
    root = folder / "checkout"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(root, filter="data")
    return root


def _version(root: Path, folder: Path) -> _Version:
    """The version in `root`, with its own entry points instead of those that are installed."""
    project = _project(root / "pyproject.toml")
    groups = {"console_scripts": project["scripts"], **project.get("entry-points", {})}
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    metadata = folder / "installed/clusterjobs-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: clusterjobs\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    environment = first_run_done(folder, PYTHONPATH=f"{metadata.parent}:{root}")
    return _Version(root, project["scripts"]["clusterjobs"], environment)


def _project(pyproject: Path) -> dict[str, Any]:
    if sys.version_info < (3, 11):
        raise one_problem("this benchmark needs tomllib", hint="use Python 3.11 or later")
    import tomllib

    project: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return project


# ------------------------------------------------------------------ measuring


def _throughput(versions: Mapping[str, _Version]) -> tuple[dict[str, float], dict[str, float]]:
    """The average length of a script, and specs per second of CPU time."""
    with contextlib.ExitStack() as stack:
        workers = {name: _Worker(version, stack) for name, version in versions.items()}
        rounds: dict[str, Callable[[], float]] = {
            name: worker.batch_seconds for name, worker in workers.items()
        }
        medians = medians_in_turns(rounds, _ROUNDS, warm_up=2)
        lengths = {name: worker.length / worker.first for name, worker in workers.items()}
    return lengths, {name: _BATCH / seconds for name, seconds in medians.items()}


class _Worker:
    """A process of one version, which renders a batch of specs when it is asked to."""

    def __init__(self, version: _Version, stack: contextlib.ExitStack) -> None:
        self.first = self.length = 0  # specs and characters so far
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", _WORKER],
                env=version.environment,
                cwd=version.root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )

    def batch_seconds(self) -> float:
        """CPU time of the next batch; the batches of all versions have the same specs."""
        texts = list(different_specs(_BATCH, self.first))
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in
        assert pipe_out
        pipe_in.write(json.dumps(texts) + "\n")
        pipe_in.flush()
        seconds, length = json.loads(pipe_out.readline())
        self.first += _BATCH
        self.length += length
        return float(seconds)


def _whole_processes(
    versions: Mapping[str, _Version], folder: Path
) -> tuple[dict[str, float], dict[str, int]]:
    """CPU time of `render tiny-gpt`, and the number of modules that it loads."""
    seconds, modules = {}, {}
    for name, version in versions.items():
        spec = str(version.root / "examples/tiny-gpt.yaml")
        arguments = ["render", spec, "-o", str(folder / "rendered" / name)]
        where = (version.environment, version.root)
        modules[name] = modules_loaded(version.program, arguments, *where)
        command = [*started(version.program), *arguments]
        seconds[name] = partial(processor_seconds, command, *where)
    return medians_in_turns(seconds, _RUNS, warm_up=2), modules
