"""Unpack an archive beside the target: tar (plain, gzip, bzip2 or xz) and zip.

It may contain folders, files, and links that stay inside. A device, or a name that leads out of the
target, is an error that names the member. This takes one process, because archives are read
sequentially; after an interruption it starts again from the beginning.
"""

from __future__ import annotations

import importlib
import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from typing import IO, Any, Iterator, List, NamedTuple, Optional, Tuple

from stage_copy import check_space
from stage_files import BLOCK, range_checksum
from stage_list import EMPTY, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, printable
from stage_record import (
    Checksums,
    SmallFileRows,
    StagedCopy,
    StagePaths,
    remove,
    source_state,
)

_READ_ERRORS = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError)


class Member(NamedTuple):
    """A member of an archive. `kind`: folder, file, link, hard link or device."""

    kind: str
    name: str
    mode: int
    mtime: int
    size: int = 0
    content: Optional[IO[bytes]] = None  # of a file
    link: str = ""  # the target of a link


def unpack_archive(paths: StagePaths, source: str, lock: Lock) -> StagedCopy:
    """Unpack to `paths.copy`. Raises StageError."""
    archive = source
    remove(paths.copy)
    if source.startswith("s3://"):
        archive = os.path.join(paths.folder, "archive")
        s3 = importlib.import_module("stage_s3")  # by name, as in stage.py
        state: Any = s3.fetch_object(source, archive, paths, lock)
    else:
        state = source_state(scan(source))
    size = os.stat(archive).st_size
    check_space(paths, EMPTY, size)  # at least: the contents may be larger
    os.mkdir(paths.copy)
    progress = Progress("stage %s" % printable(paths.target), size, lock.check_lease)
    try:
        with open(archive, "rb") as file:
            checksums = _unpack(file, source, paths.copy, progress)
    except (*_READ_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise StageError("%s: %s" % (printable(source), error or type(error).__name__)) from None
    if not source.startswith("s3://") and source_state(scan(source)) != state:
        raise StageError("%s: changed while it was unpacked" % printable(source))
    listing = scan(paths.copy, follow=False)
    return StagedCopy(listing, checksums, SmallFileRows([], []), state)


def _unpack(file: IO[bytes], source: str, copy: str, progress: Progress) -> Checksums:
    checksums: Checksums = {}
    links: List[Tuple[str, str, str]] = []
    modes: List[Tuple[str, int]] = []
    for member in _of_zip(file) if source.lower().endswith(".zip") else _of_tar(file):
        name = _safe_name(member.name, source)
        path = path_of(copy, name)
        if member.kind == "folder":
            os.makedirs(path, exist_ok=True)
            modes.append((path, member.mode))
        elif member.kind == "link":
            if _escapes(name, member.link):
                raise _refused(source, member.name, "is a link that leads out of the target")
            links.append((member.name, path, member.link))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            remove(path)  # the last member of a name counts
            if member.kind == "device":
                raise _refused(source, member.name, "is not a file, a folder or a link")
            if member.kind == "hard link":
                original = _safe_name(member.link, source)
                if original not in checksums:
                    raise _refused(source, member.name, "is a hard link to a missing file")
                shutil.copy2(path_of(copy, original), path)
                checksums[name] = checksums[original]
            elif member.content is not None:
                checksums[name] = _write(member, member.content, path, file, progress)
    _make_links(links, source, copy)  # last, so that nothing is written through a link
    for path, mode in reversed(modes):
        os.chmod(path, mode | 0o700)
    return checksums


def _make_links(links: List[Tuple[str, str, str]], source: str, copy: str) -> None:
    """Refuse links that lead out through other links: before each is made, and when all exist."""
    for name, path, link in links:
        parent = os.path.dirname(path)
        if not _is_below(parent, copy):
            raise _refused(source, name, "leads out of the target through a link")
        os.makedirs(parent, exist_ok=True)
        os.symlink(link, path)
    for name, path, _ in links:
        if not _is_below(path, copy):
            raise _refused(source, name, "is a link that leads out of the target through another")


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(real, ""))


def _safe_name(name: str, source: str) -> str:
    normal = os.path.normpath(name)
    if normal.startswith(("/", "../")) or normal == "..":
        raise _refused(source, name, "leads out of the target")
    return "" if normal == "." else normal


def _refused(source: str, name: str, why: str) -> StageError:
    return StageError("%s: member %s %s" % (printable(source), printable(name), why))


def _escapes(name: str, link: str) -> bool:
    end = os.path.normpath(os.path.join(os.path.dirname(name), link))
    return link.startswith("/") or end.split("/")[0] == ".."


def _write(
    member: Member, content: IO[bytes], path: str, archive: IO[bytes], progress: Progress
) -> List[int]:
    """Write one file, compare it with what was unpacked, and return the checksums of its blocks."""
    checksums: List[int] = []
    with open(path, "w+b") as file:
        left = member.size
        while left or not checksums:
            crc, block = 0, min(BLOCK, left)
            start = file.tell()
            while block:
                data = content.read(min(1 << 20, block))
                if not data:
                    raise EOFError("ends in the middle of %s" % printable(path))
                crc = zlib.crc32(data, crc)
                file.write(data)
                block, left = block - len(data), left - len(data)
                progress.bytes = archive.tell()
                progress.tick()
            file.flush()
            if crc != range_checksum(file.fileno(), start, file.tell() - start):
                what = "differs from what was written when read back"
                raise StageError("%s: %s" % (printable(path), what))
            checksums.append(crc)
    os.chmod(path, member.mode & 0o777)
    os.utime(path, ns=(member.mtime, member.mtime))
    return checksums


def _of_tar(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for one in archive:
            mode, mtime = stat.S_IMODE(one.mode), int(one.mtime) * 10**9
            if one.isdir():
                yield Member("folder", one.name, mode, mtime)
            elif one.isreg():
                content = archive.extractfile(one)
                yield Member("file", one.name, mode, mtime, one.size, content)
            elif one.issym():
                yield Member("link", one.name, mode, mtime, link=one.linkname)
            elif one.islnk():
                yield Member("hard link", one.name, mode, mtime, link=one.linkname)
            else:
                yield Member("device", one.name, mode, mtime)


def _of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            attributes = one.external_attr >> 16
            mtime = int(time.mktime((*one.date_time, 0, 0, -1))) * 10**9
            kind = "folder" if one.is_dir() else "link" if stat.S_ISLNK(attributes) else "file"
            default = 0o755 if kind == "folder" else 0o644  # of an archive not made on Unix
            mode = stat.S_IMODE(attributes) or default
            with archive.open(one) as content:
                link = os.fsdecode(content.read()) if kind == "link" else ""
                yield Member(kind, one.filename, mode, mtime, one.file_size, content, link)
