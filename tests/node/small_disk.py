"""A command run where a folder is a small file system of its own."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

_MOUNT = """
mount -t tmpfs -o size=3m,nr_inodes=200 small "$1" && shift && exec "$@"
"""


def on_a_small_disk(disk: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command where `disk` is a file system of 3 MiB and 200 files."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces on this machine")
    return subprocess.run(
        [*unshare, "bash", "-ec", _MOUNT, "bash", str(disk), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
