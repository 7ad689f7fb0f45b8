"""ssh between the nodes of one job, with keys that are made for it alone and vanish with it.

    job_ssh.py keys                        prints new keys, as one line of JSON
    job_ssh.py serve FOLDER PORT HOST...   reads that line, runs an sshd until it reads `end`
    job_ssh.py reach FOLDER HOST...        whether every host can be reached; silent if so

FOLDER is in memory (/dev/shm), and has a config for ssh: `ssh -F FOLDER/.ssh/config HOST`. The
keys are in no other file. Nobody but this user gets in, and by nothing but the key. What a login
finds is job_ssh_login.py's to say.

When the first node's `serve` reads `run`, it starts the command in the file `launch` beside this
program, and writes its exit code to `launched`. `sh FOLDER/rank` runs the one in the file `rank`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pwd
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

MEMORY = Path("/dev/shm")
# Where a command failed, its launcher may end the others in its own way before `serve` does.
PATIENCE_SECONDS = 10
PR_SET_PDEATHSIG = 1


def keys() -> None:
    """A key to log in with, one to know the hosts by; ssh-keygen wants to write, so to memory."""
    made = {}
    with tempfile.TemporaryDirectory(dir=str(MEMORY)) as folder:
        for name in ("login", "host"):
            file = Path(folder, name)
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
            subprocess.run(command, check=True)
            made[name] = file.read_text()
            made[f"{name}.pub"] = Path(f"{file}.pub").read_text()
    sys.stdout.write(json.dumps(made) + "\n")


# ------------------------------------------------------------------ the folder


def lay_out(folder: Path, port: str, hosts: Iterable[str], made: dict[str, str]) -> None:
    """Keys and configs of both sides; nobody else may look into the folder."""
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir(mode=0o700)
    (folder / ".ssh").mkdir(mode=0o700)
    (folder / "ranks").mkdir(mode=0o700)
    user = pwd.getpwuid(os.getuid()).pw_name
    python, command = shlex.quote(sys.executable), shlex.quote(str(beside("rank")))
    files = {
        "login": made["login"],
        "host": made["host"],
        "authorized_keys": made["login.pub"],
        "known_hosts": f"clusterjobs {made['host.pub']}",
        "pid": f"{os.getpid()} {started(os.getpid())}\n",
        ".ssh/config": CLIENT.format(folder=folder, port=port, user=user, hosts=" ".join(hosts)),
        "sshd_config": SERVER.format(folder=folder, port=port, user=user, python=python),
        # Read by a shell, for not all memory can be executed.
        "rank": f"exec {python} {folder}/job_ssh_login.py rank {folder} {command}\n",
    }
    for name, text in files.items():
        where = os.open(str(folder / name), os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(where, "w") as file:
            file.write(text)
    shutil.copy(str(beside("job_ssh_login.py")), str(folder))


CLIENT = """\
Host {hosts}
  Port {port}
  User {user}
  IdentityFile {folder}/login
  IdentitiesOnly yes
  HostKeyAlias clusterjobs
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  PasswordAuthentication no
  LogLevel ERROR
"""
# StrictModes looks at the folders above, and /dev/shm is everybody's; {folder} is not.
SERVER = """\
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
StrictModes no
AllowUsers {user}
PermitRootLogin prohibit-password
PasswordAuthentication no
ChallengeResponseAuthentication no
UsePAM no
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
MaxStartups 1000
MaxSessions 1000
LogLevel ERROR
ForceCommand {python} {folder}/job_ssh_login.py session {folder}
"""


def sweep() -> None:
    """Away with the folders of this user whose `serve` is gone: it was killed, not ended."""
    for folder in MEMORY.glob("clusterjobs-*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.stat().st_uid == os.getuid():
                pid, start = (folder / "pid").read_text().split()
                if started(int(pid)) != start:
                    shutil.rmtree(str(folder))


def started(pid: int) -> str:
    """When a process started, which with its number makes it unique; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]
    except OSError:
        return ""


# ------------------------------------------------------------------ serving


def serve(place: str, port: str, *hosts: str) -> None:
    """Run sshd until the input ends, or says so. Told to end, it tells the ranks and goes on.

    A command that failed ends it too: pdsh would wait for the other nodes, and they for this one.
    """
    folder, control = Path(place), os.fdopen(0, "rb", buffering=0)
    sweep()
    lay_out(folder, port, hosts, json.loads(control.readline().decode()))
    sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin")
    if sshd is None:
        shutil.rmtree(place)
        sys.exit("job_ssh: there is no sshd here: the image needs openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(parents=True, exist_ok=True)  # root's sshd locks itself up there
    command = [sshd, "-D", "-e", "-f", str(folder / "sshd_config")]
    server = subprocess.Popen(command, preexec_fn=end_with_parent)
    signal.signal(signal.SIGTERM, lambda *_: tell_to_end(folder, server.pid))
    try:
        said = why_end(folder, server, control, port)
    finally:
        tell(sessions(server.pid), signal.SIGKILL)
        server.kill()
        shutil.rmtree(place, ignore_errors=True)
    if said is not None:
        sys.exit(f"job_ssh on {os.uname().nodename}: {said}")


def end_with_parent() -> None:
    """In the new process: killed when `serve` is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def why_end(
    folder: Path, server: subprocess.Popen[bytes], control: IO[bytes], port: str
) -> str | None:
    """Waits until there is a reason to end: None where it was asked to."""
    failed, told, since = folder / "failed", folder / "told", None
    launcher = None
    while True:
        if select.select([control], [], [], 1)[0]:
            if control.readline() != b"run\n":
                return None
            launcher = launch() if os.environ.get("SLURM_NODEID") == "0" else None
        if launcher and launcher.poll() is not None:
            code = launcher.returncode
            write_whole(beside("launched"), f"{128 - code if code < 0 else code}\n")
            launcher = None
        if server.poll() is not None:
            return f"sshd ended with {server.returncode}; is port {port} taken?"
        if failed.exists() and not told.exists():
            since = since or time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                return f"a command that was started here by ssh ended with {failed.read_text()}"


def launch() -> subprocess.Popen[bytes]:
    """Hears none of the signals of `serve`: the ranks do, and it ends when they have."""
    words = beside("launch").read_bytes().split(b"\0")[:-1]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL)


def beside(name: str) -> Path:
    return Path(__file__).resolve().with_name(name)


def write_whole(file: Path, text: str) -> None:
    draft = file.with_name(f"{file.name}.new")
    draft.write_text(text)
    draft.replace(file)


def tell_to_end(folder: Path, server: int) -> None:
    """To the ranks alone where they are known: a shell around them would end before they do."""
    (folder / "told").touch()
    ranks = [int(entry.name) for entry in (folder / "ranks").iterdir()]
    tell(ranks or sessions(server), signal.SIGTERM)


def sessions(server: int) -> list[int]:
    """The processes below sshd, but for sshd's own."""
    below, known = [], {server}
    found = sorted(processes())
    for _ in found:  # a parent may have the higher number
        for pid, parent, name in found:
            if parent in known and pid not in known:
                known.add(pid)
                if not name.startswith("sshd"):
                    below.append(pid)
    return below


def processes() -> Iterator[tuple[int, int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, tail = (entry / "stat").read_text().rpartition(") ")
                yield int(entry.name), int(tail.split()[1]), head.partition("(")[2]


def tell(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


# ------------------------------------------------------------------ asking


def reach(place: str, *hosts: str) -> None:
    """Log in everywhere at once; the exit code says whether all of it worked."""
    command = ["ssh", "-F", f"{place}/.ssh/config", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"]
    tries = [subprocess.Popen([*command, host, "true"], stdin=subprocess.DEVNULL) for host in hosts]
    codes = [one.wait() for one in tries]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]]
    commands = {"keys": keys, "serve": serve, "reach": reach}
    commands[sys.argv[1]](*sys.argv[2:])
