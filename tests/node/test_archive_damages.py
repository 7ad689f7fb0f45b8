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
from typing import NamedTuple

import pytest
from archives import COMPRESSORS, pack, unpack, write_source
from node_programs import content

SEED = 20261122
SHORT, LONG = 40, 1000
FORMATS = (*COMPRESSORS, "zip")
_OUTCOMES = {
    (False, False): "refused by both",
    (False, True): "by stage.py alone",
    (True, True): "accepted by both",
    (True, False): "by stage.py alone",
}


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
    """Damage archives of one kind, and compare what stage.py and the system's programs say.

    stage.py may accept only what they accept. What is compressed has checksums over everything, and
    a zip over contents; nothing in a zip guards permissions, kinds and times.
    """
    programs = {"zip": ["zip", "unzip"]}.get(kind) or ["tar", COMPRESSORS[kind]]
    if missing := [one for one in programs if one and not shutil.which(one)]:
        pytest.skip(f"no {' and no '.join(missing)} on this machine")
    part = contents if kind == "zip" else without_times
    chance = random.Random(f"{SEED} {kind}")
    source = write_source(folder / "source", chance)
    archives = [pack(kind, variant, source, folder) for variant in range(2)]
    for archive in archives:
        assert without_times(unpack(archive, folder)) == without_times(content(source)), archive
        assert accepts(kind, archive, folder)
    counts: Counter[tuple[bool, bool]] = Counter()
    ours_alone, unnoticed = [], []
    for number in range(count):
        damage = damaged(archives[number % 2].read_bytes(), chance)
        archive = folder / f"damaged.{kind}"
        archive.write_bytes(damage.data)
        found, theirs = unpacked(archive, folder), accepts(kind, archive, folder)
        counts[found is not None, theirs] += 1
        what = f"number {number}: {damage.what}"
        if found is not None and not theirs:
            ours_alone.append(what)
        elif found is not None and part(found) != part(content(source)):
            unnoticed.append(what)
    said = ", ".join(f"{what} {counts[outcome]}" for outcome, what in _OUTCOMES.items())
    table.append(f"{kind}, {count} damages: {said}; unnoticed {len(unnoticed)}")
    assert sum(counts.values()) == count
    assert not ours_alone
    assert kind == "tar" or not unnoticed


def without_times(found: dict[bytes, object]) -> dict[bytes, object]:
    return {name: one[:2] if isinstance(one, tuple) else one for name, one in found.items()}


def contents(found: dict[bytes, object]) -> dict[bytes, object]:
    """By name, the bytes of a file or the text of a link."""
    return {
        name: os.fsencode(one)
        if isinstance(one, str)
        else one[1]
        if isinstance(one, tuple)
        else b""
        for name, one in found.items()
    }


def damaged(whole: bytes, chance: random.Random) -> Damage:
    """Flip bits, cut, swap two blocks, or put zeros into one."""
    while True:
        data = bytearray(whole)
        unit = chance.choice((64, 512))
        first, second = (chance.randrange(-(-len(data) // unit)) * unit for _ in range(2))
        what = chance.choice(("flip", "flip", "cut", "swap", "zeros"))
        if what == "flip":
            for _ in range(chance.choice((1, 1, 2))):
                first = chance.randrange(len(data))
                data[first] ^= 1 << chance.randrange(8)
        elif what == "cut":
            first = chance.choice((first, chance.randrange(len(data))))
            del data[first:]
        elif what == "swap":
            one, other = slice(first, first + unit), slice(second, second + unit)
            data[one], data[other] = data[other], data[one]
        else:
            data[first : first + unit] = bytes(len(data[first : first + unit]))
        if data != whole:
            return Damage(f"{what} at {first}", bytes(data))


def unpacked(archive: pathlib.Path, folder: pathlib.Path) -> dict[bytes, object] | None:
    """What stage.py unpacks; None if it refuses the archive, and then it leaves nothing."""
    import stage_log

    try:
        return unpack(archive, folder)
    except (stage_log.StageError, OSError):
        assert not (folder / ".to.stage" / "copy").exists()
        return None


def accepts(kind: str, archive: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether the system's programs take the archive for whole."""
    to = folder / "unpacked"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    commands = [["unzip", "-tqq"]] if kind == "zip" else [["tar", "-C", str(to), "-xf"]]
    if program := COMPRESSORS.get(kind):
        commands.append([program, "-t"])
    return all(
        subprocess.run(
            [*command, str(archive)], check=False, stdin=subprocess.DEVNULL, capture_output=True
        ).returncode
        == 0
        for command in commands
    )
