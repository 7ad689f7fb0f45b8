"""Stand-ins for sbatch, squeue and scontrol: they record calls, and answer like Slurm.

Jobs stay pending until `end_jobs`. Each call takes a random time, up to STAND_IN_DELAY seconds.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import cast

from stand_in_squeue import write_squeue

_SBATCH = """\
#!{python} -IS
import fcntl, json, os, pathlib, random, re, sys, time
delay = float(os.environ.get("STAND_IN_DELAY", "0"))
def pause():
    time.sleep(random.random() * delay)
folder = pathlib.Path(__file__).parent
script, words = sys.stdin.read(), sys.argv[1:]
given = re.findall(r"(?m)^#SBATCH (--.*)", script) + words
options = dict(word[2:].partition("=")[::2] for word in given if word.startswith("--"))
refuse = folder / "sbatch-refuses"
if refuse.exists():
    sys.exit("sbatch: error: " + refuse.read_text())
pause()
gate = folder / "gate"
if gate.exists():
    (folder / "waits-at-the-gate").touch()
    end = time.monotonic() + 120
    while gate.exists() and time.monotonic() < end:
        time.sleep(0.01)
with (folder / "lock").open("w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    rows = json.loads((folder / "squeue.json").read_text())
    job = str(100 + len(list(folder.glob("call-*"))) * 10000)
    time.sleep(random.random() * delay / 10)
    tasks = []
    for part in filter(None, options.get("array", "").partition("%")[0].split(",")):
        first, _, last = part.partition("-")
        tasks += map(str, range(int(first), int(last or first) + 1))
    for task in tasks or [""]:
        rows.append({{"%A": job, "%F": job, "%K": task or "N/A", "%T": "PENDING", "%r": "Priority",
                     "%j": options["job-name"].strip("'"), "%U": str(os.getuid()),
                     "%i": job + "_" + task if task else job, "%k": options.get("comment", "")}})
    call = folder / f"call-{{len(list(folder.glob('call-*'))):04}}"
    call.write_text(json.dumps({{"job": job, "tasks": tasks, "words": words, "script": script}}))
    (folder / "new").write_text(json.dumps(rows))
    (folder / "new").rename(folder / "squeue.json")
pause()
kill = folder / "sbatch-kills"
if kill.exists():  # as a crash between the call and its answer
    kill.unlink()
    os.kill(os.getppid(), 9)
print(job)
"""
_SCONTROL = """\
#!{python} -IS
import pathlib
print((pathlib.Path(__file__).parent / "config").read_text())
"""


class StandInSlurm:
    """The programs in `folder`, which has to be first on PATH."""

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        write_squeue(folder)
        for name, text in (("sbatch", _SBATCH), ("scontrol", _SCONTROL)):
            (folder / name).write_text(text.format(python=sys.executable))
            (folder / name).chmod(0o755)
        self.configure(MaxArraySize="1001", MaxJobCount="10000")

    def configure(self, **settings: str) -> None:
        """What `scontrol show config` says."""
        lines = [f"{key:<24}= {value}\n" for key, value in settings.items()]
        (self.folder / "config").write_text("".join(lines))

    def calls(self) -> list[dict[str, object]]:
        """The calls of sbatch: job, tasks, words and script."""
        return [json.loads(one.read_text()) for one in sorted(self.folder.glob("call-*"))]

    def queue(self) -> list[dict[str, str]]:
        """The rows of squeue."""
        rows: list[dict[str, str]] = json.loads((self.folder / "squeue.json").read_text())
        return rows

    def set_queue(self, *rows: dict[str, str]) -> None:
        """Replace them: Slurm forgets jobs. Those that were submitted keep their comments."""
        for row in rows:
            if "%F" in row and (comment := self._comments.get(row["%F"])):
                row["%k"] = comment
        (self.folder / "squeue.json").write_text(json.dumps(rows))

    @property
    def _comments(self) -> dict[str, str]:
        """The comment of each job that was submitted, by its id."""
        found = {}
        for call in self.calls():
            words = [str(one) for one in cast(list[str], call["words"])]
            given = [one for one in words if one.startswith("--comment=")]
            found[str(call["job"])] = given[-1].partition("=")[2] if given else ""
        return found

    def refuse(self, message: str) -> None:
        """Let sbatch fail with that message."""
        (self.folder / "sbatch-refuses").write_text(message)

    def kill_caller(self) -> None:
        """Let the next sbatch kill its caller before it answers."""
        (self.folder / "sbatch-kills").touch()

    def close_gate(self) -> None:
        """Let sbatch wait before it takes the job, until `open_gate`."""
        (self.folder / "gate").touch()

    def waits_at_gate(self) -> bool:
        return (self.folder / "waits-at-the-gate").exists()

    def open_gate(self) -> None:
        """Let it go on."""
        (self.folder / "gate").unlink()

    @property
    def path(self) -> str:
        return f"{self.folder}:{os.environ['PATH']}"
