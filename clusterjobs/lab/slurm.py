"""Finds Slurm on this machine, or unpacks its Debian packages into the user's cache.

Nothing is installed.
"""

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterjobs.errors import InputError, one_problem
from clusterjobs.lab.apt import (
    FAILURES,
    Say,
    knows,
    output,
    reason,
    silent,
    to_install,
    unpack,
    update,
)

# fmt: off
COMMANDS = (
    "sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag",
    "sinfo", "sprio", "squeue", "sreport", "srun", "sshare", "sstat", "strigger",
)
# fmt: on
DAEMONS = ("slurmctld", "slurmd", "slurmstepd")
SLURM_PACKAGES = ("slurmctld", "slurmd", "slurm-client")
SYSTEM = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class Slurm:
    """The paths of Slurm. `root` is the folder of unpacked packages; None if Slurm is installed.

    `loader`: the packages' own dynamic loader, if they are of another release of Debian. Their
    programs need its libc, so only it can start them; the libc of this machine and of the jobs
    stays as it is.
    """

    version: tuple[int, int, int]
    root: Path | None
    folders: tuple[Path, ...]  # with the daemons, the commands and `ip`
    loader: Path | None = None

    def find(self, name: str) -> Path | None:
        found = shutil.which(name, path=os.pathsep.join(str(folder) for folder in self.folders))
        return Path(found) if found else None

    def command(self, name: str, argv0: str | None = None, root: Path | None = None) -> list[str]:
        """The arguments that start a program, if `root` is where its packages are."""
        found = self.find(name) or Path(name)
        if self.loader is None:
            return [self.path_in(root, found)]
        libraries = ":".join(self.path_in(root, folder) for folder in self.library_dirs)
        options = ["--argv0", argv0 or name, "--library-path", libraries]
        return [self.path_in(root, self.loader), *options, self.path_in(root, found)]

    def path_in(self, root: Path | None, path: Path) -> str:
        """The path if the packages lie in `root`; None: where they lie on this machine."""
        if self.root and root and path.is_relative_to(self.root):
            return str(root / path.relative_to(self.root))
        return str(path)

    @property
    def name(self) -> str:
        """The version as Slurm writes it: 22.05.8."""
        major, minor, micro = self.version
        return f"{major}.{minor:02}.{micro}"

    @property
    def plugin_dir(self) -> Path | None:
        found = self.root.glob("usr/lib/**/auth_none.so") if self.root else iter(())
        return next((plugin.parent for plugin in found), None)

    @property
    def library_dirs(self) -> tuple[Path, ...]:
        """Folders of shared libraries that the system's loader does not search."""
        return _library_dirs(self.root) if self.root else ()


def find_slurm(cache: Path, say: Say = silent) -> Slurm:
    """Find this machine's own Slurm: installed, unpacked in `cache` before, or unpacked now.

    Raises InputError with the packages to install if none of the three is possible.
    """
    return installed_slurm() or unpacked_slurm(_unpacked(cache, say))


def installed_slurm() -> Slurm | None:
    """Slurm, if it and `ip` are installed. Raises InputError if it does not run."""
    installed = _slurm(None)
    complete = all(installed.find(name) for name in (*DAEMONS[:2], "sbatch", "ip"))
    return _with_version(installed) if complete else None


def unpacked_slurm(root: Path) -> Slurm:
    """Slurm in a folder of unpacked packages. Raises InputError if it does not run."""
    return _with_version(_slurm(root))


def unpacked_packages(
    cache: Path, label: str, wanted: Sequence[str], alone: Sequence[str] = (), say: Say = silent
) -> Path:
    """The folder of other unpacked packages: `wanted` with their dependencies, `alone` without.

    For programs that test jobs need on the nodes. Raises InputError if they cannot be downloaded.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        target = cache / f"{label}-{_system_name()}"
        if not target.is_dir():
            apt = _apt_options(cache, say)
            packages = [*to_install(apt, "--reinstall", *wanted), *alone]
            unpack(apt, packages, target, say, link_alternatives)
        return target
    except FAILURES as error:
        raise _unavailable(label, wanted, error) from None


def find_program(name: str, package: str, cache: Path, say: Say = silent) -> Path:
    """A program: installed, or unpacked from its package with its dependencies.

    It may need the folders of its libraries, `library_dirs_of`. Raises InputError.
    """
    if found := shutil.which(name, path=os.pathsep.join(SYSTEM)):
        return Path(found)
    root = unpacked_packages(cache, package, [package], say=say)
    return next(root.glob(f"usr/*bin/{name}"))


def library_dirs_of(program: Path) -> tuple[Path, ...]:
    """The folders of an unpacked program's libraries; none for an installed program."""
    root = program.parents[2]
    return () if root == Path("/") else _library_dirs(root)


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "clusterjobs"


def missing_ip() -> list[str]:
    """The package of `ip`, if this machine lacks it."""
    return [] if shutil.which("ip", path=":".join(SYSTEM)) else ["iproute2"]


def link_alternatives(root: Path) -> None:
    """Make the links that Debian's packages make when they are installed (update-alternatives).

    slurmd is slurmd-wlm, which finds no gres by that name; Open MPI needs libpsm_infinipath.so.1.
    """
    for daemon in DAEMONS:
        packaged, wanted = root / f"usr/sbin/{daemon}-wlm", root / f"usr/sbin/{daemon}"
        if packaged.exists() and not wanted.exists():
            wanted.symlink_to(packaged.name)
    for library in root.glob("usr/lib/libpsm1/libpsm_infinipath.so.1.*"):
        for folder in root.glob("usr/lib/*-linux-gnu"):
            link = folder / "libpsm_infinipath.so.1"
            link.symlink_to(f"../libpsm1/{library.name}")


def _library_dirs(root: Path) -> tuple[Path, ...]:
    return tuple(sorted({library.parent for library in root.rglob("lib*.so*")}))


def _slurm(root: Path | None) -> Slurm:
    own = [root / part for part in ("usr/sbin", "usr/bin", "sbin", "bin")] if root else []
    loader = next(root.rglob("ld-linux*.so.*"), None) if root else None
    return Slurm((0, 0, 0), root, (*own, *(Path(folder) for folder in SYSTEM)), loader)


def _with_version(slurm: Slurm) -> Slurm:
    libraries = os.pathsep.join(str(folder) for folder in slurm.library_dirs)
    env = {**os.environ, "LD_LIBRARY_PATH": libraries} if libraries else None
    if slurm.loader:
        env = None  # it has them as an option
    try:
        version = output([*slurm.command("slurmd"), "-V"], env=env)
    except FAILURES as error:
        hint = (
            f"remove the unpacked packages and try again: rm -r {slurm.root}" if slurm.root else ""
        )
        raise one_problem(f"slurmd does not run: {reason(error)}", hint=hint) from None
    if not (match := re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)):
        raise one_problem(f"no version in the output of slurmd -V: {version.strip()}")
    return replace(slurm, version=(int(match[1]), int(match[2]), int(match[3] or 0)))


def _unpacked(cache: Path, say: Say) -> Path:
    """The folder of unpacked packages of this machine's own version."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        system = _system_name()
        if unpacked := sorted(cache.glob(f"slurm-*-{system}")):
            return unpacked[-1]
        apt = _apt_options(cache, say)
        packages = to_install(apt, "--reinstall", *SLURM_PACKAGES, *missing_ip())
        target = cache / f"slurm-{packages[SLURM_PACKAGES[0]]}-{system}"
        unpack(apt, list(packages), target, say, link_alternatives)
        return target
    except FAILURES as error:
        raise _unavailable("Slurm", (*SLURM_PACKAGES, "iproute2"), error) from None


def _system_name() -> str:
    """Release and architecture, which packages depend on: `debian12-x86_64`."""
    facts = platform.freedesktop_os_release()
    return f"{facts.get('ID')}{facts.get('VERSION_ID', '')}-{platform.machine()}"


def _apt_options(cache: Path, say: Say) -> list[str]:
    """Options that let apt find Slurm: with the system's package lists, or with the user's own."""
    shared = ["-o", "Debug::NoLocking=1"]
    if knows(shared, SLURM_PACKAGES[0]):
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
    if not knows(private, SLURM_PACKAGES[0]):
        update(private, own / "lists", say)
    return private


def _unavailable(label: str, packages: Sequence[str], error: Exception) -> InputError:
    how = "" if shutil.which("apt-get") else "install it; on Debian: "
    return one_problem(
        f"{label} is not installed, and its packages cannot be downloaded: {reason(error)}",
        hint=f"{how}apt-get install --no-install-recommends {' '.join(packages)}",
    )


# ------------------------------------------------------------------ other versions
# Debian's other releases have other versions of Slurm.
# Their programs need a libc of their own, which is unpacked beside them.


# packages.debian.org, November 2026. No suite has 25.05 or 25.11.
SUITES = {"22.05": "bookworm", "24.11": "trixie", "26.05": "forky"}

# Beside Slurm only libraries: no shell and no daemon of another release.
_NEEDED = ("slurm", "lib", "zlib", "iproute2")
_KEYRINGS = Path("/usr/share/keyrings")


def suite_version() -> str | None:
    """The version that this machine's own release has; None if that is unknown."""
    codename = _release().get("VERSION_CODENAME")
    return next((version for version, suite in SUITES.items() if suite == codename), None)


def unpacked_suite(cache: Path, version: str) -> Path | None:
    """The folder where `fetch_suite` has unpacked this version before."""
    found = sorted(cache.glob(f"slurm-{version}.*-{SUITES[version]}-{platform.machine()}"))
    return found[-1] if found else None


def fetch_suite(cache: Path, version: str, say: Say) -> Path:
    """Download and unpack a version of SUITES. Raises InputError with the reason if it cannot be.

    The package lists, about 10 MB, are not kept: the next suite needs others.
    """
    suite = SUITES[version]
    say(f"Slurm {version} is not in {cache}: downloading it from Debian {suite}, about 30 MB")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="lists-") as own:
            apt = _suite_apt_options(Path(own), suite)
            update(apt, Path(own, "state/lists"), say)
            packages = to_install(apt, *SLURM_PACKAGES, *missing_ip())
            target = _target(cache, version, packages[SLURM_PACKAGES[0]])
            needed = [name for name in packages if name.startswith(_NEEDED)]
            unpack(apt, needed, target, say, link_alternatives)
        return target
    except FAILURES as error:
        raise one_problem(f"Slurm {version} cannot be downloaded: {reason(error)}") from None


def _target(cache: Path, version: str, found: str) -> Path:
    suite = SUITES[version]
    if not found.startswith(f"{version}."):
        raise one_problem(f"Slurm {version} cannot be downloaded: Debian {suite} has {found} now")
    return cache / f"slurm-{found}-{suite}-{platform.machine()}"


def _suite_apt_options(own: Path, suite: str) -> list[str]:
    """Options for a Debian without any installed package: then apt lists libc, too."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (own / folder).mkdir(parents=True)
    (own / "status").touch()
    source = f"deb [signed-by={_keyring()}] {_mirror()} {suite} main\n"
    (own / "sources.list").write_text(source)
    options = {
        "Dir::State": own / "state",
        "Dir::State::status": own / "status",
        "Dir::Cache": own / "cache",
        "Dir::Etc::sourcelist": own / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Sandbox::User": "",  # _apt may not write into a user's folder
        "Acquire::Languages": "none",
        "Acquire::Retries": 1,
        "Acquire::http::Timeout": 15,
        "Acquire::https::Timeout": 15,
        "APT::Update::Error-Mode": "any",  # else a failed download is a warning
    }
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def _keyring() -> Path:
    """The keys of Debian's archive. apt refuses package lists that they have not signed."""
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        if os.access(_KEYRINGS / name, os.R_OK):
            return _KEYRINGS / name
    raise OSError(f"{_KEYRINGS} has no debian-archive-keyring")


def _mirror() -> str:
    """The mirror of Debian that this machine's apt uses."""
    system = _release().get("ID", "this system")
    if system != "debian":
        raise OSError(f"other versions are packages of Debian, and this is {system}")
    command = ["apt-get", "indextargets", "--no-release-info"]
    wanted = ["--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages", "Component: main"]
    listed = output([*command, *wanted])
    suites = (_release().get("VERSION_CODENAME"), "stable", "testing", "unstable")
    sources = (line.split() for line in listed.splitlines())
    mirrors = [uri for release, uri in sources if release in suites]
    if not mirrors:
        raise OSError("apt has no source of Debian's packages")
    # Others call their suites so, too; theirs would not be signed by Debian's keys.
    return next((uri for uri in mirrors if uri.rstrip("/").endswith("/debian")), mirrors[0])


def _release() -> dict[str, str]:
    return platform.freedesktop_os_release()


# ------------------------------------------------------------------ choice of the version


OWN = "own"  # this machine's version
VERSIONS = (OWN, *SUITES)


def choose_slurm(cache: Path, version: str | None, cluster: str | None, say: Say) -> Slurm:
    """Slurm in one of VERSIONS; None: the nearest to the cluster's version, "25.11.8".

    Raises InputError if this machine cannot have that version, or for None, no Slurm at all.
    """
    if version is None:
        slurm, why = _nearest(cache, cluster, say)
    else:
        slurm = slurm_of(cache, version, say)
        why = "this machine's own" if version == OWN else "as asked for"
    say(f"Slurm {slurm.name}, {why}; the cluster has {cluster or 'an unknown version'}")
    return slurm


def slurm_of(cache: Path, version: str, say: Say, download: bool = True) -> Slurm:
    """Slurm in one of VERSIONS. Raises InputError if this machine cannot have it."""
    if version == OWN:
        return find_slurm(cache, say)
    installed = installed_slurm()
    if installed and installed.name.startswith(f"{version}."):
        return installed
    if not installed and version == suite_version():
        return find_slurm(cache, say)
    root = unpacked_suite(cache, version)
    if not root and not download:
        raise one_problem(f"Slurm {version} is not in {cache}")
    return unpacked_slurm(root or fetch_suite(cache, version, say))


def by_distance(cluster: str, versions: Iterable[str]) -> list[str]:
    """The versions, the nearest first; of two that are equally near, the newer."""
    wanted = _months(cluster)
    return sorted(versions, key=lambda one: (abs(_months(one) - wanted), -_months(one)))


def _nearest(cache: Path, cluster: str | None, say: Say) -> tuple[Slurm, str]:
    """The version of Slurm that is nearest to a cluster's, and why.

    After a failed download only versions that are here count, so that a lab starts.
    """
    installed = installed_slurm()
    own = [installed.name.rpartition(".")[0]] if installed else []
    download, why = True, "the nearest to the cluster's"
    for version in by_distance(cluster, {*SUITES, *own}) if cluster else ():
        try:
            return slurm_of(cache, version, say, download), why
        except InputError as error:
            if download:
                say(f"{error.problems[0].what}; using a version that is on this machine")
            download, why = False, "the nearest of those on this machine"
    return find_slurm(cache, say), "this machine's own"


def _months(version: str) -> int:
    """Slurm's versions are a year and a month."""
    year, month = version.split(".")[:2]
    return int(year) * 12 + int(month)
