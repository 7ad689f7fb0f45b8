"""Finds the specs below folders of many users, whatever else is there."""

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from clusterjobs.errors import InputError
from clusterjobs.files import open_regular
from clusterjobs.slurm.queue import Queued
from clusterjobs.yaml import document as yaml_document

_ENDINGS = (".yaml", ".yml")
_SKIPPED = "generated"  # the default folder of `render`

# A spec has two of these keys at the start of lines; other YAML files hardly have.
_KEYS = re.compile(
    rb"(?m)^(?:\xef\xbb\xbf)?(name|cluster|framework|extends|nodes|launcher|script|command|args|"
    rb"time_limit|workdir|software|batch|gpus_per_node|ranks_per_node)[ \t]*:"
)
_KEYS_OF_A_SPEC = 2


class Unread(NamedTuple):
    """A file or folder that could not be looked at, and why."""

    path: str
    reason: str


class Found(NamedTuple):
    """The specs in the order of their paths; `bases` are files that other specs extend."""

    specs: list[str]
    bases: frozenset[str]
    others: int
    unread: list[Unread]


def find_specs(folders: Iterable[Path], left_out: Iterable[Path] = ()) -> Found:
    """All specs below the folders. Nothing that is found there raises.

    Hidden folders, folders called `generated`, and those of `left_out` are skipped. Links to
    folders are followed, but no folder is visited twice. A file may be named itself.
    """
    search = _Search(left_out)
    for folder in folders:
        search.visit(os.path.abspath(folder))  # noqa: PTH100  # resolve() would follow links
    return Found(search.specs, frozenset(search.bases), search.others, search.unread)


class _Search:
    def __init__(self, left_out: Iterable[Path]) -> None:
        self.specs: list[str] = []
        self.bases: set[str] = set()
        self.others = 0
        self.unread: list[Unread] = []
        self._visited = {identity for path in left_out if (identity := _identity(str(path)))}

    def visit(self, path: str) -> None:
        """A folder that somebody named, or a file."""
        if os.path.isdir(path):  # noqa: PTH112
            self._walk(path)
        else:
            self._look_at(path)

    def _walk(self, first: str) -> None:
        """Depth first, without recursion: folders may be nested very deeply."""
        waiting = [first]
        while waiting:
            folder = waiting.pop()
            if not self._is_new(folder):
                continue
            entries = self._entries(folder)
            for entry in entries:
                if entry.name.endswith(_ENDINGS) and not _is_folder(entry):
                    self._look_at(entry.path)
            inner = [one.path for one in entries if _is_folder(one) and one.name != _SKIPPED]
            waiting += reversed(inner)

    def _is_new(self, folder: str) -> bool:
        identity = _identity(folder)
        if identity is None:
            self._report(folder, "it vanished, or its parent may not be searched")
            return False
        if identity in self._visited:
            if _leads_up(folder):
                self._report(folder, "a link to a folder above it: not followed")
            return False
        self._visited.add(identity)
        return True

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                seen = [one for one in entries if not one.name.startswith(".")]
                return sorted(seen, key=lambda one: one.name)
        except OSError as error:
            self._report(folder, _reason(error))
            return []

    def _look_at(self, path: str) -> None:
        try:
            with open_regular(Path(os.path.realpath(path))) as file:
                data = file.read(yaml_document.MAX_BYTES + 1)
        except OSError as error:
            self._report(path, _reason(error, path))
            return
        if len(data) > yaml_document.MAX_BYTES:
            self._report(path, f"more than {yaml_document.MAX_BYTES:,} bytes: no spec is so large")
        elif len(set(_KEYS.findall(data))) >= _KEYS_OF_A_SPEC:
            self.specs.append(path)
            self.bases.update(_bases(data, path))
        else:
            self.others += 1

    def _report(self, path: str, reason: str) -> None:
        self.unread.append(Unread(path, reason))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _leads_up(link: str) -> bool:
    """Whether it is a link to a folder that it is in itself."""
    try:
        target = os.path.realpath(link)
    except OSError:  # of another process's folder in /proc
        return False
    here = os.path.realpath(os.path.dirname(link))  # noqa: PTH120
    return os.path.islink(link) and f"{here}/".startswith(f"{target.rstrip('/')}/")  # noqa: PTH114


def _reason(error: OSError, path: str = "") -> str:
    if path and os.path.islink(path):  # noqa: PTH114
        try:
            os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return "a link to a file that does not exist"
        except OSError as of_link:
            return "a link that leads to itself" if of_link.errno == errno.ELOOP else str(of_link)
    if isinstance(error, FileNotFoundError):
        return "it vanished meanwhile"
    return error.strerror or type(error).__name__


def _bases(data: bytes, path: str) -> Iterator[str]:
    """The files that a spec extends. They may be incomplete, so their failures do not count."""
    if b"extends" not in data:
        return
    try:
        value = yaml_document.load(yaml_document.decode(data, path), path).value
    except InputError:
        return
    named = value.get("extends") if isinstance(value, dict) else None
    for one in named if isinstance(named, list) else [named]:
        if isinstance(one, str):
            yield os.path.realpath(os.path.join(os.path.dirname(path), one))  # noqa: PTH118, PTH120


# ------------------------------------------------------------------ by name


_NAME = re.compile(r"(?m)^name[ \t]*:[ \t]*(.*?)[ \t]*(?:#.*)?$")
_EXTENDS = re.compile(r"(?m)^extends[ \t]*:")
_MOST_FILES = 1000  # of one folder that are looked at
_MOST_BYTES = 1 << 20


def specs_of(jobs: Iterable[Queued]) -> Iterator[Path]:
    """The files that may be the specs of jobs: of the same name, where the jobs were submitted."""
    names: dict[str, set[str]] = {}
    for job in jobs:
        if job.workdir:
            names.setdefault(job.workdir, set()).add(job.name)
    for folder, wanted in names.items():
        yield from specs_named(Path(folder), wanted)


def specs_named(folder: Path, names: Collection[str] = ()) -> Iterator[Path]:
    """The files of the folder that have one of the names, or may have it from the file that they
    extend: a quick look, before they are loaded. Without names, all that have one."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return
    for path in found[:_MOST_FILES]:
        try:
            with open_regular(path.resolve()) as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except (OSError, RuntimeError):
            continue
        own = [one.strip("'\"") for one in _NAME.findall(text)]
        inherits = not own and _EXTENDS.search(text)
        if inherits or (own and not names) or {*names}.intersection(own):
            yield path
