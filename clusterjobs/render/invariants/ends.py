"""How a script starts the ranks, and how it ends: exit codes, traps, and the call of `main`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from clusterjobs.render.invariants.base import Broken, Scripts, first
from clusterjobs.render.invariants.script_parts import Line, ScriptParts

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
    for one in scripts.added():
        if re.search(r"\bunset\b.*\bMASTER_(ADDR|PORT)\b", one.code):
            yield Broken("this line removes the address of the ranks", "remove it", one.text)


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
        if one.function == "finish" and re.match(r"(exit|return)\b|status=", one.code):
            yield Broken("this line changes the exit code", "remove it", one.text)
        elif one.function in ("main", "") and re.match(r"exit\b", one.code):
            hint = "remove it; `fail MESSAGE` ends a job that cannot run"
            yield Broken(f"`{one.code}` ends the job with another exit code", hint, one.text)


def no_exit_trap(scripts: Scripts) -> Iterator[Broken]:
    if not first(scripts.site.lines, r"^trap finish EXIT$"):
        hint = "keep `trap finish EXIT` in functions/job.sh.j2"
        yield Broken("the EXIT trap is not set", hint, template="functions/job.sh.j2")
    known = {one.code for one in _before_the_start(scripts.packaged)}
    for one in _before_the_start(scripts.site):
        if one.code not in known:
            hint = "move it below `start_job`, for example into before_environment.sh"
            yield Broken("a command before `start_job` has no log and no trap", hint, one.text)
            break
    for one in scripts.added():
        if re.search(r"\btrap\b.*\b(EXIT|0)\b", one.code):
            hint = "use `after` in the spec, or sidecars, which `finish` ends"
            yield Broken("this line replaces the EXIT trap", hint, one.text)


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
    for one in scripts.added():
        if found := re.search(r"\btrap\b.*\b(?:SIG)?(TERM|USR1|15|10)\b", one.code):
            yield Broken(f"this line replaces the trap of {found[1]}", "remove it", one.text)


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
