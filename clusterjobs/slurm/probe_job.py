"""A job of one task that runs a Python program on one node: srun with the program as its input."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

# Slurm's GRES guide: a step sees no GPUs that its job has by --exclusive alone. Python without the
# user's packages and settings.
_OPTIONS = ("--nodes=1", "--ntasks=1", "--exclusive", "--time=5", "--job-name=clusterjobs-probe")
_PYTHON = ("python3", "-BEs", "-")
_LOOK_SECONDS = 0.05
_CANCEL_SECONDS = 10


class ProbeJob:
    """The job, which waits in the queue or runs."""

    def __init__(self, partition: str, node: str, gres: str, program: str) -> None:
        self.node = node
        place = [f"--partition={partition}", f"--nodelist={node}"]
        place += [f"--gres={gres}"] if gres else []
        self._process: subprocess.Popen[bytes] | None = None
        self._failure = ""
        try:
            self._process = subprocess.Popen(
                ["srun", *_OPTIONS, *place, *_PYTHON],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches srun by `cancel` alone
            )
        except OSError as error:
            self._failure = f"srun cannot be started: {error.strerror}"
        else:
            _give(self._process, program)

    def output(self) -> str | None:
        """All that it has printed, with the messages of srun; None until it has ended."""
        if self._process is None:
            return self._failure
        try:
            printed, _ = self._process.communicate(timeout=_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            return None  # what it has printed so far is kept for the next call
        return printed.decode(errors="replace")

    def cancel(self) -> None:
        """End srun, which cancels the job, whether it waits or runs."""
        if self._process is None or self._process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=_CANCEL_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()


def _give(process: subprocess.Popen[bytes], program: str) -> None:
    """The whole program at once: a pipe's buffer is larger. srun may have ended already."""
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(program.encode())
    process.stdin = None


def _environment() -> dict[str, str]:
    """Without the variables of a job that this may run in; account and QOS are the user's wish."""
    kept = ("SLURM_ACCOUNT", "SLURM_QOS", "SLURM_CONF", "SLURM_RESERVATION")
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name in kept
    }
