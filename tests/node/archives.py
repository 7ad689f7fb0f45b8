"""Archives as the system's programs make them, and the part of stage.py that unpacks them."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
from typing import Any

from node_programs import content

COMPRESSORS = {"tar": "", "tar.gz": "gzip", "tar.bz2": "bzip2", "tar.xz": "xz", "tar.zst": "zstd"}


def write_source(root: pathlib.Path, chance: random.Random) -> pathlib.Path:
    """Files of sizes around tar's blocks, a long name, and links."""
    for number, size in enumerate((0, 1, 511, 512, 513, 5_000)):
        path = root / f"part {number % 2}" / f"{number} {'long ' * 30 if number == 3 else ''}name"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size // 2) + b"\0" * (size - size // 2))
        os.utime(path, ns=(number, 1_600_000_000_123_456_789 + number))
    (root / "link").symlink_to("part 0/0 name")
    (root / "hard").hardlink_to(root / "part 1/1 name")
    for folder in (root / "part 0", root / "part 1", root):
        os.utime(folder, ns=(0, 1_600_000_000_000_000_000))
    return root


def pack(kind: str, variant: int, source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """An archive as the system's programs make it; the second variant in another way."""
    archive = folder / f"whole{variant}.{kind}"
    names = sorted(str(path.relative_to(source)) for path in source.rglob("*"))
    if kind == "zip":
        words = ["zip", "-qy", *(["-0"] if variant else []), str(archive), *names]
        subprocess.run(words, cwd=source, check=True)
        return archive
    form = ["--format=gnu"]
    if variant:  # of the times in an extended header, those that are the same in each run
        form = ["--format=posix", "--pax-option=delete=atime,delete=ctime"]
    words = ["tar", *form, "--no-recursion", "-C", str(source), "-cf", "-"]
    data = subprocess.run([*words, *names], check=True, capture_output=True).stdout
    if program := COMPRESSORS[kind]:
        middle = len(data) // 2 if variant else len(data)  # as one stream, or as two
        parts = [part for part in (data[:middle], data[middle:]) if part]
        data = b"".join(
            subprocess.run([program, "-c"], input=part, check=True, capture_output=True).stdout
            for part in parts
        )
    archive.write_bytes(data)
    return archive


class _Lock:
    def check_lease(self) -> None:
        pass

    assert_held = check_lease

    def descriptor(self) -> int:
        return 2


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> dict[bytes, object]:
    """What stage.py unpacks in this process. Raises its StageError, or OSError."""
    import stage_archive
    import stage_record

    paths = stage_record.StagePaths(str(folder / "to"))
    pathlib.Path(paths.folder).mkdir(exist_ok=True)
    lock: Any = _Lock()
    stage_archive.unpack_archive(paths, str(archive), lock)
    return content(pathlib.Path(paths.copy))
