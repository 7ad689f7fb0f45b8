"""Templates of the site folders: files that replace a packaged template, and lines to insert."""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes

from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText

PACKAGED = "packaged/"  # the prefix of the packaged templates' names, as in {% include %}

# Name -> when its lines are printed. A site writes the lines into the file NAME.sh.
INSERTION_POINTS: Mapping[str, str] = MappingProxyType(
    {
        "directives": "after the directives: further lines of #SBATCH",
        "before_environment": "before the variables, modules and setup of the spec",
        "after_environment": "after the variables, modules and setup of the spec",
        "before_launch": "right before the ranks are started, on the first node",
        "after_launch": "after a training that ended well, before the spec's `after`",
    }
)


class SiteFile(NamedTuple):
    """A file in a site's `templates/`: its name there, its path as in messages, and its text."""

    name: str
    file: str
    text: str

    @property
    def point(self) -> str:
        """The insertion point that it fills; "" for a template."""
        stem = self.name.removesuffix(".sh")
        return stem if stem != self.name and stem in INSERTION_POINTS else ""


class SiteTemplates(NamedTuple):
    """The files of all site folders' `templates/`, the highest precedence first."""

    files: tuple[SiteFile, ...] = ()

    def overrides(self) -> dict[str, SiteFile]:
        """The templates by name: of several with one name, that of the highest precedence."""
        return {one.name: one for one in reversed(self.files) if not one.point}

    def used(self, templates: Collection[str]) -> tuple[SiteFile, ...]:
        """The files of a script that used these templates: its overrides, and what it inserts."""
        overrides = [one for name, one in self.overrides().items() if name in templates]
        inserted = [one for point in INSERTION_POINTS for one in self.insertions(point)]
        return (*inserted, *sorted(overrides))

    def insertions(self, point: str) -> tuple[SiteFile, ...]:
        """The files with the lines of an insertion point, in the order in which they are printed.

        The lowest precedence is printed first: what a user adds comes after the system's lines.
        """
        return tuple(one for one in reversed(self.files) if one.point == point)


NO_SITE = SiteTemplates()


def site_context(site: SiteTemplates) -> dict[str, Any]:
    """What the insertion points print, and the place of the header's lines about the site."""
    points = {
        point: [
            {"file": shell.comment(one.file), "code": shell.code((one.text.rstrip("\n"),))}
            for one in site.insertions(point)
        ]
        for point in INSERTION_POINTS
    }
    calls_module = any(one.point and shell.calls_module(one.text) for one in site.files)
    has_templates = bool(site.files)
    used = ShellText(_USED)
    return {"has_templates": has_templates, "used": used, "calls_module": calls_module, **points}


_USED = "# \0"  # no other text has this character


def with_used_files(text: str, used: Iterable[SiteFile]) -> str:
    """The script whose header names the site's files that were used: known after the render."""
    files = [shell.comment(one.file) for one in used]
    lines = ["# Changed by templates of this site:", *(f"#   {file}" for file in files)]
    return text.replace(f"{_USED}\n", "".join(f"{line}\n" for line in lines) if files else "", 1)


# ------------------------------------------------------------------ syntax
# A site's template as a syntax tree, and the positions of problems in its text.


# Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters.
SYNTAX: dict[str, Any] = {
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    "comment_start_string": "{##",
    "comment_end_string": "##}",
}


@functools.lru_cache(maxsize=256)
def parse(file: SiteFile) -> nodes.Template:
    """The syntax tree. Raises InputError with the position of the mistake."""
    try:
        return jinja2.Environment(**SYNTAX).parse(file.text)
    except jinja2.TemplateSyntaxError as error:
        raise InputError([syntax_problem(file, error)]) from None
    except RecursionError:
        raise InputError([Problem("nested too deep", at(file, 1))]) from None


def at(file: SiteFile, line: int, text: str = "") -> Location:
    """The position of `text` in a line of the file, or of the line's own text."""
    source = (file.text.split("\n") + [""] * line)[line - 1]
    column = source.find(text) if text else -1
    if column < 0:
        text = source.strip()
        column = source.find(text)
    return Location(file.file, line, column + 1, source, max(1, len(text)))


def syntax_problem(file: SiteFile, error: jinja2.TemplateSyntaxError) -> Problem:
    """What Jinja says, at the position of what it complains about."""
    said = error.message or "not a template"
    if tag := re.search(r"The innermost block that needs to be closed is '(\w+)'", said):
        where = _unclosed(file, tag[1])
        return Problem(
            f"{{% {tag[1]} %}} is not closed", where, hint=f"write {{% end{tag[1]} %}} after it"
        )
    hint = "in a template, bash's own {{, {% and {## must be inside {% raw %} and {% endraw %}"
    if "unknown tag" in said:
        hint = "known: block, extends, for, if, include, raw, with, and the ends of them"
    return Problem(
        f"not a template: {said[:1].lower()}{said[1:].rstrip('.')}",
        _complaint(file, error.lineno, said),
        "",
        hint,
    )


def _complaint(file: SiteFile, line: int, said: str) -> Location:
    """The word that the message quotes last, inside the braces of its line, or the braces."""
    source = (file.text.split("\n") + [""] * line)[line - 1]
    if not source.strip():  # the end of the file
        line = len(file.text.rstrip().split("\n"))
        source = file.text.split("\n")[line - 1]
    braces = re.search(r"\{[{%#].*", source)
    for word in reversed(re.findall(r"""['"](.+?)['"](?!\w)""", said)):
        found = source.find(word, braces.start() + 2 if braces else 0)
        if found >= 0:
            return Location(file.file, line, found + 1, source, len(word))
    return at(file, line, braces[0].rstrip() if braces else "")


_TAG = re.compile(r"\{%[-+]?\s*(raw|\w+)|\{##.*?##\}", re.DOTALL)
_PAIRED = ("if", "for", "block", "with", "macro", "call", "filter", "set", "autoescape")


def _unclosed(file: SiteFile, tag: str) -> Location:
    """The innermost {% tag %} without its end."""
    opened: list[tuple[str, int, str]] = []
    for match in _TAG.finditer(file.text):
        name = match[1] or ""
        if name in _PAIRED:
            line = file.text.count("\n", 0, match.start()) + 1
            opened.append((name, line, match[0]))
        elif name.startswith("end") and opened:
            opened.pop()
    last = next((one for one in reversed(opened) if one[0] == tag), (tag, 1, ""))
    return at(file, last[1], last[2])


# ------------------------------------------------------------------ lines
# Checks the lines of a site's files: characters, directives, and where the last line ends.


def check_lines(site: SiteTemplates) -> list[Problem]:
    """All problems of the lines, whatever their commands mean."""
    return [problem for file in site.files for problem in _check_text(file)]


def set_twice(site: SiteTemplates, planned: Iterable[str]) -> Iterator[Problem]:
    """Directives of the site that a job has already, with another value: sbatch takes the last."""
    from clusterjobs.script.parts import option_of  # for a site with templates

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
