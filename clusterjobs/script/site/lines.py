"""Checks the lines of a site's files: characters, directives, and where the last line ends.

It must not know templates: most sites only insert lines, and checking templates costs 10 ms.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from clusterjobs.errors import Location, Problem
from clusterjobs.script.parts import option_of
from clusterjobs.script.site.templates import SiteFile, SiteTemplates, at


def check_lines(site: SiteTemplates) -> list[Problem]:
    """All problems of the lines, whatever their commands mean."""
    return [problem for file in site.files for problem in _check_text(file)]


def set_twice(site: SiteTemplates, planned: Iterable[str]) -> Iterator[Problem]:
    """Directives of the site that a job has already, with another value: sbatch takes the last."""
    values = dict(map(option_of, planned))
    for file in site.insertions("directives"):
        for number, line in enumerate(file.text.split("\n"), 1):
            name, value = option_of(line)
            if line.startswith("#SBATCH") and values.get(name, value) != value:
                what = f"this job has --{name}={values[name]} already"
                hint = "set it in defaults.yaml under `sbatch`, where a spec can change it"
                yield Problem(what, at(file, number), "", hint)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_DIRECTIVE = re.compile(r"#SBATCH\s+-\S")


@functools.lru_cache(maxsize=256)  # many specs of one site
def _check_text(file: SiteFile) -> tuple[Problem, ...]:
    return tuple(_text_problems(file))


def _text_problems(file: SiteFile) -> Iterator[Problem]:
    """Characters and lines that no script may have, whatever its commands mean."""
    lines = file.text.split("\n")
    for number, line in enumerate(lines, 1):
        if match := _CONTROL.search(line):
            where = Location(file.file, number, match.start() + 1, line)
            what = f"a control character (\\x{ord(match[0]):02x})"
            windows = match[0] == "\r"
            hint = "the file has Windows line ends: convert it with dos2unix" if windows else ""
            yield Problem(what, where, "", hint or "remove it")
            return
        stripped = line.strip()
        if file.point == "directives":
            if stripped and not _DIRECTIVE.match(line) and (line[0] != "#" or "#SBATCH" in line):
                what = "this line is no directive: a command would end the directives"
                hint = "write `#SBATCH --NAME=VALUE`, and commands in before_environment.sh"
                yield Problem(what, at(file, number), "", hint)
        elif file.point and stripped.startswith("#SBATCH"):
            what = "sbatch ignores a directive after the first command"
            yield Problem(what, at(file, number), "", "move it to directives.sh")
    last = len(file.text.rstrip("\n").split("\n"))
    if file.point and re.search(r"(?<!\\)(\\\\)*\\$", lines[last - 1]):
        what = "the last line goes on: the script's next line would be part of it"
        yield Problem(what, at(file, last, "\\"), "", "remove the backslash")
