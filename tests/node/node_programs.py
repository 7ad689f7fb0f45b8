"""The programs for the nodes as commands, and the folders that they are given."""

from __future__ import annotations

import os
import pathlib
import sys

from clusterjobs.resources import node_programs

STAGE_FOLDER = node_programs()["stage.py"].parent
STAND_INS = pathlib.Path(__file__).with_name("stand_ins")


def command(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-B", str(node_programs()[program]), *map(str, arguments)]


def content(folder: pathlib.Path) -> dict[bytes, object]:
    """All below a folder: bytes of files, what links say, permissions."""
    root, found = os.fsencode(folder), {}
    for above, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(above, name)
            mode = os.lstat(path).st_mode
            if os.path.islink(path):
                found[path[len(root) :]] = os.readlink(path)
            elif os.path.isdir(path):
                found[path[len(root) :]] = mode
            else:
                with open(path, "rb") as file:
                    found[path[len(root) :]] = (mode, file.read(), os.lstat(path).st_mtime_ns)
    return found


def write_tree(root: pathlib.Path, files: int = 20, large: int = 3 << 20) -> pathlib.Path:
    """A data set of small files in folders, and one larger file."""
    for number in range(files):
        path = root / f"part {number % 4}" / f"{number:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 37 % 3000))
    (root / "large").write_bytes(os.urandom(large))
    return root
