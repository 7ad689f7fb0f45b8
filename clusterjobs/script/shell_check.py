"""Checks lines of bash with `bash -n`, which does not run them: a spec's, and a site's."""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.errors import Problem
from clusterjobs.script.site import SiteFile, at
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.yaml.document import Path, dotted, look_at


def code_problems(loaded: LoadedSpec) -> tuple[Problem, ...]:
    """Problems of the `setup` lines; none if this machine has no bash."""
    spec = loaded.spec
    code: dict[Path, tuple[str, ...]] = {("setup",): spec.setup}
    code["software", "setup"] = spec.software.setup
    if spec.software.container:
        code["software", "container", "setup"] = spec.software.container.setup
    return tuple(
        _problem(loaded, path, found)
        for path, lines in code.items()
        if lines and (found := bash_complaint("\n".join(lines)))
    )


def _problem(loaded: LoadedSpec, path: Path, said: Complaint) -> Problem:
    """The problem; if several files have lines, at the first that bash cannot read alone."""
    files: dict[str, list[int]] = {}
    written = look_at(loaded.merged.data, path)
    for index in range(len(written)) if isinstance(written, list) else ():
        files.setdefault(loaded.source.locate((*path, index)).file, []).append(index)
    for indexes in files.values() if len(files) > 1 else ():
        if of_file := bash_complaint("\n".join(str(written[index]) for index in indexes)):
            path, said = (*path, indexes[0]), of_file
            break
    return Problem(
        f"bash cannot read it: {said}", loaded.source.locate(path), dotted(path), CODE_HINT
    )


CODE_HINT = "it would end the job on nodes that are paid for: try it with bash -n"


_BEFORE, _AFTER = "f() { if :; then ( :", ")\nfi\n}"  # nothing in between closes all of it


def insertion_problems(files: Sequence[SiteFile]) -> tuple[Problem, ...]:
    """The first problem of the lines that a site inserts.

    A text that is not complete, or closes more than it opens, would change the script around it.
    """
    wrapped = [f"{_BEFORE}\n{file.text.rstrip()}\n{_AFTER}\n" for file in files]
    found = bash_complaint("".join(wrapped), warnings=True)
    if found is None:
        return ()
    if opened := re.search(r"here-document at line (\d+) .*(\(wanted .*\))", found.said):
        found = Complaint(int(opened[1]), f"a here-document is not closed {opened[2]}")
    start = 1
    for file, text in zip(files, wrapped, strict=True):
        lines = text.count("\n")
        if found.line < start + lines or file is files[-1]:
            return (_insertion_problem(file, found, found.line - start),)
        start += lines
    return ()


def _insertion_problem(file: SiteFile, found: Complaint, line: int) -> Problem:
    last = len(file.text.rstrip().split("\n"))
    where = at(file, min(max(line, 1), last))
    return Problem(f"bash cannot read it: {found.said}", where, "", f"try: bash -n {file.file}")


class Complaint(NamedTuple):
    """What bash says about a text, and the line that it names."""

    line: int
    said: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.said}" if self.line else self.said


def find_bash() -> str | None:
    """The bash on PATH; None if there is none, or one before 4.4, which job scripts need.

    macOS has 3.2, which takes `[[ -v NAME ]]` for an error.
    """
    bash = shutil.which("bash")
    return bash if bash and _is_new_enough(bash) else None


@functools.cache
def _is_new_enough(bash: str) -> bool:
    import subprocess

    program = "((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404))"
    return subprocess.run([bash, "-c", program], capture_output=True, check=False).returncode == 0


def bash_complaint(code: str, warnings: bool = False) -> Complaint | None:
    """The first complaint; None without one, or if this machine has no bash of the nodes' syntax.

    `warnings`: with the warning about a here-document that is not closed.
    """
    bash = find_bash()
    return _complaint(bash, code, warnings) if bash else None


@functools.lru_cache(maxsize=256)  # the specs of a site often have the same lines
def _complaint(bash: str, code: str, warnings: bool) -> Complaint | None:
    import subprocess  # only for specs and sites with code
    import tempfile

    command = [bash, "-n"]
    try:
        with tempfile.TemporaryFile() as file:  # bash reads a pipe byte by byte: four times as long
            file.write(code.encode())
            file.seek(0)
            done = subprocess.run(command, stdin=file, capture_output=True, check=False)
    except OSError:  # there is no space for it
        done = subprocess.run(command, input=code.encode(), capture_output=True, check=False)
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == 0 and not (warnings and said):
        return None
    match = re.match(r"(?:.*?bash: )?(?:line (\d+): )?(.*)", said)
    assert match
    return Complaint(int(match[1] or 0), match[2])
