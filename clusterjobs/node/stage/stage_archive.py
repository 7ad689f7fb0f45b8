"""An archive unpacked beside the target: tar, plain or by gzip, bzip2 or xz, and zip.

Only what a data set is made of: folders, files, links that stay inside. A name that leads out of
the target, or a device, ends it with the member's name. One process, for an archive is read from
its beginning to its end; what was unpacked when a job ended is unpacked again.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from typing import IO, Any, Iterator, List, Optional, Tuple

from stage_copy import check_space
from stage_files import BLOCK
from stage_list import NOTHING, Listing, path_of, scan
from stage_lock import Lock
from stage_log import Progress, StageError, shown
from stage_record import Place, Seen, Sums, remove, state_of

# Of a file: its content. Of a link: what it says.
Member = Tuple[str, str, int, int, int, Optional[IO[bytes]], str]
_ENDS_BADLY = (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, RuntimeError)


def bring_archive(place: Place, source: str, lock: Lock) -> Tuple[Listing, Sums, Seen, Any]:
    """Unpack to `place.copy`: what the target must be, its sums, what the archive was."""
    archive = source
    remove(place.copy)
    if source.startswith("s3://"):
        from stage_s3 import fetch_object

        archive = os.path.join(place.folder, "archive")
        state: Any = fetch_object(source, archive, place, lock)
    else:
        state = state_of(scan(source))
    size = os.stat(archive).st_size
    check_space(place, NOTHING, size)  # at the least: what is in it may be larger
    os.mkdir(place.copy)
    progress = Progress("stage %s" % shown(place.target), size, lock.beat)
    try:
        with open(archive, "rb") as file:
            sums = _unpacked(file, source, place.copy, progress)
    except (*_ENDS_BADLY, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise StageError("%s: %s" % (shown(source), error or type(error).__name__)) from None
    if not source.startswith("s3://") and state_of(scan(source)) != state:
        raise StageError("%s: changed while it was unpacked" % shown(source))
    return scan(place.copy, follow=False), sums, Seen([], []), state


def _unpacked(file: IO[bytes], source: str, copy: str, progress: Progress) -> Sums:
    sums: Sums = {}
    links: List[Tuple[str, str, str]] = []
    modes: List[Tuple[str, int]] = []
    members = _of_zip(file) if source.lower().endswith(".zip") else _of_tar(file)
    for kind, raw, mode, mtime, size, content, said in members:
        name = _inside(raw, source)
        path = path_of(copy, name)
        if kind == "folder":
            os.makedirs(path, exist_ok=True)
            modes.append((path, mode))
        elif kind == "link":
            if _leads_out(name, said):
                raise _refused(source, raw, "is a link that leads out of it")
            links.append((raw, path, said))
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            remove(path)  # a later member of the same name counts
            if kind == "device":
                raise _refused(source, raw, "is neither a file nor a folder nor a link")
            if kind == "hard link":
                original = _inside(said, source)
                if original not in sums:
                    raise _refused(source, raw, "is a link to what is not in it")
                shutil.copy2(path_of(copy, original), path)
                sums[name] = sums[original]
            elif content is not None:
                sums[name] = _written(content, path, size, mode, mtime, file, progress)
    _make_links(links, source, copy)  # last, so that nothing is written through one
    for path, mode in reversed(modes):
        os.chmod(path, mode | 0o700)
    return sums


def _make_links(links: List[Tuple[str, str, str]], source: str, copy: str) -> None:
    """Refuse those that lead out through another, before one is made there and after all are."""
    for raw, path, said in links:
        above = os.path.dirname(path)
        if not _is_below(above, copy):
            raise _refused(source, raw, "leads out of it through a link")
        os.makedirs(above, exist_ok=True)
        os.symlink(said, path)
    for raw, path, _ in links:
        if not _is_below(path, copy):
            raise _refused(source, raw, "is a link that leads out of it through another")


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(folder)
    return os.path.join(os.path.realpath(path), "").startswith(os.path.join(real, ""))


def _inside(raw: str, source: str) -> str:
    name = os.path.normpath(raw)
    if name.startswith(("/", "../")) or name == "..":
        raise _refused(source, raw, "leads out of it")
    return "" if name == "." else name


def _refused(source: str, raw: str, why: str) -> StageError:
    return StageError("%s: its member %s %s" % (shown(source), shown(raw), why))


def _leads_out(name: str, said: str) -> bool:
    end = os.path.normpath(os.path.join(os.path.dirname(name), said))
    return said.startswith("/") or end.split("/")[0] == ".."


def _written(
    content: IO[bytes],
    path: str,
    size: int,
    mode: int,
    mtime: int,
    archive: IO[bytes],
    progress: Progress,
) -> List[int]:
    """Write one file; the sums of its blocks, of what was unpacked and of what is read back."""
    sums: List[int] = []
    with open(path, "w+b") as file:
        left = size
        while left or not sums:
            crc, block = 0, min(BLOCK, left)
            start = file.tell()
            while block:
                data = content.read(min(1 << 20, block))
                if not data:
                    raise EOFError("ends in the middle of %s" % shown(path))
                crc = zlib.crc32(data, crc)
                file.write(data)
                block, left = block - len(data), left - len(data)
                progress.bytes = archive.tell()
                progress.tick()
            file.flush()
            if crc != _read_back(file.fileno(), start, file.tell()):
                raise StageError("%s: read back, it was not what was written" % shown(path))
            sums.append(crc)
    os.chmod(path, mode & 0o777)
    os.utime(path, ns=(mtime, mtime))
    return sums


def _read_back(file: int, start: int, end: int) -> int:
    crc = 0
    while start < end:
        data = os.pread(file, min(1 << 20, end - start), start)
        crc, start = zlib.crc32(data, crc), start + len(data)
    return crc


def _of_tar(file: IO[bytes]) -> Iterator[Member]:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for one in archive:
            mtime, mode = int(one.mtime) * 10**9, stat.S_IMODE(one.mode)
            if one.isdir():
                yield "folder", one.name, mode, mtime, 0, None, ""
            elif one.isreg():
                yield "file", one.name, mode, mtime, one.size, archive.extractfile(one), ""
            elif one.issym():
                yield "link", one.name, mode, mtime, 0, None, one.linkname
            elif one.islnk():
                yield "hard link", one.name, mode, mtime, 0, None, one.linkname
            else:
                yield "device", one.name, mode, mtime, 0, None, ""


def _of_zip(file: IO[bytes]) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for one in archive.infolist():
            mode = one.external_attr >> 16
            mtime = int(time.mktime((*one.date_time, 0, 0, -1))) * 10**9
            kind = "folder" if one.is_dir() else "link" if stat.S_ISLNK(mode) else "file"
            usual = 0o755 if kind == "folder" else 0o644  # where no Unix wrote the archive
            permissions = stat.S_IMODE(mode) or usual
            with archive.open(one) as content:
                said = os.fsdecode(content.read()) if kind == "link" else ""
                yield kind, one.filename, permissions, mtime, one.file_size, content, said
