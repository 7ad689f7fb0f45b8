"""Linux namespaces for a lab: whether this machine allows them, and the process that owns them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterjobs.errors import one_problem

_KINDS = ("--mount", "--uts", "--ipc", "--net", "--pid")
_NOBODY = 65534


def user_id() -> int:
    """This user's number in the lab; Slurm refuses nobody's as SlurmUser from 25.11 on."""
    return _NOBODY - 1 if os.geteuid() == _NOBODY else os.geteuid()


def unshare_command() -> list[str]:
    """Starts a command as pid 1 of new namespaces; it is killed when its parent ends.

    For an ordinary user, they belong to a user namespace that keeps the user's name.
    """
    mapped = ["--user", f"--map-user={user_id()}", f"--map-group={os.getegid()}", "--keep-caps"]
    own = [] if os.geteuid() == 0 else mapped
    return ["unshare", *own, *_KINDS, "--propagation", "slave", "--fork", "--kill-child"]


def entrance_options() -> list[str]:
    """nsenter's options to enter namespaces created by `unshare_command`."""
    own = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    return [*own, *_KINDS]


def enter_command(pid: int, argv: Sequence[str], cwd: Path) -> list[str]:
    """Runs `argv` in the namespaces of `pid`, like scripts/enter.sh for a shell."""
    enter = ["nsenter", "--target", str(pid), *entrance_options(), "--"]
    environment = ["env", f"--chdir={cwd}", "SLURM_CONF=/.lab/slurm.conf"]
    return [*enter, "setpriv", "--pdeathsig", "TERM", "--", *environment, *argv]


def drop_capabilities() -> list[str]:
    """A prefix for a command: without it, a user would have more privileges than on a cluster."""
    return [] if os.geteuid() == 0 else ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]


def check_namespaces() -> None:
    """Raise InputError if this machine refuses namespaces, with a hint how to allow them."""
    probe = [*unshare_command(), "mount", "-t", "proc", "proc", "/proc"]
    tried = subprocess.run(probe, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if tried.returncode != 0:
        reason = "".join(tried.stderr.strip().splitlines()[-1:])
        raise one_problem(
            f"this machine does not allow namespaces: {reason}",
            hint=_how_to_allow(Path("/proc/sys")),
        )


def _how_to_allow(sysctls: Path) -> str:
    """What to change: a sysctl, or else the options of a container."""
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
    """Pid 1 of a lab, by its pid on this machine. The start time detects a reused pid."""

    pid: int
    started: str  # clock ticks since boot

    @classmethod
    def read(cls, file: Path) -> InitProcess | None:
        """The process that wrote `file`, if it is alive."""
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
        """Kill it, and with it all processes in its namespaces; return when they are gone."""
        unshare = _parent(self.pid)
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.is_alive():  # checked again: from now on the handle protects the pid from reuse
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                select.select([handle], [], [])
                with contextlib.suppress(ChildProcessError):  # if another process started the lab
                    os.waitpid(unshare, 0)
        finally:
            os.close(handle)

    def outer_pid(self, inner_pid: int) -> int | None:
        """The pid on this machine of the process with `inner_pid` in the lab."""
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
    """The fields of /proc/PID/stat after the command, which may contain spaces: state, ppid, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return ()


def _parent(pid: int) -> int:
    fields = _stat_fields(pid)
    return int(fields[1]) if fields else 0


def _numbers(pid: int) -> list[int]:
    """The process's pid in each pid namespace, from this one inwards."""
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
