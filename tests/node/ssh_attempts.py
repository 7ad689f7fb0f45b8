"""ssh_serve.py on a node as tests start it, and ranks that are asked of it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from node_programs import command

from clusterjobs.lab.lab import until

# Says that it has begun, and that it was told to end; then it saves.
SAVES = (
    'trap "sleep 0.5; touch {0}/saved.$RANK; exit 9" TERM; touch {0}/begun.$RANK; '
    "while kill -0 $PPID; do sleep 0.1; done"
)


class Attempt:
    """`ssh_serve.py` on one node, and ranks that are asked of it."""

    def __init__(self, folder: pathlib.Path, job: str, node: str, restart: str = "0") -> None:
        self.folder, self.name = folder, f"clusterjobs-{job}-{restart}"
        self.place = folder / f"ssh.{restart}"
        self.place.mkdir()
        self.environment = {
            **os.environ,
            "SLURM_JOB_ID": job,
            "SLURM_NODEID": node,
            "SLURM_RESTART_COUNT": restart,
            "SLURM_PROCID": "0",
            "RANK": "not the job's to say",
            "THE_VALUE": "of the job",
            "ATTEMPT": restart,
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def serve(self, *launcher: object, **settings: str) -> subprocess.Popen[bytes]:
        words = command("ssh_serve.py", self.place, "node0", "--", *launcher)
        options: Any = {"stdin": subprocess.PIPE, "cwd": self.folder, "env": self.environment}
        serving = subprocess.Popen(words, **options)
        self.processes.append(serving)
        assert serving.stdin
        no_sshd = {"name": self.name, "port": 1, "file": ""}
        serving.stdin.write(json.dumps({**no_sshd, **settings}).encode() + b"\n")
        serving.stdin.flush()
        return serving

    def rank(self, number: int, *words: object, **options: Any) -> subprocess.Popen[bytes]:
        file = self.folder / f"command.{uuid.uuid4().hex}"
        file.write_bytes(b"".join(os.fsencode(str(word)) + b"\0" for word in words))
        environment = {**os.environ, "RANK": str(number), "NOT_THE_LAUNCHERS": "1"}
        asking = command("ssh_run.py", self.name, file)
        self.processes.append(subprocess.Popen(asking, env=environment, **options))
        return self.processes[-1]

    def saving_rank(self, number: int, **options: Any) -> subprocess.Popen[bytes]:
        rank = self.rank(number, "bash", "-c", SAVES.format(self.folder), **options)
        until((self.folder / f"begun.{number}").exists, 120, lambda: "the rank does not begin")
        return rank

    def saved(self, number: int) -> bool:
        return (self.folder / f"saved.{number}").exists()


@pytest.fixture
def attempts(tmp_path: pathlib.Path) -> Iterator[Any]:
    """Attempts of one job, on a node that is not the first; all that they started is ended."""
    made: list[Attempt] = []
    job = uuid.uuid4().hex

    def attempt(restart: str = "0", node: str = "1") -> Attempt:
        made.append(Attempt(tmp_path, job, node, restart))
        return made[-1]

    yield attempt
    for process in [process for one in made for process in one.processes]:
        process.terminate()  # ssh_run.py does not hear it, and ends with ssh_serve.py
    for process in [process for one in made for process in one.processes]:
        process.wait(60)
        for stream in filter(None, (process.stdin, process.stdout)):
            stream.close()
