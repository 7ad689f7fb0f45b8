r"""Cases in text files: a few files, a command line, and what it prints, to the byte.

    === name-of-the-case ===
    Remarks, if any.
    --- spec.yaml ---
    name: a
    clustr: small
    $ clusterjobs render spec.yaml
    spec.yaml:2:1 clustr: unknown key clustr
    ...
    exit code 1

A new case ends with its line `$ clusterjobs ...`: `pytest --update-goldens` writes what follows, as
far as the exit code, and leaves the rest of the file as it is. Read what it wrote.

What cannot stand in a text as it is has a word in its heading:

- `--- spec.yaml (latin-1) ---`: text in this encoding, with the escapes of a Python string, as `\r`
  or `\xff`. A `\` at the end of a line removes the line break.
- `--- job.log.gz (base64) ---`: the bytes in Base64.
- `--- site.yaml (link) ---`: a symbolic link to the path below.
"""

from __future__ import annotations

import base64
import fcntl
import pathlib
import re
import shlex
from collections.abc import Collection, Iterator
from typing import NamedTuple

FOLDER = pathlib.Path(__file__).with_name("cases")
_CASE = re.compile(r"^=== (\S+) ===\n", re.M)
_FILE = re.compile(r"^--- (\S+)(?: \((\S+)\))? ---\n", re.M)
_SESSION = re.compile(r"^\$ clusterjobs (.*)(?:\n|\Z)(?:(?s:.*)^exit code \d+(?:\n|\Z))?", re.M)


class File(NamedTuple):
    """A file of a case: its text, and the word in its heading."""

    text: str
    form: str

    @property
    def data(self) -> bytes:
        if self.form == "":
            return self.text.encode()
        if self.form == "base64":
            return base64.b64decode(self.text)
        latin = self.text.encode("latin-1", "backslashreplace")
        return latin.decode("unicode_escape").encode(self.form)


class Case(NamedTuple):
    """One case. `expected` starts with the command line and ends with the exit code."""

    path: pathlib.Path
    line: int
    name: str
    remarks: str
    files: dict[str, File]
    command: str
    expected: str

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(FOLDER.parents[1])}:{self.line}"

    @property
    def arguments(self) -> list[str]:
        return shlex.split(self.command)

    def write(self, folder: pathlib.Path, left_out: Collection[str] = ()) -> None:
        """Write the files to a folder."""
        for name, file in self.files.items():
            if name in left_out:
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if file.form == "link":
                path.symlink_to(file.text.strip())
            else:
                path.write_bytes(file.data)

    def update(self, expected: str) -> Case:
        """Write the expected text into the file, and return the case as it is read from there."""
        assert "internal error" not in expected, expected
        with self.path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the processes of pytest-xdist write to the same file
            text = file.read().decode()
            (session,) = (
                session for name, _, session in _cases(self.path, text) if name == self.name
            )
            text = text[: session.start()] + expected + text[session.end() :]
            file.seek(0)
            file.write(text.encode())
            file.truncate()
        return next(case for case in _read(self.path, text) if case.name == self.name)


def read_cases(files: str) -> list[Case]:
    """The cases of some files of tests/cases, as `bad/*.txt`."""
    paths = sorted(FOLDER.glob(files))
    cases = [case for path in paths for case in _read(path, path.read_bytes().decode())]
    places: dict[str, str] = {}
    for case in cases:
        if places.setdefault(case.name, case.place) != case.place:
            raise ValueError(f"{case.place}: {case.name} is also the name of {places[case.name]}")
    return cases


def _cases(path: pathlib.Path, text: str) -> Iterator[tuple[str, int, re.Match[str]]]:
    """The name of each case, where its files start, and its command line with what it prints."""
    headings = [*_CASE.finditer(text)]
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        session = _SESSION.search(text, heading.end(), end)
        if session is None:
            raise ValueError(f"{path}: {heading[1]} has no line `$ clusterjobs ...`")
        yield heading[1], heading.end(), session


def _read(path: pathlib.Path, text: str) -> Iterator[Case]:
    for name, start, session in _cases(path, text):
        remarks, *parts = _FILE.split(text[start : session.start()])
        files = {
            file: File(lines, form or "")
            for file, form, lines in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        }
        yield Case(path, text.count("\n", 0, start), name, remarks, files, session[1], session[0])
