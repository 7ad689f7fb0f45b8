"""Two ordinary users of one machine: one submits jobs, the other one plants files.

Only root can become two other users: without root, these tests are skipped.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from script_runs import Run, run_script

OWNER, OTHER, TEAM = 61234, 61235, 61236  # user numbers without a name, and a group

needs_two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two users")


def identity(user: int, *groups: int) -> dict[str, Any]:
    """Options of Popen."""
    return {"user": user, "group": user, "extra_groups": list(groups)}


class Place:
    """A folder that both users can reach: `home` is OWNER's, `shared` belongs to root."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.home, self.shared, self.proof = folder / "home", folder / "shared", folder / "proof"
        self.make(self.home, 0o755, OWNER)
        self.make(self.shared, 0o755)
        self.make(self.proof, 0o1777)

    def make(self, folder: pathlib.Path, mode: int, user: int = 0, group: int = 0) -> pathlib.Path:
        folder.mkdir()
        os.chown(folder, user, group or user)
        folder.chmod(mode)
        return folder

    def logs(self, mode: int, user: int = 0, group: int = 0) -> pathlib.Path:
        return self.make(self.shared / "logs", mode, user, group)

    def run(self, text: str, **more: Any) -> Run:
        """The script as OWNER."""
        return run_script(self.home, text, **{**identity(OWNER), **more})

    def plant(self, line: str, *groups: int) -> int:
        """A line of bash as OTHER, in the folder that both reach; its exit code."""
        words = ["bash", "-c", f"umask 000; {line}"]
        silent: Any = {"stderr": subprocess.DEVNULL}
        return subprocess.run(
            words, cwd=self.folder, **identity(OTHER, *groups), **silent
        ).returncode

    def proofs(self) -> list[str]:
        """What a planted program has done as OWNER."""
        return [path.name for path in self.proof.iterdir() if path.stat().st_uid == OWNER]


@contextlib.contextmanager
def place_of_two_users() -> Iterator[Place]:
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="two-users-"))
    folder.chmod(0o755)
    try:
        yield Place(folder)
    finally:
        shutil.rmtree(folder)


def planted_module(proof: pathlib.Path) -> str:
    """A module that every program of a job would import from its own folder instead of `json`."""
    return f"open('{proof}/' + __import__('sys').argv[0].split('/')[-1], 'w'); raise SystemExit"


# As setfacl makes it: mode 0775, and OWNER may write (linux/posix_acl_xattr.h).
ACCESS_LIST = f"""
import os, struct, sys
entries = (1, 7, -1), (2, 7, {OWNER}), (4, 5, -1), (16, 7, -1), (32, 5, -1)
packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
os.setxattr(sys.argv[1], "system.posix_acl_access", struct.pack("<I", 2) + packed)
"""
