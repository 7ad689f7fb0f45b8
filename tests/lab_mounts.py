"""Mount something on one node of a lab, also as an ordinary user.

mount(8) demands root. mount(2) does not, in a user namespace of one's own; its capabilities are
lost with each exec, so one process joins the node's namespaces and mounts there. The namespaces'
order is that of nsenter(1).
"""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator

from clusterjobs.lab.lab import Lab

MS_BIND = 4096  # <linux/mount.h>
MNT_DETACH = 2  # umount(2)

_PROGRAM = """
import ctypes, os, sys
pid, call, *arguments = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
spaces = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]
own = os.stat("/proc/self/ns/user").st_ino
for space in spaces:
    if os.fstat(space).st_ino != own:
        check(libc.setns(space, 0))
parts = [int(part) if part.isdigit() else part.encode() for part in arguments]
check(getattr(libc, call)(*parts))
"""


def mount_tmpfs(lab: Lab, node: str, target: str, options: str) -> None:
    """An empty tmpfs over `target`; `options` as in tmpfs(5), for example "size=16k"."""
    _call(lab, node, "mount", "tmpfs", target, "tmpfs", 0, options)


@contextlib.contextmanager
def tmpfs_over(lab: Lab, node: str, target: str, options: str) -> Iterator[None]:
    """The same for a while."""
    mount_tmpfs(lab, node, target, options)
    with _unmounted_later(lab, node, target):
        yield


@contextlib.contextmanager
def bind_over(lab: Lab, node: str, source: pathlib.Path, target: str) -> Iterator[None]:
    """The file or folder `source` over `target`, for a while."""
    _call(lab, node, "mount", source, target, "none", MS_BIND, "none")
    with _unmounted_later(lab, node, target):
        yield


@contextlib.contextmanager
def _unmounted_later(lab: Lab, node: str, target: str) -> Iterator[None]:
    try:
        yield
    finally:
        _call(lab, node, "umount2", target, MNT_DETACH)


def _call(lab: Lab, node: str, call: str, *arguments: object) -> None:
    words = [sys.executable, "-c", _PROGRAM, str(lab._node_pid(node)), call, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, f"{call} on {node}: {done.stderr}"
