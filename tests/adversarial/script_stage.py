"""Runs a rendered script in real bash, with stand-ins on PATH that write down what they are given.

srun, scontrol, squeue, python3, the launchers and the engines of containers are stand-ins; bash,
tee, cat and mkdir are real. A stand-in records its arguments, environment and working folder as
bytes; srun then runs what it was given, as the real one would. `touch` and CANARY leave a trace:
nothing may ever call them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

JOB_ID = "4711"
HOME = "/home-of-nobody"

_RECORD = """\
#!/bin/sh
to=$RECORD/${0##*/}.$$
for word do printf '%s\\0' "$word"; done > "$to.argv"
cat "/proc/$$/environ" > "$to.env"
pwd -P > "$to.cwd"
"""
_WAIT = """\
tries=0
while [ "$(ls "$RECORD" | grep -c '^sidecar.*cwd$')" -lt "${SIDECARS:-0}" ] && [ $tries -lt 500 ]
do
  tries=$((tries + 1))
  sleep 0.01
done
"""
_SRUN = (
    _RECORD
    + """\
while case $1 in --*) true ;; *) false ;; esac do shift; done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=2 SLURM_NODEID=0
exec "$@"
"""
)
_STAND_INS = {
    "srun": _SRUN,
    "scontrol": "#!/bin/sh\nprintf 'node-1\\nnode-2\\n'\n",
    "squeue": "#!/bin/sh\n",
    "secret": _RECORD + "printf 'value of the secret'\n",
    "touch": '#!/bin/sh\n: > "$RECORD/EXECUTED"\n',
    "CANARY": '#!/bin/sh\n: > "$RECORD/EXECUTED"\n',
    **dict.fromkeys(("python3", "torchrun", "deepspeed", "wrap"), _RECORD + _WAIT),
    **dict.fromkeys(("step", "sidecar", "module", "conda", "docker", "apptainer"), _RECORD),
}


@dataclass(frozen=True)
class Call:
    """One call of a stand-in."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str


@dataclass(frozen=True)
class Run:
    """What became of one script."""

    code: int
    output: str
    calls: dict[str, list[Call]]
    executed: bool


class Stage:
    """A folder with the stand-ins; `run` may be called any number of times."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        (folder / "submit").mkdir()
        for name, text in _STAND_INS.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def clear(self) -> None:
        """Away with what an earlier run left."""
        for name in ("w", "l", "c", "v", "s", "record", "submit"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()

    def make_venv(self, path: pathlib.Path) -> None:
        """A virtual environment whose python3 is the stand-in."""
        (path / "bin").mkdir(parents=True)
        (path / "bin" / "python3").symlink_to(self.bin / "python3")

    def make_input(self, path: str) -> None:
        """A file, or a folder where the path says so: what a script looks for before it starts."""
        folder, _, name = path.rpartition("/")
        is_folder = name in ("", ".", "..")
        pathlib.Path(path if is_folder else folder).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            pathlib.Path(path).touch()

    def run(self, script: str, env: dict[str, str], sidecars: int = 0) -> Run:
        """Run the script as slurmd would: by its first line, with the submitter's environment."""
        file = self.folder / "job.sh"
        file.write_bytes(script.encode())
        file.chmod(0o755)
        record = self.folder / "record"
        given = {
            "PATH": f"{self.bin}:/usr/local/bin:/usr/bin:/bin",
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "RECORD": str(record),
            "SIDECARS": str(sidecars),
            "SLURM_JOB_ID": JOB_ID,
            "SLURM_JOB_NODELIST": "node-[1-2]",
            "SLURMD_NODENAME": "node-1",
            "SLURM_CPUS_ON_NODE": "4",
            "SLURM_SUBMIT_DIR": str(self.folder / "submit"),
            **env,
        }
        done = subprocess.run(
            [file],
            env={os.fsencode(name): os.fsencode(value) for name, value in given.items()},
            cwd=self.folder / "submit",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return Run(
            done.returncode, done.stdout.decode(errors="replace"), _read(record), self.traces
        )

    @property
    def traces(self) -> bool:
        """Whether anything has run, or was written to, that must not."""
        return any(
            "EXECUTED" in files or ("CANARY" in files and folder != str(self.bin))
            for folder, _, files in os.walk(self.folder)
        )


def _read(record: pathlib.Path) -> dict[str, list[Call]]:
    calls: dict[str, list[Call]] = {}
    for file in sorted(record.glob("*.cwd")):
        env = dict(item.split("=", 1) for item in _strings(file.with_suffix(".env")) if "=" in item)
        argv, cwd = _strings(file.with_suffix(".argv")), file.read_bytes().decode()
        calls.setdefault(file.name.split(".")[0], []).append(
            Call(argv, env, cwd.removesuffix("\n"))
        )
    return calls


def _strings(file: pathlib.Path) -> tuple[str, ...]:
    return tuple(
        item.decode(errors="surrogateescape") for item in file.read_bytes().split(b"\0")[:-1]
    )
