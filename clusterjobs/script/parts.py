"""A rendered job script in parts: directives, functions, the commands around them, programs."""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from clusterjobs.slurm.options import known_options

_HERE = re.compile(r"""(?<!<)<<(?!<)-?\s*(?:'([^']+)'|"([^"]+)"|([A-Za-z_]\w*))""")
_FUNCTION = re.compile(r"(?:function\s+)?([\w-]+)\s*\(\)\s*[{(]")
_COMMENT = re.compile(r"^\s*#.*$|\s#(\s.*)?$")
PROGRAMS = "\nexit # programs follow\n"  # after it, sbatch and bash read nothing


class Line(NamedTuple):
    """A line of the script. `code` has no comment and no indentation."""

    number: int
    text: str
    code: str
    function: str  # "" outside of all functions


@dataclass(frozen=True)
class ScriptParts:
    """`lines` have code or are directives, or the first; without bodies of here-documents."""

    lines: tuple[Line, ...]
    programs: str

    def function(self, name: str) -> tuple[Line, ...]:
        """The commands of a function; empty if there is none of this name."""
        return self._by_function.get(name, ())

    @functools.cached_property
    def functions(self) -> Mapping[str, Line]:
        """The first line of every function by its name."""
        return {name: lines[0] for name, lines in self._by_function.items() if name}

    @functools.cached_property
    def _by_function(self) -> Mapping[str, tuple[Line, ...]]:
        found: dict[str, list[Line]] = {}
        for one in self.lines:
            if one.code:
                found.setdefault(one.function, []).append(one)
        return {name: tuple(lines) for name, lines in found.items()}

    @functools.cached_property
    def commands(self) -> tuple[Line, ...]:
        return self.function("")

    @functools.cached_property
    def directives(self) -> tuple[Line, ...]:
        return tuple(one for one in self.lines if one.text.lstrip().startswith("#SBATCH"))


@functools.lru_cache(maxsize=64)
def script_parts(text: str) -> ScriptParts:
    """The parts of the text of job.sh."""
    script, _, programs = text.partition(PROGRAMS)
    return ScriptParts(tuple(_lines(script)), programs)


@functools.lru_cache(maxsize=4096)  # the scripts of a sweep, and of a site, have most lines alike
def code_of(text: str) -> str:
    """A line without its comment and its indentation."""
    return _COMMENT.sub("", text).strip()


def _lines(script: str) -> Iterator[Line]:
    ends: list[str] = []
    functions: list[str] = []  # a site's lines may define one inside of `main`
    for number, text in enumerate(script.split("\n"), 1):
        if ends:
            if text.strip("\t") == ends[0]:
                ends.pop(0)
            continue
        code = code_of(text)
        if "<<" in code:
            ends = ["".join(match.groups("")) for match in _HERE.finditer(code)]
        of_one_line = ""
        if "()" in text and (found := _FUNCTION.match(text)):
            if code.endswith(("{", "(")):
                functions.append(found[1])
            else:
                of_one_line = found[1]
        elif functions and code.endswith("{") and not text.startswith(" "):
            functions.append("")  # a group of commands, which ends like a function
        if code or number == 1 or text.lstrip().startswith("#SBATCH"):
            yield Line(number, text, code, functions[0] if functions else of_one_line)
        if text.startswith(("}", ") <")) and functions:
            functions.pop()


# ------------------------------------------------------------------ directive options
# Reads lines of #SBATCH back: the option of each, and its value.


_WRITTEN = re.compile(r"#SBATCH\s+(?:--([\w-]+)|-(\w))(?:\s*=\s*|\s+|(?<=-\w))?(.*)")


@functools.lru_cache(maxsize=1024)  # most directives of a site are in many scripts
def option_of(directive: str) -> tuple[str, str]:
    """The long name of a directive's option, and its value as written."""
    match = _WRITTEN.match(directive.strip())
    if match is None:
        return directive, ""
    long, short, value = match.groups("")
    name = long or known_options("sbatch").short.get(short, short)
    return name, re.sub(r"\s+#.*", "", value).strip().strip("'\"")
