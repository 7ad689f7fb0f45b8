"""What every job script has to keep, whatever a site changes in the templates, and why.

Each invariant compares a script with the one of the packaged templates. A site's lines are read,
and never run: what they change in the shell is found by `shell_state.py`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from clusterjobs import resources
from clusterjobs.errors import Problem
from clusterjobs.script.parts import PROGRAMS, Line, ScriptParts, code_of, option_of, script_parts
from clusterjobs.script.site import INSERTION_POINTS, SiteFile, SiteTemplates
from clusterjobs.script.site.origin import line_origin, replaced_by
from clusterjobs.script.site.shell_state import Change, commands_of, state_changes

# ------------------------------------------------------------------ invariants


@dataclass(frozen=True)
class Scripts:
    """A script with a site's templates, and the one without. `secrets`: names of variables."""

    text: str
    packaged_text: str
    secrets: tuple[str, ...]
    templates: SiteTemplates

    @functools.cached_property
    def site(self) -> ScriptParts:
        return script_parts(self.text)

    @functools.cached_property
    def packaged(self) -> ScriptParts:
        return script_parts(self.packaged_text)

    def problems(self) -> Iterator[Problem]:
        """What the script does not keep, with the lines of the site's files."""
        for invariant in INVARIANTS:
            for broken in (*invariant.broken(self), *self._changes(invariant.name)):
                what = f"{broken.what}: {invariant.why}"
                files = (*_own_lines(self.templates), *self.templates.files)
                where = line_origin(broken.line, files) if broken.line else None
                where = where or replaced_by(broken.template or "job.sh.j2", self.templates)
                yield Problem(what, where, invariant.name, broken.hint, broken.warning)

    def _changes(self, kind: str) -> Iterator[Broken]:
        for line, change in self._changed:
            if change.kind == kind:
                yield Broken(change.what, change.hint, line.text, warning=change.warning)

    @functools.cached_property
    def _changed(self) -> tuple[tuple[Line, Change], ...]:
        """What the site's lines change in the shell: read once for scripts with the same lines."""
        more = Counter(one.code for one in self.site.lines)
        more -= Counter(one.code for one in self.packaged.lines)
        own = _own_lines(self.templates)
        added = {
            one.number: one
            for one in self.site.lines
            if one.code and one.code in more and line_origin(one.text, own)
        }
        key = tuple((one.code, one.function) for one in added.values())
        if key not in _CHANGES:
            _CHANGES[key] = tuple(self._changes_in(added)) if added else ()
        return _CHANGES[key]

    def _changes_in(self, added: Mapping[int, Line]) -> Iterator[tuple[Line, Change]]:
        changes = state_changes(self.text.partition(PROGRAMS)[0] + "\n")
        named = Counter(one.name for one in changes)
        for one in changes:
            if one.line in added and (not one.name or self._replaces(one.name, named[one.name])):
                yield added[one.line], one

    def _replaces(self, name: str, count: int) -> bool:
        """Whether the script calls what is defined, or removed, under this name `count` times."""
        if name in self.packaged.functions:
            return count > 1 or name not in self.site.functions
        called = commands_of(self.packaged_text.partition(PROGRAMS)[0] + "\n")
        return name in called - _FUNCTIONS_OF_NODES

    def added(self) -> Iterator[Line]:
        """The lines that only the site's script has."""
        return (one for one in self.site.lines if one.code and not self.is_packaged(one))

    def is_packaged(self, line: Line) -> bool:
        """Whether the packaged templates print this line, in this job or in another one."""
        return line.code in self._known or line.code in _packaged_codes()

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(one.code for one in self.packaged.lines)


_FUNCTIONS_OF_NODES = {"module", "ml"}  # as they come, they are functions of bash
_CHANGES: dict[tuple[tuple[str, str], ...], tuple[tuple[Line, Change], ...]] = {}


class Broken(NamedTuple):
    """An invariant that a script does not keep: what, and what to do.

    `line` of the script; or, if something is missing, the packaged `template` that has it.
    """

    what: str
    hint: str
    line: str = ""
    template: str = ""
    warning: bool = False


@functools.cache
def _packaged_codes() -> frozenset[str]:
    texts = resources.template_texts().values()
    return frozenset(code_of(line) for text in texts for line in text.split("\n"))


@functools.lru_cache(maxsize=8)
def _own_lines(templates: SiteTemplates) -> tuple[SiteFile, ...]:
    """The site's files with the lines alone that are not those of the template they replace."""
    texts = resources.template_texts()
    found = []
    for file in templates.files:
        left = Counter(map(code_of, texts.get(file.name, "").split("\n")))
        lines = []
        for line in file.text.split("\n"):
            code = code_of(line)
            lines.append("" if left[code] > 0 else line)
            left[code] -= 1
        found.append(file._replace(text="\n".join(lines)))
    return tuple(found)


def first(lines: tuple[Line, ...], pattern: str) -> Line | None:
    """The first line whose code has the pattern."""
    search = re.compile(pattern).search
    return next((one for one in lines if search(one.code)), None)


# ------------------------------------------------------------------ directives
# The directives of a script: all before the first command, each once, and none lost.


def below_a_command(scripts: Scripts) -> Iterator[Broken]:
    start = min((one.number for one in scripts.site.lines if one.code), default=0)
    for one in scripts.site.directives:
        if one.number > start > 0:
            hint = "print it before `set -euo pipefail`, or write it into templates/directives.sh"
            home = "blocks/directives.sh.j2"
            yield Broken("a directive is below the first command", hint, one.text, home)
        elif not one.text.startswith("#SBATCH"):
            yield Broken(f"{one.text.strip()} is indented", "start the line with #SBATCH", one.text)


def twice(scripts: Scripts) -> Iterator[Broken]:
    seen: dict[str, tuple[str, str]] = {}
    planned = {one.text for one in scripts.packaged.directives}
    for one in scripts.site.directives:
        name, value = option_of(one.text)
        earlier, line = seen.setdefault(name, (value, one.text))
        if earlier != value:
            what = f"--{name} is set twice: {earlier or 'without a value'}, and {value}"
            hint = "set it once: in defaults.yaml under `sbatch`, where a spec can change it"
            added = line if one.text in planned else one.text
            yield Broken(what, hint, added, "blocks/directives.sh.j2")


def lost(scripts: Scripts) -> Iterator[Broken]:
    found = dict(option_of(one.text) for one in scripts.site.directives)
    names = [option_of(one.text)[0] for one in scripts.packaged.directives]
    missing = [name for name in names if name not in found]
    if missing:
        hint = "keep the loop over job.directives; a spec drops one with `sbatch: {NAME: false}`"
        what = f"directives of the plan are lost, --{missing[0]} among them"
        yield Broken(what, hint, template="blocks/directives.sh.j2")


# ------------------------------------------------------------------ start and end
# How a script starts the ranks, and how it ends: exit codes, traps, and the call of `main`.


_EXPORT = r"(?:export|declare -x)\b(?:(?!;|&&).)*\b"  # not of the next command on the line


def no_rendezvous(scripts: Scripts) -> Iterator[Broken]:
    main = scripts.site.function("main")
    launch = first(main, r"^run_ranks\b")
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        exported = first(main, f"{_EXPORT}{name}\\b")
        home = "blocks/placement.sh.j2"
        hint = f"keep `export MASTER_ADDR=... MASTER_PORT=...` of {home}, before the launch"
        if exported is None:
            what = f"{name} is not exported before the launch"
            yield Broken(what, hint, template=home)
        elif launch and exported.number > launch.number:
            yield Broken(f"{name} is exported after the launch", hint, exported.text, home)


def launched_else(scripts: Scripts) -> Iterator[Broken]:
    lines = [one for one in scripts.site.function("main") if "run_ranks" in one.code]
    hint = "end the launcher's template with a command of its own: run_ranks COMMAND..."
    if not lines:
        yield Broken("`run_ranks` is not called", hint, template="blocks/launch.sh.j2")
    calls = sum("run_ranks" in one.code for one in scripts.packaged.function("main"))
    for one in lines[calls:]:  # a step per rank is a call, too
        yield Broken("`run_ranks` is called twice", hint, one.text)
    for one in lines[:calls]:
        last = _end_of_command(scripts.site.function("main"), one)
        if not one.code.startswith("run_ranks "):
            yield Broken("`run_ranks` is part of another command", hint, one.text)
        elif re.search(r"(\|\|?.*|&&.*|;.*|(?<!&)&)$", last.code) and not scripts.is_packaged(last):
            yield Broken("what follows `run_ranks` hides its exit code", hint, last.text)


def _end_of_command(lines: tuple[Line, ...], start: Line) -> Line:
    """The last line of a command of several lines: of those without a gap after its start."""
    last = start
    for one in lines:
        if one.number > start.number:
            if one.number != last.number + 1 or re.match(r"reason=|trap |\}", one.code):
                break
            last = one
    return last


_KEPT = {
    "run_ranks": (
        r'wait "\$ranks" \|\| status=\$\?',
        r'\[\[ \$status == 0 && -z \$reason \]\] \|\| exit "\$status"',
    ),
    "finish": (r"^local status=\$\?", r'^exit "\$status"$'),
}
_TEMPLATES = {"run_ranks": "functions/launch.sh.j2", "finish": "functions/end.sh.j2"}


def exit_code_lost(scripts: Scripts) -> Iterator[Broken]:
    for name, patterns in _KEPT.items():
        lines = scripts.site.function(name)
        for pattern in patterns:
            original = first(scripts.packaged.function(name), pattern)
            if original and not first(lines, pattern):
                what = f"`{name}` has lost `{original.code}`"
                yield Broken(what, "keep this line", template=_TEMPLATES[name])
    finish = scripts.site.function("finish")
    if len(finish) > 2 and not re.match(r"local status=\$\?", finish[1].code):
        what = "`finish` does not start with `local status=$?`"
        yield Broken(what, "move this line below it", finish[1].text)
    for one in scripts.added():
        if one.function == "finish" and re.match(r"return\b|status=", one.code):
            yield Broken("this line changes the exit code", "remove it", one.text)


def no_exit_trap(scripts: Scripts) -> Iterator[Broken]:
    if not first(scripts.site.lines, r"^trap finish EXIT(;|$)"):
        hint = "keep `trap finish EXIT` in functions/job.sh.j2"
        yield Broken("the EXIT trap is not set", hint, template="functions/job.sh.j2")
    known = {one.code for one in _before_the_start(scripts.packaged)}
    for one in _before_the_start(scripts.site):
        if one.code not in known:
            hint = "move it below `start_job`, for example into before_environment.sh"
            yield Broken("a command before `start_job` has no log and no trap", hint, one.text)
            break


def _before_the_start(script: ScriptParts) -> Iterator[Line]:
    """The first commands of `main`: of a sweep, they read the values of the point."""
    commands = script.function("main")[1:]
    return itertools.takewhile(lambda one: not one.code.startswith("start_job "), commands)


_TRAPS = {"TERM": 'trap "on_signal $signal" "$signal"', "USR1": "trap on_time_limit USR1"}


def no_signal_traps(scripts: Scripts) -> Iterator[Broken]:
    for signal, code in _TRAPS.items():
        pattern = re.escape(code)
        if first(scripts.packaged.lines, pattern) and not first(scripts.site.lines, pattern):
            hint = f"keep `{code}` in functions/job.sh.j2"
            yield Broken(f"{signal} is not trapped", hint, template="functions/job.sh.j2")


def main_last(scripts: Scripts) -> Iterator[Broken]:
    commands = [one for one in scripts.site.commands if one.code != "exit"]
    calls = [one for one in commands if re.match(r"main\b", one.code)]
    if not calls or calls[-1].code != 'main "$@"':
        yield Broken('`main "$@"` is not called', "keep it in job.sh.j2", template="job.sh.j2")
    elif commands[-1] != calls[-1]:
        hint = "move it into `main`: after_launch.sh, or `after` in the spec"
        yield Broken('a command after `main "$@"`', hint, commands[-1].text)


def not_completed(scripts: Scripts) -> Iterator[Broken]:
    body = [one for one in scripts.site.function("main") if one.code != "}"]
    if body and body[-1].code != "reason=completed":
        what = "the last command of `main` is not `reason=completed`"
        yield Broken(what, "keep it at the end of `main`", template="job.sh.j2")
    for one in body[:-1]:
        if one.code.startswith("reason=completed"):
            yield Broken("the job is called completed too early", "remove it", one.text)


def missing_functions(scripts: Scripts) -> Iterator[Broken]:
    for name, line in scripts.packaged.functions.items():
        if name in scripts.site.functions:
            continue
        if first(scripts.site.lines, rf"(^|[\s;&|(]){name}($|[\s;&|)])"):
            what = f"the function {name} is called, and is not there"
            yield Broken(what, f"keep `{line.code}` and its commands", template=_home_of(name))


def _home_of(function: str) -> str:
    """The packaged template that defines a function."""
    from clusterjobs import resources

    texts = resources.template_texts()
    defined = re.compile(rf"(?m)^{function}\s*\(\)")
    return next((name for name, text in texts.items() if defined.search(text)), "job.sh.j2")


# ------------------------------------------------------------------ shell
# How a script's shell is set up, what it prints, and that nothing of it is lost.


_STRICT = r"set .*-\w*euo pipefail"


def not_strict(scripts: Scripts) -> Iterator[Broken]:
    commands = scripts.site.commands
    if not commands or not re.search(_STRICT, commands[0].code):
        hint = "keep the line `set -euo pipefail +o posix` before all other commands"
        yield Broken("the first command is not `set -euo pipefail`", hint, template="job.sh.j2")


_CLEAN_START = {
    "#!/bin/bash -p": "blocks/header.sh.j2",
    '[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" '
    'carried start_again.sh)"; exit 1; }': "job.sh.j2",
}


def caller_not_undone(scripts: Scripts) -> Iterator[Broken]:
    texts = {text for one in scripts.site.lines for text in (one.text, one.code)}
    for line, home in _CLEAN_START.items():
        if line not in texts:
            yield Broken(f"the line `{line}` is lost", "keep it", template=home)


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
    files = scripts.templates
    for file in (one for point in INSERTION_POINTS for one in files.insertions(point)):
        for line in file.text.splitlines():
            text = line.strip()
            if text and (not text.startswith("#") or text.startswith("#SBATCH")):
                if text not in printed:
                    hint = f"keep the loop over site.{file.point} in the template that you replaced"
                    yield Broken(f"{file.name} is not printed", hint, line)
                break


def nothing_else(_scripts: Scripts) -> Iterator[Broken]:
    """A check that finds nothing: the invariant is broken by changes of the shell alone."""
    return iter(())


class Invariant(NamedTuple):
    """A promise of the job script, with the sentence that says why it must hold.

    `broken`: how a script breaks it, besides the changes of the shell that have its name.
    """

    name: str
    why: str
    broken: Callable[[Scripts], Iterator[Broken]]


INVARIANTS = (
    Invariant(
        "directives-first",
        "sbatch reads no directive after the first command",
        below_a_command,
    ),
    Invariant(
        "directives-once",
        "of two directives sbatch takes the last one, so that the plan would be wrong",
        twice,
    ),
    Invariant(
        "directives-kept",
        "the plan counts on every directive: nodes, ranks and GPUs follow from them",
        lost,
    ),
    Invariant(
        "strict-mode",
        "without `set -euo pipefail` the job goes on after a command that failed",
        not_strict,
    ),
    Invariant(
        "calling-shell",
        "functions and options that the shell of sbatch has exported would change the job",
        caller_not_undone,
    ),
    Invariant(
        "shell-state",
        "what follows in the script relies on its own folder, IFS, input and output",
        nothing_else,
    ),
    Invariant(
        "no-trace", "`set -x` prints every command into the log, with its secrets", nothing_else
    ),
    Invariant("secrets", "the log can be read by others, and is kept for years", prints_secrets),
    Invariant(
        "rendezvous",
        "without an address and a port the ranks do not find one another",
        no_rendezvous,
    ),
    Invariant(
        "launch", "the ranks are started once, and their exit code is the job's", launched_else
    ),
    Invariant(
        "exit-code",
        "a job that failed would be recorded as completed, and never be run again",
        exit_code_lost,
    ),
    Invariant(
        "early-end",
        "before the last command of `main`, that is a failure without a message, also with code 0",
        nothing_else,
    ),
    Invariant(
        "exit-trap",
        "the end of the job is recorded, exported and requeued by the EXIT trap",
        no_exit_trap,
    ),
    Invariant(
        "signal-traps",
        "at the time limit and on scancel, the ranks save only if TERM and USR1 are trapped",
        no_signal_traps,
    ),
    Invariant(
        "main-last",
        "bash runs nothing of the job unless `main` is called, at the end",
        main_last,
    ),
    Invariant(
        "completed",
        "a job is completed only if the last command of `main` says so",
        not_completed,
    ),
    Invariant(
        "functions",
        "the script calls functions and programs by their names, and ends if one is missing",
        missing_functions,
    ),
    Invariant(
        "programs",
        "the node programs are cut out of the end of the script, byte by byte",
        programs_changed,
    ),
    Invariant(
        "insertion-points",
        "lines of an insertion point that no template prints have no effect",
        not_inserted,
    ),
)
