"""Read the members of a tar archive, and demand that it is whole.

It knows the formats of POSIX (ustar and pax) and GNU tar. Every header must have its checksum, and
the end-of-archive marker must follow the last member: a tar that was cut after a member has none.
Python's own tarfile takes the first damaged header for the end. Nothing is written here.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple

from stage_member import ArchiveError, Member, not_an_archive

_UNIT = 512  # everything in a tar is a multiple of it
_MAX_EXTENSION = 16 << 20  # bytes of an extended header, which is read as a whole
_PIECE = 1 << 20
_MAX = 1 << 63  # of sizes, and of seconds

_OCTAL = re.compile(rb"[ \0]*([0-7]*)(?:[ \0]|\Z)")
_RECORD = re.compile(rb"([1-9][0-9]{0,8}) ([^=\0]+)=")
_INTEGER = re.compile(rb"[0-9]{1,19}\Z")
_TIME = re.compile(rb"(-?)([0-9]{1,19})(?:\.([0-9]*))?\Z")

_KINDS = {
    b"0": "file", b"\0": "file", b"7": "file", b"5": "folder", b"D": "folder",
    b"1": "hard link", b"2": "link", b"S": "sparse file",
}  # fmt: skip
_LABEL = b"V"
_WITH_DATA = (b"D", b"V")  # besides files

Records = Dict[bytes, bytes]


class _Header(NamedTuple):
    name: bytes
    mode: int
    size: int
    mtime: int  # seconds
    kind: bytes
    link: bytes


class TarReader:
    """The members of a tar in their order. `stream` has `read(size)`, empty only at the end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._at = 0  # bytes read so far

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; the reader of a member takes no more than the member's size."""
        data: bytes = self._stream.read(size)
        self._at += len(data)
        return data

    def members(self) -> Iterator[Member]:
        """Raises ArchiveError."""
        for_all: Records = {}
        records: Records = {}
        block = self._next_block()
        while any(block):
            header = _parse_header(block, self._at - _UNIT)
            size = header.size
            if header.kind in (b"x", b"X"):
                records.update(self._extension(size, _records))
            elif header.kind == b"g":
                for_all.update(self._extension(size, _records))
            elif header.kind in (b"L", b"K"):
                key = b"path" if header.kind == b"L" else b"linkpath"
                records[key] = self._extension(size, _text)
            else:
                found = {**for_all, **records}
                member = _member(header, found, self)
                end = self._at + member.size
                if header.kind != _LABEL:
                    yield member
                self._skip(end - self._at)
                records = {}
            self._skip(-self._at % _UNIT)
            block = self._next_block()
        if records:
            raise ArchiveError("ends after an extended header, without its member")
        self._check_rest()

    def _next_block(self) -> bytes:
        block = b""
        while len(block) < _UNIT:
            data = self.read(_UNIT - len(block))
            if not data:
                if block and len(block) == self._at:
                    raise not_an_archive("tar", block)
                if block:
                    raise ArchiveError("ends in the middle of a header, at byte %d" % self._at)
                if not self._at:
                    raise ArchiveError("is empty")
                raise ArchiveError("is cut off: it has no end-of-archive marker of tar")
            block += data
        return block

    def _extension(self, size: int, parse: Any) -> Any:
        """An extended header: it describes the next member."""
        if size > _MAX_EXTENSION:
            raise ArchiveError("has an extended header of %d bytes" % size)
        parts: List[bytes] = []
        self._skip(size, parts)
        return parse(b"".join(parts))

    def _skip(self, size: int, parts: Any = None) -> None:
        while size:
            data = self.read(min(size, _PIECE))
            if not data:
                raise ArchiveError("ends in the middle of a member, at byte %d" % self._at)
            size -= len(data)
            if parts is not None:
                parts.append(data)

    def _check_rest(self) -> None:
        """Zeros fill the last record. Anything else is a header that was lost, or a second tar."""
        at = self._at
        data = self.read(_PIECE)
        while data:
            if data.count(0) < len(data):
                raise ArchiveError(
                    "has more data after tar's end-of-archive marker at byte %d: it is damaged, or "
                    "several archives were joined" % (at - _UNIT)
                )
            data = self.read(_PIECE)


def _member(header: _Header, records: Records, reader: TarReader) -> Member:
    name = os.fsdecode(records.get(b"path", header.name))
    kind = _KINDS.get(header.kind, "device")
    if kind == "file" and name.endswith("/"):  # as the first tars had it
        kind = "folder"
    if any(key.startswith((b"GNU.sparse.", b"SCHILY.realsize")) for key in records):
        kind = "sparse file"
    mtime = _time_of(records, b"mtime", header.mtime)
    for key in (b"atime", b"ctime"):  # not used: a wrong value shows that the header is damaged
        _time_of(records, key, 0)
    for key in (b"uid", b"gid"):
        _number_of(records, key, 0)
    size = _number_of(records, b"size", header.size)
    if kind not in ("file", "sparse file") and header.kind not in _WITH_DATA:
        size = 0  # whatever the header says: old tars gave folders a size
    link = os.fsdecode(records.get(b"linkpath", header.link))
    return Member(kind, name, header.mode, mtime, size, reader, link)


def _parse_header(block: bytes, at: int) -> _Header:
    expected = _number(block, 148, 156, at)
    unsigned = sum(block[:148]) + 8 * ord(" ") + sum(block[156:])
    if expected != unsigned:
        high = sum(byte > 127 for byte in block[:148] + block[156:])
        if expected != unsigned - 256 * high:  # old tars added signed bytes
            raise _damaged(block, at)
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = _text(block[345:500]) + b"/" + name
    mode, size, mtime = (_number(block, a, b, at) for a, b in ((100, 108), (124, 136), (136, 148)))
    if not (0 <= mode < 1 << 32 and 0 <= size < _MAX and -_MAX <= mtime < _MAX):
        raise _damaged(block, at)
    return _Header(name, mode, size, mtime, block[156:157], _text(block[157:257]))


def _damaged(block: bytes, at: int) -> ArchiveError:
    if at == 0:
        return not_an_archive("tar", block)
    return ArchiveError("has a damaged header at byte %d" % at)


def _number(block: bytes, start: int, end: int, at: int) -> int:
    """A number of a header: octal digits, or binary if its first byte says so."""
    field = block[start:end]
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (field[0] == 0xFF) * (1 << 8 * (len(field) - 1))
    match = _OCTAL.match(field)
    if not match:
        raise _damaged(block, at)
    return int(match[1] or b"0", 8)  # empty in a label


def _text(field: bytes) -> bytes:
    return field.split(b"\0", 1)[0]


def _records(data: bytes) -> Records:
    """The records of a pax header, each `LENGTH KEY=VALUE` and a line break."""
    found: Records = {}
    at = 0
    while at < len(data):
        match = _RECORD.match(data, at)
        end = at + int(match[1]) if match else 0
        if not match or match.end() >= end or data[end - 1 : end] != b"\n":
            raise ArchiveError("has a damaged extended header")
        found[match[2]] = data[match.end() : end - 1]
        at = end
    return found


def _number_of(records: Records, key: bytes, default: int) -> int:
    value = records.get(key)
    if not value:  # an empty value means that of the header
        return default
    if not _INTEGER.match(value) or int(value) >= _MAX:
        raise _wrong_value(key, value)
    return int(value)


def _time_of(records: Records, key: bytes, default: int) -> int:
    """Nanoseconds; `default` is in seconds."""
    value = records.get(key)
    if not value:
        return default * 10**9
    match = _TIME.match(value)
    if not match or int(match[2]) >= _MAX:
        raise _wrong_value(key, value)
    time = int(match[2]) * 10**9 + int((match[3] or b"").ljust(9, b"0")[:9])
    return -time if match[1] else time


def _wrong_value(key: bytes, value: bytes) -> ArchiveError:
    shown = value[:40].decode("ascii", "backslashreplace")
    return ArchiveError("has an extended header with %s=%r" % (key.decode(), shown))
