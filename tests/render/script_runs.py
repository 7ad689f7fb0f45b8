"""Rendered scripts, and whole runs of them in bash beside stand-ins for Slurm's commands.

The stand-ins: squeue prints what STATE and WHY hold, scontrol show lists one node, and writes down
other requests; srun runs one rank. Everything else of the script is real.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal as signals
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.frameworks import option_models
from clusterjobs.lab.lab import until
from clusterjobs.sections.order import resolve
from clusterjobs.sections.render import Inputs, render_script
from clusterjobs.spec.load import load_spec

SMALL = (resources.cluster_configs_dir() / "small.yaml").read_text()
BASE = {"name": "a", "cluster": "small", "framework": "command", "command": ["./run"]}
JOB_ID = "4711"
STAND_INS = {
    "squeue": 'case $* in *%T:%r*) echo "$STATE:$WHY" ;; *%e*) echo "$ENDS" ;; esac',
    "scontrol": 'if [[ $1 == show ]]; then echo node-1; else echo "$*" >> "$REQUESTS"; fi',
    "scancel": 'echo "scancel $*" >> "$REQUESTS"',
    "srun": 'while [[ $1 == --* ]]; do shift; done; SLURM_PROCID=0 SLURM_NTASKS=1 exec "$@"',
}


def as_yaml(data: object) -> str:
    """JSON is YAML, so that values need no quoting of ours; but YAML has no surrogate pairs."""
    pair = re.compile(r"\\ud[89ab]..\\ud[c-f]..")
    return pair.sub(
        lambda m: f"\\U{ord(json.loads(chr(34) + m[0] + chr(34))):08x}", json.dumps(data)
    )


def script(spec_file: str = "spec.yaml", cluster_text: str | None = None, **keys: object) -> str:
    """job.sh of a small spec; a script takes the place of the command, and None that of neither."""
    cluster = cluster_text or SMALL
    base = {key: value for key, value in BASE.items() if key != "command" or "script" not in keys}
    keys = {key: value for key, value in keys.items() if (key, value) != ("script", None)}
    text = as_yaml({**base, **keys})
    spec = load_spec(text, spec_file, option_models())
    facts = cluster_facts(read_cluster(cluster, "small.yaml", {})[0])
    plan = resolve(spec, facts)
    return render_script(plan, Inputs((spec_file, text), ("small.yaml", cluster))).text


@dataclass(frozen=True)
class Run:
    """What became of a script: its exit code, records, requests to Slurm, and its log."""

    code: int
    records: list[dict[str, Any]]
    requests: list[str]
    log: str
    folder: pathlib.Path

    @property
    def reasons(self) -> list[str]:
        return [one["reason"] for one in self.records]

    @property
    def recorded(self) -> list[int]:
        return [one["exit_code"] for one in self.records]

    @property
    def requeues(self) -> int:
        return sum(line.startswith("requeue") for line in self.requests)


def run_script(
    folder: pathlib.Path,
    text: str,
    state: str = "RUNNING",
    why: str = "None",
    environment: Mapping[str, str | None] | None = None,
    stand_ins: Mapping[str, str] | None = None,
    signal: int | None = None,
    arguments: Sequence[str] = (),
    **process_options: Any,
) -> Run:
    """Run a script in `folder`, where it is also submitted from; further runs add to its logs.

    A variable of `environment` that is None is missing. `signal`: sent to the script when the file
    `started` exists; then `signalled` is made. `process_options`: of Popen, for example the user.
    """
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    for name, body in {**STAND_INS, **(stand_ins or {})}.items():
        (programs / name).write_text(f"#!/bin/bash\nexport SLURM_LOCALID=0\n{body}\n")
        (programs / name).chmod(0o755)
    job = folder / "job.sh"
    job.write_text(text.replace("/opt/slurm/bin", str(programs)))
    job.chmod(0o755)
    given: dict[str, str | None] = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "STATE": state,
        "WHY": why,
        "REQUESTS": str(folder / "requests"),
        "SLURM_JOB_ID": JOB_ID,
        "SLURM_JOB_NODELIST": "node-1",
        "SLURMD_NODENAME": "node-1",
        "SLURM_SUBMIT_DIR": str(folder),
        **(environment or {}),
    }
    options: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **process_options}
    process = subprocess.Popen(
        [job, *arguments],  # as Slurm does, so that the options of its first line count
        env={name: value for name, value in given.items() if value is not None},
        cwd=folder,
        preexec_fn=_catch_all_signals,
        stdin=subprocess.DEVNULL,
        **options,
    )
    if signal is not None:
        until((folder / "started").exists, 120, lambda: "the script does not start")
        process.send_signal(signal)
        process.send_signal(signals.SIGCONT)  # it may have stopped the script
        (folder / "signalled").touch()
    stdout, stderr = process.communicate(timeout=120)
    return Run(
        process.returncode,
        last_records(folder / "logs" / JOB_ID / "attempts.jsonl"),
        lines_of(folder / "requests"),
        ((stdout or b"") + (stderr or b"")).decode(errors="replace"),
        folder,
    )


def last_records(file: pathlib.Path) -> list[dict[str, Any]]:
    """The last record of each attempt."""
    return list({one["attempt"]: one for one in map(json.loads, lines_of(file))}.values())


def _catch_all_signals() -> None:
    """A script keeps ignoring what its caller ignores, for example SIGHUP under nohup."""
    for number in signals.valid_signals() - {signals.SIGKILL, signals.SIGSTOP}:
        signals.signal(number, signals.SIG_DFL)


def lines_of(file: pathlib.Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
