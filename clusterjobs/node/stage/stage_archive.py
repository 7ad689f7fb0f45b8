"""Unpack an archive beside the target, with the programs tar, gzip, bzip2, xz, zstd and unzip.

Their exit codes decide whether an archive is whole, and what they say on stderr is an error, too.
What came out is compared with the listing. A device, or a name or link that leads out of the
target, is an error that names the member. After an interruption it starts again.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
import time
import zipfile
from typing import IO, Any, Dict, List

from stage_list import EMPTY, Listing, path_of, scan
from stage_lock import Lock
from stage_log import LeaseLostError, Progress, SourceError, StageError, format_size, printable
from stage_record import StagedCopy, StagePaths, remove
from stage_space import FreeSpace, check_space, too_small

_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_MAGIC.update({bytes([n]) + b"\x2a\x4d\x18": "zstd" for n in range(0x50, 0x60)})  # of pzstd
_ZIP = b"PK\3\4"
_TAR = [
    "tar", "--extract", "--file=-", "--verbose", "--verbose", "--block-number", "--numeric-owner",
    "--quoting-style=c", "--no-same-permissions", "--no-same-owner",
    "--delay-directory-restore", "--warning=no-timestamp", "--warning=no-unknown-keyword",
    "--warning=no-alone-zero-block",
]  # fmt: skip
# As in `block 9: lrwxrwxrwx 0/0  0 2026-11-24 02:25 "NAME" -> "TARGET"`.
_QUOTED = rb'"((?:[^"\\]|\\.)*)"'
_MEMBER = re.compile(
    rb"block \d+: (.)\S+ \S+ +([\d,]+) [^\"]*%b(?: (?:->|link to) %b)?.*\n" % (_QUOTED, _QUOTED)
)
_END = re.compile(rb"block (\d+): \*\* Block of NULs \*\*\n")
_ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))")
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v"))
# What a program says although the archive may be whole: a retry can help.
_FULL = re.compile("No space left|quota exceeded|Wrote only")
_FAULT = re.compile("Input/output error|Stale file|Cannot allocate|memory exhausted")
# What tar says before it names a member, or after it.
_UNNAMED = re.compile("Removing leading|Skipping to next|Exiting with failure")
_UNIT = 512  # everything in a tar is a multiple of it
_PIECE = 1 << 20
_MOST_IN_GZIP = 1032  # bytes that one compressed byte can stand for
_AGAIN = "copy or pack it again"


class ArchiveError(Exception):
    """What is wrong with an archive, without its name, and what to do about it."""

    def __init__(self, what: str, hint: str = _AGAIN) -> None:
        super().__init__("%s: %s" % (what, hint))


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
    archive, is_s3 = source, source.startswith("s3://")
    remove(paths.copy)
    if is_s3:
        archive = paths.archive
        s3 = importlib.import_module("stage_s3")  # by name, as in stage.py
        state: Any = s3.fetch_object(source, archive, paths, lock)
    else:
        state = _state_of(source)
    failure = None
    try:
        listing = Unpacker(paths, archive, lock).unpack(source.lower().endswith(".zip"))
    except ArchiveError as error:
        failure = SourceError("%s: %s" % (printable(source), error))
    if not is_s3 and _state_of(source) != state:  # it may still be copied there: a retry can help
        raise StageError("%s: changed while it was unpacked" % printable(source))
    if failure:
        raise failure
    return StagedCopy(listing, {}, state)


def _state_of(source: str) -> List[int]:
    return list(scan(source).files.get("", ()))


class Unpacker:
    """Unpacks one archive. Raises ArchiveError and StageError."""

    def __init__(self, paths: StagePaths, archive: str, lock: Lock) -> None:
        self._paths, self._archive, self._copy, self._lock = paths, archive, paths.copy, lock
        self._space, self._size = FreeSpace(paths), os.stat(archive).st_size
        self._progress = Progress(
            "stage %s" % printable(paths.target), self._size, lock.check_lease
        )
        self._wanted: Dict[str, int] = {}  # the size of each file; -1 for a folder or link
        self._listed = 0  # bytes of all files of a tar, also of the holes of sparse ones

    def unpack(self, is_zip: bool) -> Listing:
        """What came out: as the listing says, and with no link that leads out."""
        with open(self._archive, "rb") as file:
            start = file.read(512)
            file.seek(0)
            os.mkdir(self._copy)
            is_zip = is_zip or start.startswith(_ZIP)
            (self._unpack_zip if is_zip else self._unpack_tar)(file, start)
        _make_readable(self._copy)
        for folder, names, _ in os.walk(self._copy):  # the folders in it before they are listed
            for path in (os.path.join(folder, name) for name in names):
                if not os.path.islink(path):
                    _make_readable(path)
        found = scan(self._copy, follow=False)
        for name, link in found.links.items():
            if link.startswith("/") or not self._is_inside(path_of(self._copy, name)):
                raise refused(name, "is a link that leads out of the target")
        sizes = {name: row[0] for name, row in found.files.items()}
        check_space(self._paths, EMPTY, max(0, self._listed - self._space.written))  # with holes
        if sizes != {name: size for name, size in self._wanted.items() if size >= 0}:
            raise ArchiveError("what was unpacked differs from the archive's listing")
        return found

    def _is_inside(self, path: str) -> bool:
        return os.path.join(os.path.realpath(path), "").startswith(os.path.join(self._copy, ""))

    # -------------------------------------------------------------- tar

    def _unpack_tar(self, file: IO[bytes], start: bytes) -> None:
        if not start:
            raise ArchiveError("is empty")
        check_space(self._paths, EMPTY, max(self._size, _size_in_gzip(file, self._size)))
        kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")
        with tempfile.TemporaryFile() as lines, contextlib.ExitStack() as running:

            def started(*command: Any) -> Program:
                return running.enter_context(contextlib.closing(Program(*command)))

            held = [self._lock.descriptor()]
            tar = started([*_TAR, "-C", self._copy], subprocess.PIPE, lines, held)
            packer = None
            if kind:
                os.lseek(file.fileno(), 0, os.SEEK_SET)  # Python has read the start
                packer = started([kind, "-dc"], file, subprocess.PIPE)
            end = self._feed(packer.process.stdout if packer else file, file, tar)
            code = tar.end()
            marker = self._read_listing(lines)
            if packer and end >= 0:
                packer.check("damaged %s data: " % kind, self._full)
            if code and not kind and marker is None and not self._wanted:
                raise not_an_archive("tar", start)
            tar.check("", self._full)
        if marker is None:
            raise ArchiveError("is cut off: it has no end-of-archive marker of tar")
        if end > marker:
            raise ArchiveError(
                "has more data after tar's end-of-archive marker at byte %d: it is damaged, or "
                "several archives were joined" % marker
            )

    def _feed(self, stream: Any, file: IO[bytes], tar: Program) -> int:
        """Pass the tar on. The end of its last byte that is not zero; -1 if tar has failed."""
        at = end = 0
        while True:
            data = stream.read(_PIECE)
            if not data:
                return end
            self._space.take(len(data))
            if not tar.write(data) and tar.end():
                return -1
            filled = len(data.rstrip(b"\0"))
            end = at + filled if filled else end
            at += len(data)
            self._progress.bytes = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            self._progress.tick()

    def _read_listing(self, lines: IO[bytes]) -> Any:
        """Check the members' names and kinds. Where the end-of-archive marker is, or None."""
        lines.seek(0)
        for line in lines:
            end, member = _END.fullmatch(line), _MEMBER.fullmatch(line)
            if end:
                return int(end[1]) * _UNIT
            if member:
                kind, size, name, original = member.groups()
                self._add_member(
                    kind.decode(),
                    int(size) if size.isdigit() else 0,
                    _unescaped(name),
                    _unescaped(original or b""),
                )
        return None

    def _add_member(self, kind: str, size: int, name: str, original: str) -> None:
        """`original`: what a link says."""
        if kind == "V":  # the label of the archive
            return
        if kind not in "-Cdlh":
            raise refused(name, "is not a file, a folder or a link")
        normal = safe_name(name, kind == "d")
        if kind == "h":
            size = self._wanted.get(safe_name(original, False), 0)
        else:
            self._listed += size
        self._wanted[normal] = -1 if kind in "dl" else size

    def _full(self, why: str) -> StageError:
        written = format_size(self._space.written)
        return StageError(too_small(self._paths, "%s written, then: %s" % (written, why)))

    # -------------------------------------------------------------- zip

    def _unpack_zip(self, file: IO[bytes], start: bytes) -> None:
        """By Python, which keeps the bytes of names and refuses nothing silently.

        If the node has unzip, it must find the archive whole, too: it compares more.
        """
        with contextlib.ExitStack() as running:
            judge = None
            if shutil.which("unzip"):  # to which the archive's own name might be a pattern
                words = ["unzip", "-tqq", "/dev/fd/%d" % file.fileno()]
                judge = Program(words, subprocess.DEVNULL, None, [file.fileno()])
                running.callback(judge.close)
            try:
                self._write_members(file)
            except (ArchiveError, StageError, OSError):
                raise
            except Exception as error:  # zipfile has many kinds of errors for a damaged archive
                if not start.startswith(b"PK"):
                    raise not_an_archive("zip", start) from None
                raise ArchiveError(str(error) or type(error).__name__) from None
            if judge:
                judge.check("", self._full)

    def _write_members(self, file: IO[bytes]) -> None:
        mask = os.umask(0)
        os.umask(mask)
        links: Dict[str, str] = {}
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            check_space(self._paths, EMPTY, sum(one.file_size for one in members))
            for one in members:
                name = safe_name(_name_in_zip(one), one.is_dir())
                path, mode = path_of(self._copy, name), one.external_attr >> 16
                self._wanted[name] = -1
                links.pop(name, None)
                if one.is_dir():
                    os.makedirs(path, exist_ok=True)
                elif stat.S_ISLNK(mode):
                    links[name] = os.fsdecode(archive.read(one)[:4096])
                else:
                    self._wanted[name] = one.file_size
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    remove(path)
                    with archive.open(one) as content, open(path, "wb") as to:
                        for data in iter(lambda: content.read(_PIECE), b""):
                            self._space.take(len(data))
                            to.write(data)
                            self._progress.bytes = file.tell()
                            self._progress.tick()
                    seconds = time.mktime((*one.date_time, 0, 0, -1))
                    os.utime(path, (seconds, seconds))
                    os.chmod(path, (mode & 0o777 or 0o644) & ~mask)
        for name, link in links.items():  # last, so that nothing is written through a link
            path = path_of(self._copy, name)
            if not self._is_inside(os.path.dirname(path)):
                raise refused(name, "leads out of the target through a link")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            remove(path)
            os.symlink(link, path)


class Program:
    """A program that reads an archive."""

    def __init__(self, command: List[str], stdin: Any, stdout: Any, held: Any = ()) -> None:
        if not shutil.which(command[0]):
            what = "cannot be unpacked: this node has no program %s" % command[0]
            raise ArchiveError(what, "install it, or pack the archive with gzip")
        self._name = command[0]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        self.process: Any = subprocess.Popen(
            *(command, _PIECE),
            stdin=stdin,
            stdout=self._errors if stdout is None else stdout,
            stderr=self._errors,
            env={**os.environ, "LC_ALL": "C", "TAR_OPTIONS": ""},
            pass_fds=held,
        )

    def write(self, data: bytes) -> bool:
        """Whether it still reads."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            return True
        return False

    def end(self) -> int:
        """Its exit code, when it has read all."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return int(self.process.wait())

    def check(self, what: str, full: Any) -> None:
        """Raises an error unless it has ended well, without a word."""
        code = self.process.wait()
        if code < 0:  # by a lack of memory, for example: a retry can help
            raise StageError("%s was killed by signal %d" % (self._name, -code))
        self._errors.seek(0)
        said = self._errors.read().decode(errors="backslashreplace").strip()
        for pattern, error in ((_FULL, full), (_FAULT, StageError)):
            for line in filter(pattern.search, said.splitlines()):
                raise error(printable(line))
        if code or said:
            lines = said.splitlines() or ["%s: exit code %d" % (self._name, code)]
            named = [line for line in lines if not _UNNAMED.search(line)] or lines
            raise ArchiveError(what + printable(named[0]))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self._errors):
            if file:
                with contextlib.suppress(BrokenPipeError):
                    file.close()


def not_an_archive(kind: str, start: bytes) -> ArchiveError:
    """The error for a file of another kind, such as a text or a pointer of git-lfs."""
    shown = start[:40].decode("utf-8", "backslashreplace").split("\n")[0]
    what = "is no %s archive, or damaged at its start: it starts with %r" % (kind, shown)
    return ArchiveError(what, "put the archive itself there, or leave unpack out")


def refused(name: str, why: str) -> ArchiveError:
    """The error for a member that no target may have."""
    return ArchiveError(
        "member %s %s" % (printable(name), why), "pack the archive again without it"
    )


def safe_name(name: str, is_folder: bool) -> str:
    """The normal form of a member's name; only a folder may be the target itself."""
    normal = os.path.normpath(name)
    if normal.startswith(("/", "../")) or normal == "..":
        raise refused(name, "leads out of the target")
    if not name or "\0" in name or (normal == "." and not is_folder):
        raise refused(name, "has no possible name")
    return "" if normal == "." else normal


def _make_readable(folder: str) -> None:
    os.chmod(folder, os.stat(folder).st_mode & 0o777 | 0o700)


def _unescaped(text: bytes) -> str:
    def byte(match: Any) -> bytes:
        return bytes([int(match[1], 8) if match[1] else _ESCAPED.get(ord(match[2]), ord(match[2]))])

    return os.fsdecode(_ESCAPE.sub(byte, text))


def _name_in_zip(one: zipfile.ZipInfo) -> str:
    """The bytes of a name that was made on Unix: zipfile takes it for text of DOS."""
    if one.create_system != 3 or one.flag_bits & 1 << 11:  # Unix; a flag: the name is UTF-8
        return one.filename
    return os.fsdecode(one.filename.encode("cp437"))


def _size_in_gzip(file: IO[bytes], size: int) -> int:
    """What a gzip file says at its end: the unpacked size, without multiples of 4 GiB.

    0 if it says nothing possible: it is of another kind, padded or cut off.
    """
    is_gzip = file.read(2) == b"\x1f\x8b" and size >= 18
    file.seek(-4 if is_gzip else 0, os.SEEK_END)
    found = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return found if found < size * _MOST_IN_GZIP else 0
