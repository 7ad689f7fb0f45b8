"""Compare a file with its ETag: its MD5, or the MD5 of the MD5s of its parts.

The same pass over the file gives the CRC-32 of its blocks for the record.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

from stage_copy import BLOCK, buffers

_MIB = 1 << 20
PART_SIZES = [n * _MIB for n in (8, 16, 5, 10, 15, 25, 32, 50, 64, 100, 128, 256, 512, 1024)]
_SMALLEST_PART = 5 * 10**6  # S3 takes no smaller ones, except the last
# Whole MiB and MB: rounder ones first. Then, for fewer passes over the file, fractions of them.
_WHOLE = [n * unit for n in (1000, 500, 250, 100, 50, 25, 10, 5, 2, 1) for unit in (_MIB, 10**6)]
_WHOLE = sorted([n * _MIB for n in (1024, 512, 256, 128, 64, 32, 16, 8, 4)] + _WHOLE, reverse=True)
_FRACTIONS = [_MIB // 2, 5 * 10**5, _MIB // 4, 10**5, 1 << 16]
_MOST_SIZES = {True: 256, False: 64}  # that are tried, by whether they are whole
_MOST_BYTES = {True: 64 << 30, False: 512 << 20}  # that are read for them, beyond the first 8
GOOD, BAD, UNKNOWN = 0, 1, 2


def check_etag(file: int, size: int, etag: str, sizes: Sequence[int]) -> Tuple[int, List[int]]:
    """GOOD, BAD or UNKNOWN, and the CRC-32 of each block. `sizes`: the part sizes to try."""
    if os.fstat(file).st_size != size:  # the ETag may still be that of its first bytes
        return BAD, _read(file, size, None)[1]
    digest, _, count = etag.partition("-")
    fitting = [size]
    if count:
        fitting = [min(part, size) for part in sizes if part_count(size, part) == count]
    crcs: List[int] = []
    try:
        for part in fitting if len(digest) == 32 else ():
            digests, crcs = _read(file, size, part)
            found = hashlib.md5(b"".join(digests)) if count else None
            if (found.hexdigest() if found else digests[0].hex()) == digest:
                return GOOD, crcs
    except ValueError:  # MD5 is not allowed on this machine
        crcs = []
    return (BAD, crcs) if crcs else (UNKNOWN, _read(file, size, None)[1])


def possible_part_sizes(size: int, count: str) -> List[int]:
    """Round part sizes of which an object has as many as its ETag says, the likely ones first.

    Also the smallest possible size, as of a program that divides an object evenly.
    """
    if not count.isdigit() or int(count) < 1:
        return []
    parts = int(count)
    least = max(-(-size // parts), 1 if parts == 1 else _SMALLEST_PART)
    most = (size - 1) // (parts - 1) if parts > 1 else size
    found: Dict[int, None] = {least: None} if least <= most else {}  # in order, each once
    for steps in (_WHOLE, _FRACTIONS):
        is_whole = steps is _WHOLE
        limit = min(_MOST_SIZES[is_whole], max(8, _MOST_BYTES[is_whole] // max(size, 1)))
        sizes = (p for step in steps for p in range(-(-least // step) * step, most + 1, step))
        for part in sizes:
            if len(found) >= limit:
                break
            found[part] = None
    return list(found)


def part_count(size: int, part: int) -> str:
    return str(-(-size // part))


def _read(file: int, size: int, part: Optional[int]) -> Tuple[List[bytes], List[int]]:
    """The MD5 of each part, if there are parts, and the CRC-32 of each block."""
    digests: List[bytes] = []
    crcs: List[int] = []
    buffer = memoryview(buffers.data)
    at = 0
    while at < size or not crcs:
        end, crc = min(at + BLOCK, size), 0
        while at < end:
            if part and at % part == 0:
                md5: Any = hashlib.md5()
            most = min(end, at - at % part + part) if part else end
            count = os.preadv(file, [buffer[: most - at]], at)
            if not count:
                return [*digests, b""], [*crcs, -1]  # the file is too short
            data = buffer[:count]
            crc = zlib.crc32(data, crc)
            at += count
            if part:
                md5.update(data)
                if at % part == 0 or at == size:
                    digests.append(md5.digest())
        crcs.append(crc)
    return digests or [hashlib.md5().digest() if part is not None else b""], crcs
