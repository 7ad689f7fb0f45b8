"""Unpack an archive beside the target: tar (plain, gzip, bzip2, xz or zstd) and zip.

It may contain folders, files, and links that stay inside. A device, or a name that leads out of the
target, is an error that names the member. This takes one process, because archives are read
sequentially; after an interruption it starts again from the beginning. The readers find damage;
this module knows what may be written.
"""

from __future__ import annotations

import importlib
import os
import shutil
import zlib
from typing import IO, Any, Dict, Iterable, List, Tuple

from stage_compressed import open_compressed
from stage_files import BLOCK, range_checksum
from stage_list import EMPTY, path_of, scan
from stage_lock import Lock
from stage_log import LeaseLostError, Progress, SourceError, StageError, printable
from stage_member import ArchiveError, Member
from stage_member_names import ALSO_FOLDER, escapes, make_links, refused, safe_name
from stage_record import (
    Checksums,
    SmallFileRows,
    StagedCopy,
    StagePaths,
    remove,
    source_state,
)
from stage_space import FreeSpace, check_space, is_full
from stage_tar import TarReader
from stage_zip import ZIP_START, ZipReader

_REFUSED = {
    "device": ("is not a file, a folder or a link",),
    "sparse file": ("is a sparse file", "pack it without --sparse (-S)"),
}
_PIECE = 1 << 20
_MOST_IN_GZIP = 1032  # bytes that one compressed byte can stand for


def unpack_archive(paths: StagePaths, source: str, lock: Lock) -> StagedCopy:
    """Unpack to `paths.copy`. Raises StageError, and leaves nothing then."""
    try:
        return _unpack_archive(paths, source, lock)
    except LeaseLostError:
        raise
    except (StageError, OSError):
        lock.assert_held()
        paths.remove_partial_copy()
        raise


def _unpack_archive(paths: StagePaths, source: str, lock: Lock) -> StagedCopy:
    archive = source
    remove(paths.copy)
    if source.startswith("s3://"):
        archive = os.path.join(paths.folder, "archive")
        s3 = importlib.import_module("stage_s3")  # by name, as in stage.py
        state: Any = s3.fetch_object(source, archive, paths, lock)
    else:
        state = source_state(scan(source))
    size = os.stat(archive).st_size
    progress = Progress("stage %s" % printable(paths.target), size, lock.check_lease)
    unpacker = Unpacker(paths, source, progress)
    try:
        with open(archive, "rb") as file:
            checksums = unpacker.unpack(file, size)
    except ArchiveError as error:
        _check_unchanged(source, state)
        raise SourceError("%s: %s: %s" % (printable(source), error, error.hint)) from None
    except OSError as error:
        if is_full(error):
            raise unpacker.space.failure(error) from None
        if error.filename:
            raise
        raise StageError("%s: %s" % (printable(source), error)) from None
    _check_unchanged(source, state)
    listing = scan(paths.copy, follow=False)
    return StagedCopy(listing, checksums, SmallFileRows([], []), state)


def _check_unchanged(source: str, state: Any) -> None:
    """An archive that is still being written only seems to be damaged: a retry can help."""
    if not source.startswith("s3://") and source_state(scan(source)) != state:
        raise StageError("%s: changed while it was unpacked" % printable(source))


class Unpacker:
    """Writes the members of an archive."""

    def __init__(self, paths: StagePaths, source: str, progress: Progress) -> None:
        self.space = FreeSpace(paths)
        self._paths, self._source, self._progress = paths, source, progress
        self._copy = paths.copy
        self._checksums: Checksums = {}
        self._links: Dict[str, str] = {}
        self._folders: List[Tuple[str, int]] = []
        self._umask = os.umask(0)
        os.umask(self._umask)

    def unpack(self, file: Any, size: int) -> Checksums:
        """The checksums of all files. Raises StageError or ArchiveError."""
        self._file = file
        if self._source.lower().endswith(".zip") or file.peek(4)[:4] == ZIP_START:
            reader = ZipReader(file)
            check_space(self._paths, EMPTY, reader.unpacked_size())
            self._write_members(reader.members())
        else:
            check_space(self._paths, EMPTY, max(size, _size_in_gzip(file, size)))
            with open_compressed(file) as stream:
                self._write_members(TarReader(stream).members())
        return self._checksums

    def _write_members(self, members: Iterable[Member]) -> None:
        os.mkdir(self._copy)
        for member in members:
            self._write_member(member)
        # Last, so that nothing is written through a link.
        make_links(self._links, self._source, self._copy)
        for path, mode in reversed(self._folders):
            os.chmod(path, self._permissions(mode) | 0o700)

    def _write_member(self, member: Member) -> None:
        name = safe_name(member, self._source)
        path = path_of(self._copy, name)
        if member.kind == "folder":
            os.makedirs(path, exist_ok=True)
            self._folders.append((path, member.mode))
            return
        if member.kind in _REFUSED:
            raise refused(self._source, member.name, *_REFUSED[member.kind])
        if os.path.isdir(path):
            raise refused(self._source, member.name, ALSO_FOLDER)
        remove(path)  # the last member of a name counts
        self._checksums.pop(name, None)
        self._links.pop(name, None)
        if member.kind == "link":
            self._add_link(name, member.link)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if member.kind == "hard link":
            self._copy_hard_link(member, name, path)
        else:
            self._checksums[name] = self._write_file(member, path)

    def _add_link(self, name: str, link: str) -> None:
        if escapes(name, link):
            raise refused(self._source, name, "is a link that leads out of the target")
        self._links[name] = link

    def _copy_hard_link(self, member: Member, name: str, path: str) -> None:
        original = safe_name(member._replace(name=member.link), self._source)
        if original in self._links:
            self._add_link(name, self._links[original])
        elif original in self._checksums:
            size = os.path.getsize(path_of(self._copy, original))
            self.space.take(size, size)
            shutil.copy2(path_of(self._copy, original), path)
            self._checksums[name] = self._checksums[original]
        else:
            raise refused(self._source, member.name, "is a hard link to a missing file")

    def _write_file(self, member: Member, path: str) -> List[int]:
        """Write one file, compare it with what was unpacked, and return its blocks' checksums."""
        checksums: List[int] = []
        with open(path, "w+b") as file:
            left = member.size
            while left or not checksums:
                crc, block = 0, min(BLOCK, left)
                start = file.tell()
                while block:
                    data = member.content.read(min(_PIECE, block))
                    if not data:
                        raise ArchiveError("ends in the middle of %s" % printable(member.name))
                    self.space.take(len(data), left)
                    crc = zlib.crc32(data, crc)
                    file.write(data)
                    block, left = block - len(data), left - len(data)
                    self._progress.bytes = os.lseek(self._file.fileno(), 0, os.SEEK_CUR)
                    self._progress.tick()
                file.flush()
                if crc != range_checksum(file.fileno(), start, file.tell() - start):
                    what = "differs from what was written when read back"
                    raise StageError("%s: %s" % (printable(path), what))
                checksums.append(crc)
        os.chmod(path, self._permissions(member.mode))
        os.utime(path, ns=(member.mtime, member.mtime))
        return checksums

    def _permissions(self, mode: int) -> int:
        return mode & 0o777 & ~self._umask


def _size_in_gzip(file: IO[bytes], size: int) -> int:
    """What a gzip file says at its end: the unpacked size, without multiples of 4 GiB.

    0 if it says nothing possible: it is of another kind, padded or cut off.
    """
    is_gzip = file.read(2) == b"\x1f\x8b" and size >= 18
    file.seek(-4 if is_gzip else 0, os.SEEK_END)
    found = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return found if found < size * _MOST_IN_GZIP else 0
