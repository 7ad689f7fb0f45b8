"""Downloads and unpacks Debian packages without root: apt and dpkg, and how far they are.

apt verifies what it downloads: a signed Release file has the checksums of the package lists, and
these have those of the packages.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from clusterjobs.errors import counted

Say = Callable[[str], None]
FAILURES = (subprocess.CalledProcessError, OSError)

_PROGRESS_SECONDS = 2


def silent(_: str) -> None:
    """A `Say` that prints nothing."""


def output(
    command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """stdout of a command. Raises one of FAILURES."""
    done = subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def reason(error: Exception) -> str:
    """The reason of a failure, for a message: apt's first error, else the last line."""
    if isinstance(error, FileNotFoundError):
        return f"{error.filename} is missing"
    lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
    errors = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    return "".join(errors[:1] or lines[-1:])


def knows(apt: Sequence[str], package: str) -> bool:
    """Whether apt's package lists have a version of the package."""
    env = {**os.environ, "LC_ALL": "C"}
    policy = output(["apt-cache", *apt, "policy", package], env=env)
    return "Candidate:" in policy and "Candidate: (none)" not in policy


def update(apt: Sequence[str], lists: Path, say: Say) -> None:
    """Read the package lists; `lists` is the folder where apt writes them."""
    say("reading the package lists")
    _follow(["apt-get", *apt, "-q", "update"], lists / "partial", "", say)


def to_install(apt: Sequence[str], *arguments: str) -> dict[str, str]:
    """The versions of the packages that `apt-get install` would install."""
    command = ["apt-get", *apt, "install", "--simulate", "--yes", "--no-install-recommends"]
    listed = output([*command, *arguments])
    return dict(re.findall(r"^Inst (\S+) (?:\[\S+\] )?\((\S+)", listed, re.MULTILINE))


def unpack(
    apt: Sequence[str],
    packages: Sequence[str],
    target: Path,
    say: Say,
    finish: Callable[[Path], None],
) -> None:
    """Download, unpack, `finish`, and only then rename: `target` is never incomplete."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="unpacking-") as temporary:
        root, downloads = Path(temporary, "root"), Path(temporary, "downloads")
        downloads.mkdir()
        _download(apt, packages, downloads, say)
        for package in sorted(downloads.glob("*.deb")):
            output(["dpkg", "-x", str(package), str(root)])
        finish(root)
        try:
            root.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, with the same packages
                raise


def _download(apt: Sequence[str], packages: Sequence[str], folder: Path, say: Say) -> None:
    command = ["apt-get", *apt, "-q", "download"]
    uris = output([*command, "--print-uris", *packages])
    sizes = [int(size) for size in re.findall(r"^'[^']+' \S+ (\d+) ", uris, re.MULTILINE)]
    total = f" of {_mb(sum(sizes))}"
    say(f"downloading {counted(len(packages), 'package')},{total.removeprefix(' of')}")
    _follow([*command, *packages], folder, total, say)


def _follow(command: Sequence[str], folder: Path, total: str, say: Say) -> None:
    """Run a command, and print the size of `folder` every few seconds. Raises one of FAILURES."""
    cwd = folder if total else None  # `apt-get download` writes where it is started
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            try:
                _, said = process.communicate(timeout=_PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if size := _size(folder):
                    say(f"  {_mb(size)}{total}")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=said)


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except OSError:  # apt renames its files
            continue
    return total


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
