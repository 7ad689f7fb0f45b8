"""Finds Slurm on this machine, or unpacks its Debian packages into the user's cache.

This module knows apt and dpkg; it needs no root and installs nothing. It must not know how Slurm is
used.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterjobs.errors import InputError, one_problem

# fmt: off
COMMANDS = (
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag",
    "sinfo", "sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger",
)
# fmt: on
_DAEMONS = ("slurmctld", "slurmd")
_PACKAGES = ("slurmctld", "slurmd", "slurm-client")
_SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Slurm:
    """The paths of Slurm. `root` is the folder of unpacked packages; None if Slurm is installed."""

    version: tuple[int, int]
    root: Path | None
    folders: tuple[Path, ...]  # with the daemons, the commands and `ip`

    def find(self, name: str) -> Path | None:
        found = shutil.which(name, path=os.pathsep.join(str(folder) for folder in self.folders))
        return Path(found) if found else None

    @property
    def plugin_dir(self) -> Path | None:
        return _plugin_dir(self.root) if self.root else None

    @property
    def slurmstepd(self) -> Path | None:
        """The path that slurmd needs; None if its compiled-in path is right."""
        return self.find("slurmstepd") if self.root else None

    @property
    def library_dirs(self) -> tuple[Path, ...]:
        """Folders of shared libraries that the system's loader does not search."""
        if not self.root:
            return ()
        return tuple(sorted({library.parent for library in self.root.rglob("lib*.so*")}))


def _silent(_: str) -> None:
    """Print nothing."""


def find_slurm(cache: Path, say: Say = _silent) -> Slurm:
    """Slurm: installed, or unpacked in `cache` before, or unpacked now from its packages.

    Raises InputError with the packages to install if none of the three is possible.
    """
    installed = _slurm(None)
    if all(installed.find(name) for name in (*_DAEMONS, "sbatch", "ip")):
        return _with_version(installed)
    return _with_version(_slurm(_unpacked(cache, say)))


def unpacked_packages(
    cache: Path, label: str, wanted: Sequence[str], alone: Sequence[str] = (), say: Say = _silent
) -> Path:
    """The folder of other unpacked packages: `wanted` with their dependencies, `alone` without.

    For programs that test jobs need on the nodes. Raises InputError if they cannot be downloaded.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        target = cache / f"{label}-{_system_name()}"
        if not target.is_dir():
            apt = _apt_options(cache, say)
            _unpack_atomically(cache, target, apt, [*_packages(apt, wanted), *alone], say)
        return target
    except (subprocess.CalledProcessError, OSError) as error:
        raise _unavailable(label, wanted, error) from None


def find_program(name: str, package: str, cache: Path, say: Say = _silent) -> Path:
    """A program: installed, or unpacked from its package with its dependencies.

    It may need the folders of its libraries, `library_dirs_of`. Raises InputError.
    """
    if found := shutil.which(name, path=os.pathsep.join(_SYSTEM)):
        return Path(found)
    root = unpacked_packages(cache, package, [package], say=say)
    return next(root.glob(f"usr/*bin/{name}"))


def library_dirs_of(program: Path) -> tuple[Path, ...]:
    """The folders of an unpacked program's libraries; none for an installed program."""
    root = program.parents[2]
    if root == Path("/"):
        return ()
    return tuple(sorted({library.parent for library in root.rglob("lib*.so*")}))


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "clusterjobs"


def _slurm(root: Path | None) -> Slurm:
    own = [root / part for part in ("usr/sbin", "usr/bin", "sbin", "bin")] if root else []
    return Slurm((0, 0), root, (*own, *(Path(folder) for folder in _SYSTEM)))


def _with_version(slurm: Slurm) -> Slurm:
    libraries = os.pathsep.join(str(folder) for folder in slurm.library_dirs)
    env = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    try:
        version = _output([str(slurm.find("slurmd")), "-V"], env=env)
    except (subprocess.CalledProcessError, OSError) as error:
        hint = (
            f"remove the unpacked packages and try again: rm -r {slurm.root}" if slurm.root else ""
        )
        raise one_problem(f"slurmd does not run: {_last_line(error)}", hint=hint) from None
    if not (match := re.search(r"(\d+)\.(\d+)", version)):
        raise one_problem(f"no version in the output of slurmd -V: {version.strip()}")
    return replace(slurm, version=(int(match[1]), int(match[2])))


def _plugin_dir(root: Path) -> Path | None:
    return next((plugin.parent for plugin in root.glob("usr/lib/**/auth_none.so")), None)


def _unpacked(cache: Path, say: Say) -> Path:
    """The folder of unpacked packages."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        system = _system_name()
        if unpacked := sorted(cache.glob(f"slurm-*-{system}")):
            return unpacked[-1]
        return _download(cache, system, say)
    except (subprocess.CalledProcessError, OSError) as error:
        raise _unavailable("Slurm", (*_PACKAGES, "iproute2"), error) from None


def _system_name() -> str:
    """Release and architecture, which packages depend on: `debian12-x86_64`."""
    facts = platform.freedesktop_os_release()
    return f"{facts.get('ID')}{facts.get('VERSION_ID', '')}-{platform.machine()}"


def _download(cache: Path, system: str, say: Say) -> Path:
    apt = _apt_options(cache, say)
    packages = _packages(apt, [*_PACKAGES, *_missing_ip()])
    target = cache / f"slurm-{packages[_PACKAGES[0]]}-{system}"
    _unpack_atomically(cache, target, apt, list(packages), say)
    return target


def _unpack_atomically(
    cache: Path, target: Path, apt: Sequence[str], packages: Sequence[str], say: Say
) -> None:
    """Unpack under another name and rename, so that `target` is never incomplete."""
    with tempfile.TemporaryDirectory(dir=cache, prefix="unpacking-") as temporary:
        root = Path(temporary, "root")
        _unpack(apt, packages, root, say)
        _name_daemons(root)
        _rename_unless_exists(root, target)


def _rename_unless_exists(root: Path, target: Path) -> None:
    try:
        root.rename(target)
    except OSError:
        if not target.is_dir():  # otherwise another process was faster, with the same packages
            raise


def _unpack(apt: Sequence[str], packages: Sequence[str], root: Path, say: Say) -> None:
    downloads = root.with_name("downloads")
    downloads.mkdir()
    say(f"downloading {len(packages)} packages: {' '.join(packages)}")
    _output(["apt-get", *apt, "download", *packages], cwd=downloads)
    for package in sorted(downloads.glob("*.deb")):
        _output(["dpkg", "-x", str(package), str(root)])


def _name_daemons(root: Path) -> None:
    """Link slurmd to slurmd-wlm, as Debian's alternatives do: as slurmd-wlm it finds no gres."""
    for daemon in (*_DAEMONS, "slurmstepd"):
        packaged, wanted = root / f"usr/sbin/{daemon}-wlm", root / f"usr/sbin/{daemon}"
        if packaged.exists() and not wanted.exists():
            wanted.symlink_to(packaged.name)


def _apt_options(cache: Path, say: Say) -> list[str]:
    """Options that let apt find Slurm: with the system's package lists, or with the user's own."""
    shared = ["-o", "Debug::NoLocking=1"]
    if _knows_slurm(shared):
        return shared
    own = cache / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (own / folder).mkdir(parents=True, exist_ok=True)
    private = [
        *shared,
        *("-o", f"Dir::State::Lists={own}/lists"),
        *("-o", f"Dir::Cache={own}"),
        *("-o", "APT::Sandbox::User="),  # _apt may not write into a user's folder
    ]
    if not _knows_slurm(private):
        say("reading the package lists")
        _output(["apt-get", *private, "-q", "update"])
    return private


def _knows_slurm(apt: Sequence[str]) -> bool:
    return "Candidate: (none)" not in (policy := _policy(apt)) and "Candidate:" in policy


def _policy(apt: Sequence[str]) -> str:
    return _output(["apt-cache", *apt, "policy", _PACKAGES[0]], env={**os.environ, "LC_ALL": "C"})


def _missing_ip() -> list[str]:
    return [] if shutil.which("ip", path=":".join(_SYSTEM)) else ["iproute2"]


def _packages(apt: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """The versions of the packages, and of their dependencies that this machine lacks.

    apt skips installed packages; `--reinstall` includes the wanted ones even then.
    """
    command = ["apt-get", *apt, "install", "--simulate", "--yes"]
    listed = _output([*command, "--reinstall", "--no-install-recommends", *wanted])
    return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", listed, re.MULTILINE))


def _unavailable(label: str, packages: Sequence[str], error: Exception) -> InputError:
    how = "" if shutil.which("apt-get") else "install it; on Debian: "
    return one_problem(
        f"{label} is not installed, and its packages cannot be downloaded: {_last_line(error)}",
        hint=f"{how}apt-get install --no-install-recommends {' '.join(packages)}",
    )


def _last_line(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing"
    text: str = getattr(error, "stderr", None) or str(error)
    return "".join(text.strip().splitlines()[-1:])


def _output(
    command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True)
    return done.stdout
