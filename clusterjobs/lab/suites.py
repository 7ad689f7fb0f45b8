"""Other versions of Slurm: those that Debian's other releases have.

This module knows Debian's suites. Their programs need a libc of their own, which is unpacked beside
them. It must not know which version is wanted, or why.
"""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path

from clusterjobs.errors import one_problem
from clusterjobs.lab.apt import FAILURES, Say, output, reason, to_install, unpack, update
from clusterjobs.lab.packages import SLURM_PACKAGES, link_alternatives, missing_ip

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
            apt = _apt_options(Path(own), suite)
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


def _apt_options(own: Path, suite: str) -> list[str]:
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
