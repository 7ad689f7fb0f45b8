"""ssh between the nodes of one job, with keys that are made for it alone and vanish with it.

    job_ssh.py keys                        prints new keys, as one line of JSON
    job_ssh.py serve FOLDER PORT HOST...   reads that line, runs an sshd until its input ends
    job_ssh.py reach FOLDER HOST...        whether every host can be reached; silent if so
    job_ssh.py rank FOLDER FILE            runs the command in FILE, each word ended by a zero byte

FOLDER is in memory (/dev/shm), and has a config for ssh: `ssh -F FOLDER/.ssh/config HOST`. The
keys are in no other file. Who logs in finds the environment and the folder that `serve` has, so
that secrets too are in no file. Nobody but this user gets in, and by nothing but the key.

Some launchers paste what they start, and their environment, into a remote shell. They are given
`sh FOLDER/rank` instead (not all memory can be executed): that is `rank` with the file `rank`
beside this program, and it finds what a login finds, and what horovodrun sets.
"""

from __future__ import annotations

import contextlib
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
# What srun says of the task that `serve` is; to a rank it would be a lie.
KEPT_OF_SLURM = ("SLURM_JOB_", "SLURM_SUBMIT_", "SLURM_RESTART_COUNT", "SLURM_NODEID", "SLURM_NNO")
# Where a command failed, its launcher may end the others in its own way before `serve` does.
PATIENCE_SECONDS = 10


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
    own, python = Path(__file__).resolve(), shlex.quote(sys.executable)
    words = shlex.quote(str(own.with_name("rank")))
    files = {
        "login": made["login"],
        "host": made["host"],
        "authorized_keys": made["login.pub"],
        "known_hosts": f"clusterjobs {made['host.pub']}",
        "pid": f"{os.getpid()} {started(os.getpid())}\n",
        ".ssh/config": CLIENT.format(folder=folder, port=port, user=user, hosts=" ".join(hosts)),
        "sshd_config": SERVER.format(folder=folder, port=port, user=user, python=python),
        "rank": f"exec {python} {folder}/job_ssh.py rank {folder} {words}\n",
    }
    for name, text in files.items():
        where = os.open(str(folder / name), os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(where, "w") as file:
            file.write(text)
    shutil.copy(str(own), str(folder / "job_ssh.py"))


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
ForceCommand {python} {folder}/job_ssh.py session {folder}
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
    server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")])
    signal.signal(signal.SIGTERM, lambda *_: tell_to_end(folder, server.pid))
    try:
        said = why_end(folder, server, control, port)
    finally:
        tell(sessions(server.pid), signal.SIGKILL)
        server.kill()
        shutil.rmtree(place, ignore_errors=True)
    if said is not None:
        sys.exit(f"job_ssh: {said}")


def why_end(
    folder: Path, server: subprocess.Popen[bytes], control: IO[bytes], port: str
) -> str | None:
    """Waits until there is a reason to end: None where it was asked to."""
    failed, told, since = folder / "failed", folder / "told", None
    while not select.select([control], [], [], 1)[0]:
        if server.poll() is not None:
            return f"sshd ended with {server.returncode}; is port {port} taken?"
        if failed.exists() and not told.exists():
            since = since or time.monotonic()
            if time.monotonic() - since > PATIENCE_SECONDS:
                return f"a command that was started here by ssh ended with {failed.read_text()}"
    return None


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
        with contextlib.suppress(OSError):
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


# ------------------------------------------------------------------ asking


def reach(place: str, *hosts: str) -> None:
    """Log in everywhere at once; the exit code says whether all of it worked."""
    command = ["ssh", "-F", f"{place}/.ssh/config", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"]
    tries = [subprocess.Popen([*command, host, "true"], stdin=subprocess.DEVNULL) for host in hosts]
    codes = [one.wait() for one in tries]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]]
    commands = {"keys": keys, "serve": serve, "session": session, "reach": reach, "rank": rank}
    commands[sys.argv[1]](*sys.argv[2:])
