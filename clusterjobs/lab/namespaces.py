"""Linux namespaces for a lab: whether this machine grants them, and the process that holds them.

Knows the kernel and util-linux; must not know Slurm.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterjobs.errors import one_problem

_TOOLS = ("unshare", "nsenter", "setpriv", "mount", "pivot_root", "hostname", "setsid")
_KINDS = ("--mount", "--uts", "--ipc", "--net", "--pid")


def unshare_command() -> list[str]:
    """Starts a command as pid 1 of new namespaces, that dies with its parent.

    An ordinary user owns them through a user namespace, in which he keeps his own name.
    """
    own = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    return ["unshare", *own, *_KINDS, "--propagation", "slave", "--fork", "--kill-child"]


def entrance_options() -> list[str]:
    """nsenter's options to enter namespaces that `unshare_command` made."""
    own = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return [*own, *_KINDS]


def enter_command(pid: int, argv: Sequence[str], cwd: Path) -> list[str]:
    """Runs `argv` in the namespaces of `pid`, as scripts/enter.sh does for a shell."""
    enter = ["nsenter", "--target", str(pid), *entrance_options(), "--"]
    environment = ["env", f"--chdir={cwd}", "SLURM_CONF=/.lab/slurm.conf"]
    return [*enter, "setpriv", "--pdeathsig", "TERM", "--", *environment, *argv]


def drop_capabilities() -> list[str]:
    """In front of a command: the user's rights in the lab end where they would on a cluster."""
    return [] if os.geteuid() == 0 else ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]


def check_namespaces() -> None:
    """InputError that says what this machine refuses, and what would allow it."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=_path())]
    if missing:
        raise one_problem(
            f"this machine lacks {', '.join(missing)}", hint="apt-get install util-linux hostname"
        )
    probe = [*unshare_command(), "mount", "-t", "proc", "proc", "/proc"]
    tried = subprocess.run(probe, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if tried.returncode != 0:
        said = tried.stderr.strip().splitlines()[-1:]
        raise one_problem(
            f"this machine does not grant namespaces: {''.join(said)}", hint=_why(Path("/proc/sys"))
        )


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def _why(sysctls: Path) -> str:
    """What to change; a sandbox can refuse without a switch to show for it."""
    for name, refusing in (
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("user/max_user_namespaces", "0"),
    ):
        if _sysctl(sysctls / name) == refusing:
            allowing = {"1": "0", "0": "1"}[refusing] if "max" not in name else "10000"
            return f"as root: sysctl -w {name.replace('/', '.')}={allowing}, or run the lab as root"
    return (
        "in a container, start it with --privileged, or with --cap-add SYS_ADMIN "
        "--cap-add NET_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    )


def _sysctl(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class InitProcess:
    """Pid 1 of a lab as this machine sees it. A pid alone might be another process by now."""

    pid: int
    started: str  # clock ticks since boot

    @classmethod
    def read(cls, file: Path) -> InitProcess | None:
        """The one that wrote `file`, if it is alive."""
        try:
            pid, started = file.read_text().split()
        except (OSError, ValueError):
            return None
        process = cls(int(pid), started)
        return process if process.is_alive() else None

    def is_alive(self) -> bool:
        fields = _stat_fields(self.pid)
        return bool(fields) and fields[19] == self.started and fields[0] not in "ZX"

    def kill(self) -> None:
        """Ends it, and with it all that runs in its namespaces; returns when they are gone."""
        unshare = _parent(self.pid)
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():  # asked again now that the handle keeps the pid from being reused
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [])
                with contextlib.suppress(ChildProcessError):  # where this process started the lab
                    os.waitpid(unshare, 0)
        finally:
            os.close(handle)

    def outer_pid(self, inner_pid: int) -> int | None:
        """What this machine calls the process that the lab calls `inner_pid`."""
        namespace = _pid_namespace(self.pid)
        for pid in _all_pids():
            numbers = _numbers(pid)
            if numbers[1:2] == [inner_pid] and namespace in (
                _pid_namespace(pid),
                _pid_namespace(_parent(pid)),
            ):
                return pid
        return None


def _all_pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _stat_fields(pid: int) -> Sequence[str]:
    """/proc/PID/stat after the command's name, which may hold spaces: state, ppid, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return ()


def _parent(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else 0


def _numbers(pid: int) -> list[int]:
    """The process's number in each pid namespace from this one inwards."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return []
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "")
    return [int(number) for number in line.split()[1:]]


def _pid_namespace(pid: int) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return None
