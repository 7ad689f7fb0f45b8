"""How a script's shell is set up, what it prints, and that nothing of it is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterjobs.render.invariants.base import Broken, Scripts, first

_STRICT = r"set .*-\w*euo pipefail"
_LOOSE = re.compile(r"(?:^|[;&|(]\s*)set\s+(?:\+\w*[eu]|\+o\s+(?:errexit|pipefail|nounset))")
_TRACE = re.compile(
    r"(?:^|[;&|(]\s*)set\s+(?:-\w*[xv]\w*\b|-o\s+(?:xtrace|verbose))|\bbash\s+-\w*x"
)


def not_strict(scripts: Scripts) -> Iterator[Broken]:
    commands = scripts.site.commands
    if not commands or not re.search(_STRICT, commands[0].code):
        hint = "keep the line `set +akvx -euo pipefail` before all other commands"
        yield Broken("the first command is not `set -euo pipefail`", hint, template="job.sh.j2")
    if first(scripts.packaged.commands[1:], _STRICT) and not first(commands[1:], _STRICT):
        hint = "keep `set -euo pipefail` in functions/shell.sh.j2"
        what = "`set -euo pipefail` is lost after the caller's options are undone"
        yield Broken(what, hint, template="functions/shell.sh.j2")
    yield from _loosened(scripts)


def _loosened(scripts: Scripts) -> Iterator[Broken]:
    for one in scripts.site.lines:
        found = _LOOSE.search(one.code)
        if not found or one.function == "finish" or one.code.startswith("POSIXLY_CORRECT"):
            continue
        later = [other.code for other in scripts.site.lines if other.number > one.number]
        if found[0].endswith("u") and any(re.match(r"set -\w*u", code) for code in later[:40]):
            continue  # `set +u` around code that reads unset variables
        hint = "write `command || true` for a command that may fail"
        yield Broken(f"`{found[0].strip(' ;&|(')}` ends the strict mode", hint, one.text)


def traced(scripts: Scripts) -> Iterator[Broken]:
    for one in scripts.added():
        if _TRACE.search(one.code):
            yield Broken("this line traces the commands", "print what you need with echo", one.text)


_ALL_VARIABLES = re.compile(
    r"(?:^|[;&|(]\s*)(?:env|printenv|export -p|declare -[px]+|set)\s*(?:$|[|>;&)])"
)
_PRINTS = re.compile(r"\b(?:echo|printf|cat|tee|logger|printenv|curl|wget)\b")


def prints_secrets(scripts: Scripts) -> Iterator[Broken]:
    for one in scripts.added():
        if _ALL_VARIABLES.search(one.code):
            hint = 'print the variables that you need by name: echo "$NCCL_DEBUG"'
            yield Broken("this line prints all variables, secrets included", hint, one.text)
        for name in scripts.secrets:
            if _PRINTS.search(one.code) and re.search(
                rf"\$\{{?{name}\b|printenv.* {name}\b", one.code
            ):
                yield Broken(f"this line prints the secret {name}", "remove it", one.text)


def programs_changed(scripts: Scripts) -> Iterator[Broken]:
    if scripts.site.programs != scripts.packaged.programs:
        hint = 'keep all lines of job.sh.j2 from `main "$@"` to its end'
        yield Broken("the programs at the end have changed", hint, template="job.sh.j2")


def not_inserted(scripts: Scripts) -> Iterator[Broken]:
    printed = {one.text.strip() for one in scripts.site.lines}
    for file in scripts.inserted:
        for line in file.text.splitlines():
            text = line.strip()
            if text and (not text.startswith("#") or text.startswith("#SBATCH")):
                if text not in printed:
                    hint = f"keep the loop over site.{file.point} in the template that you replaced"
                    yield Broken(f"{file.name} is not printed", hint, line)
                break
