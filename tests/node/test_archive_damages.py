"""Archives with random damages: none is taken for whole that tar, gzip, bzip2, xz or unzip refuse.

The damages are made from a seed. The programs of the system are the judges; a format whose programs
are missing is skipped.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
import subprocess
from collections import Counter
from typing import Any, NamedTuple

import pytest
from node_programs import content

SEED = 20261122
SHORT, LONG = 40, 1000

# What packs a tar, and what tests the file beside tar itself.
_COMPRESSORS = {"tar": "", "tar.gz": "gzip", "tar.bz2": "bzip2", "tar.xz": "xz"}
FORMATS = (*_COMPRESSORS, "zip")


class Damage(NamedTuple):
    """A damaged archive, and what was done to it."""

    what: str
    data: bytes


@pytest.mark.parametrize("kind", FORMATS)
def test_no_damage_is_taken_for_whole(kind, tmp_path, modules, fault_table) -> None:
    compare(kind, SHORT, tmp_path, fault_table)


@pytest.mark.faults
@pytest.mark.parametrize("kind", FORMATS)
def test_no_damage_of_a_thousand_is_taken_for_whole(kind, tmp_path, modules, fault_table) -> None:
    compare(kind, LONG, tmp_path, fault_table)


def compare(kind: str, count: int, folder: pathlib.Path, table: list[str]) -> None:
    """Damage archives of one kind, and compare what stage.py and the system's programs say."""
    program = _COMPRESSORS.get(kind, "unzip")
    for needed in ("tar", "zip") if kind == "zip" else ("tar",):
        if not all(map(shutil.which, filter(None, (needed, program)))):
            pytest.skip(f"no {needed} or no {program} on this machine")
    chance = random.Random(f"{SEED} {kind}")
    source = write_source(folder / "source", chance)
    archives = [pack(kind, variant, source, folder) for variant in range(2)]
    wanted = content(source)
    counts: Counter[str] = Counter()
    ours_alone = []
    for archive in archives:
        assert unpacks(archive, folder) is not None, archive
        assert accepts(kind, archive, folder)
    for number in range(count):
        whole = archives[number % 2].read_bytes()
        damage = damaged(whole, chance)
        archive = folder / f"damaged.{kind}"
        archive.write_bytes(damage.data)
        found, theirs = unpacks(archive, folder), accepts(kind, archive, folder)
        counts[f"{found is not None} {theirs}"] += 1
        counts["unnoticed"] += (
            found is not None and theirs and without_times(found) != without_times(wanted)
        )
        if found is not None and not theirs:
            ours_alone.append((number, damage.what))
    table.append(
        f"{kind}: {count} damaged, refused by both {counts['False False']}, "
        f"by stage.py alone {counts['False True']}, "
        f"accepted by both {counts['True True']} (of these with other contents {counts['unnoticed']}), "
        f"by stage.py alone {counts['True False']}"
    )
    assert not ours_alone


def without_times(found):
    return {n: f[:2] if isinstance(f, tuple) else f for n, f in found.items()}


def write_source(root: pathlib.Path, chance: random.Random) -> pathlib.Path:
    """Files of sizes around tar's blocks, a long name, and links."""
    for number, size in enumerate((0, 1, 511, 512, 513, 5_000)):
        path = root / f"part {number % 2}" / f"{number} {'long ' * 30 if number == 3 else ''}name"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(size // 2) + b"\0" * (size - size // 2))
        os.utime(path, ns=(number, 1_600_000_000_123_456_789 + number))
    (root / "link").symlink_to("part 0/0 name")
    (root / "hard").hardlink_to(root / "part 1/1 name")
    return root


def pack(kind: str, variant: int, source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """An archive as the system's programs make it; the second variant in another way."""
    archive = folder / f"whole{variant}.{kind}"
    if kind == "zip":
        words = ["zip", "-qr", *(["-0"] if variant else []), str(archive), "."]
        subprocess.run(words, cwd=source, check=True)
        return archive
    form = ("gnu", "posix")[variant]
    words = ["tar", f"--format={form}", "-C", str(source), "-cf", "-", "."]
    data = subprocess.run(words, check=True, capture_output=True).stdout
    if program := _COMPRESSORS[kind]:
        middle = len(data) // 2 if variant else len(data)  # as one stream, or as two
        parts = [part for part in (data[:middle], data[middle:]) if part]
        data = b"".join(
            subprocess.run([program, "-c"], input=part, check=True, capture_output=True).stdout
            for part in parts
        )
    archive.write_bytes(data)
    return archive


def damaged(whole: bytes, chance: random.Random) -> Damage:
    """Flip bits, cut, swap two blocks, or put zeros into one."""
    while True:
        data = bytearray(whole)
        unit = chance.choice((64, 512))
        first, second = (chance.randrange(-(-len(data) // unit)) * unit for _ in range(2))
        what = chance.choice(("flip", "flip", "cut", "swap", "zeros"))
        if what == "flip":
            for _ in range(chance.choice((1, 1, 2))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        elif what == "cut":
            first = chance.choice((first, chance.randrange(len(data))))
            del data[first:]
        elif what == "swap":
            ends = first + unit, second + unit
            data[first : ends[0]], data[second : ends[1]] = (
                data[second : ends[1]],
                data[first : ends[0]],
            )
        else:
            data[first : first + unit] = bytes(len(data[first : first + unit]))
        if data != whole:
            return Damage(f"{what} at {first}", bytes(data))


class _Lock:
    def check_lease(self) -> None:
        pass


def unpacks(archive: pathlib.Path, folder: pathlib.Path) -> dict[bytes, object] | None:
    """What stage.py unpacks; None if it refuses the archive."""
    import stage_archive
    import stage_log
    import stage_record

    paths = stage_record.StagePaths(str(folder / "to"))
    pathlib.Path(paths.folder).mkdir(exist_ok=True)
    lock: Any = _Lock()
    try:
        stage_archive.unpack_archive(paths, str(archive), lock)
    except (stage_log.StageError, OSError):
        assert not pathlib.Path(paths.copy).exists()
        return None
    return content(pathlib.Path(paths.copy))


def accepts(kind: str, archive: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether the system's programs take the archive for whole."""
    to = folder / "unpacked"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    words = (
        [["unzip", "-tqq", str(archive)]]
        if kind == "zip"
        else [["tar", "-xf", str(archive), "-C", str(to)]]
    )
    if program := _COMPRESSORS.get(kind):
        words.append([program, "-t", str(archive)])
    return all(
        subprocess.run(one, check=False, stdin=subprocess.DEVNULL, capture_output=True).returncode
        == 0
        for one in words
    )
