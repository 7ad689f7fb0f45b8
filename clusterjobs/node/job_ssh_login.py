"""What a login finds, by the ssh of job_ssh.py: the environment and the folder of its `serve`.

    job_ssh_login.py session FOLDER     what sshd runs, whatever it is asked for
    job_ssh_login.py rank FOLDER FILE   becomes the command in FILE, its words ended by zero bytes

They are read from the process itself, so that secrets are in no file. `rank` is for launchers that
paste what they start, and their own environment, into a remote shell.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# What srun says of the task that `serve` is; to a rank it would be a lie.
KEPT_OF_SLURM = ("SLURM_JOB_", "SLURM_SUBMIT_", "SLURM_RESTART_COUNT", "SLURM_NODEID", "SLURM_NNO")


def session(place: str) -> None:
    """What sshd runs for each login: the command, in the environment and the folder of `serve`."""
    environment, folder = of_serve(place)
    environment.update({k: v for k, v in os.environ.items() if k in ("SSH_CONNECTION", "SSH_TTY")})
    command = os.environ.get("SSH_ORIGINAL_COMMAND")
    words = ["bash", "-c", command] if command else ["bash"]
    shell = subprocess.Popen(words, env=environment, cwd=folder)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `serve` tells the command itself
    code = shell.wait()
    code = 128 - code if code < 0 else code
    if code:
        with contextlib.suppress(OSError):  # `serve` may have ended, and its folder with it
            Path(place, "failed").write_text(str(code))
    sys.exit(code)


def rank(place: str, file: str) -> None:
    """One rank in place of this process. horovodrun starts those of its own node without ssh."""
    environment, folder = of_serve(place)
    set_by_horovodrun = {k: v for k, v in os.environ.items() if k.startswith("HOROVOD_")}
    environment.update(set_by_horovodrun)
    first = environment["MASTER_ADDR"]
    if set_by_horovodrun.get("HOROVOD_HOSTNAME", first) != first:
        # All ranks are given the name that the first node's interface has; names differ.
        ask = [sys.executable, str(Path(file).with_name("over_ssh.py")), "interface", first]
        environment["HOROVOD_GLOO_IFACE"] = subprocess.check_output(ask).decode().strip()
    command = [os.fsdecode(word) for word in Path(file).read_bytes().split(b"\0")[:-1]]
    Path(place, "ranks", str(os.getpid())).touch()
    if Path(place, "told").exists():
        sys.exit(128 + signal.SIGTERM)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # whatever the launcher has left it at
    os.chdir(folder)
    os.execvpe(command[0], command, environment)


def of_serve(place: str) -> tuple[dict[str, str], str]:
    """The environment and the folder that `serve` was started with."""
    process = Path("/proc", Path(place, "pid").read_text().split()[0])
    pairs = [item.partition(b"=") for item in (process / "environ").read_bytes().split(b"\0")]
    environment = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    environment = {name: value for name, value in environment.items() if is_true_here(name)}
    return environment, os.readlink(str(process / "cwd"))


def is_true_here(name: str) -> bool:
    foreign = not name or name.startswith(("SLURM_", "SRUN_", "PMI"))
    return not foreign or name.startswith(KEPT_OF_SLURM)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"session": session, "rank": rank}
    commands[sys.argv[1]](*sys.argv[2:])
