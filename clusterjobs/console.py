"""Prints problems, tables, differences and messages, and has options of many commands."""

import functools
import importlib
import json
import os
import pathlib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import click

from clusterjobs.errors import Problem

_MAX_SOURCE = 120
_MAX_SHOWN = 100
_POINTS_SHOWN = 3


def show_problems(problems: Iterable[Problem]) -> None:
    """Print each problem with its position, source line, caret and hint to standard error.

    Those of a file that several others use are printed once.
    """
    shown = list(dict.fromkeys(problems))
    only = ""
    if len(shown) > _MAX_SHOWN:
        only = f"; the first {_MAX_SHOWN} of {len(shown):,} messages are shown"
        shown.sort(key=lambda problem: problem.warning)  # errors first
    for problem in shown[:_MAX_SHOWN]:
        click.echo(format_problem(problem), err=True)
    errors = sum(not problem.warning for problem in shown)
    if errors > 1:
        click.echo(f"{errors:,} problems{only}", err=True)


def format_problem(problem: Problem) -> str:
    """One problem as text, with styles; `click.echo` removes them if there is no terminal."""
    level = "info: " if problem.info else "warning: " if problem.warning else ""
    kind = styled(level, fg="yellow") if level else ""
    place = styled(printable(str(problem.where)), bold=True) + " " if problem.where else ""
    path = f"{printable(problem.path)}: " if problem.path else ""
    source = problem.validator or (printable(str(problem.rule)) if problem.rule else "")
    by = f" [{source}]" if source else ""
    lines = [f"{place}{kind}{path}{printable(problem.what)}{by}"]
    lines += _source_lines(problem)
    if problem.points:
        lines.append("   " + printable(_in_points(problem.points)))
    if problem.hint:
        lines.append(styled("   hint: ", fg="cyan") + printable(problem.hint))
    return "\n".join(lines)


def _in_points(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"in the point {names[0]}"
    shown = [*names[:_POINTS_SHOWN], *(["..."] if len(names) > _POINTS_SHOWN else [])]
    return f"in {len(names):,} points: {', '.join(shown)}"


def problem_data(problem: Problem) -> dict[str, Any]:
    """One problem as data. Names are stable across versions."""
    where = problem.where
    return {
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "path": problem.path,
        "level": "info" if problem.info else "warning" if problem.warning else "error",
        "what": problem.what,
        "hint": problem.hint,
        "validator": problem.validator,
        "rule": problem.rule and problem.rule._asdict(),
        "points": list(problem.points),
    }


def print_json(data: Any) -> None:
    """Print data for a script to read: in ASCII, which every terminal's encoding has."""
    click.echo(json.dumps(data, indent=2))


def styled(text: str, **style: Any) -> str:
    """The text with a style, unless NO_COLOR is set (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def _source_lines(problem: Problem) -> list[str]:
    where = problem.where
    if where is None or not where.source.strip():
        return []
    first = max(0, where.column - 1 - _MAX_SOURCE // 2) if len(where.source) > _MAX_SOURCE else 0
    source = where.source[first : first + _MAX_SOURCE]
    start = where.column - 1 - first
    caret = "^" * max(1, min(where.width, len(source) - start))
    margin = f"{where.line:>5}"
    return [
        f"{margin} | {printable(source)}",
        f"{'':>{len(margin)}} | {_blank(source[:start])}{styled(caret, fg='red')}",
    ]


def printable(text: str, kept: str = "") -> str:
    """The text without broken bytes and characters that change the terminal, except `kept`."""
    if text.isprintable():
        return text
    return "".join(
        "?" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in kept else c for c in text
    )


def _blank(text: str) -> str:
    """Spaces of the width of the text: wide characters take two columns."""
    return "".join("  " if unicodedata.east_asian_width(c) in "WF" else " " for c in text)


_WIDE = 44


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns.

    A very wide cell moves the rest of its row to the next line.
    """
    if not rows:
        return ""
    columns = range(len(rows[0]) - 1)
    widths = [max([len(row[i]) for row in rows if len(row[i]) <= _WIDE] or [0]) for i in columns]
    return "\n".join(_row(row, widths).rstrip() for row in rows)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    text, indent = "", 0
    for cell, width in zip(cells[:-1], widths, strict=True):
        indent += width + 2
        text += cell.ljust(width) + "  "
        if len(cell) > width and cells[-1]:
            text += "\n" + " " * indent
    return text + cells[-1]


_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def echo_diff(lines: Iterable[str]) -> None:
    """Print a unified diff, in colour on a terminal."""
    for line in lines:
        click.echo(styled(printable(line), fg=_DIFF_COLOURS.get(line[:1])))


# ------------------------------------------------------------------ states
# One table for several specs or configs: each with its state and its first problem.


_MAX_WIDTH = 160


class State(NamedTuple):
    """The state of one file in a word or two; `problem` is the first one, "" if there is none."""

    file: str
    state: str
    problem: str = ""


def states_table(states: Iterable[State]) -> str:
    """The table, with a line of titles."""
    rows = [("file", "state", "first problem"), *states]
    return table([[printable(cell) for cell in row] for row in rows])


def state_of(file: str, problems: Sequence[Problem], fine: str = "ok") -> State:
    """`fails` with its first error; without errors `fine`, with the number of warnings."""
    error = next((problem for problem in problems if not problem.warning), None)
    if error:
        return State(file, "fails", _in_a_line(error))
    count = len(set(problems))
    more = f", warnings and notes: {count}" if count else ""
    return State(file, fine + more)


def _in_a_line(problem: Problem) -> str:
    where = f"{problem.where} " if problem.where else ""
    path = f"{problem.path}: " if problem.path else ""
    text = f"{where}{path}{problem.what}".replace("\n", " ")
    return text if len(text) <= _MAX_WIDTH else f"{text[:_MAX_WIDTH]}..."


# ------------------------------------------------------------------ messages
# Messages of a submission go to the terminal, or to the log of a program that uses the Python API.


Say = Callable[[str], None]


def say_on_stderr(message: str) -> None:
    """Print a line; control characters in it are shown as text."""
    click.echo(printable(message), err=True)


class Messages(NamedTuple):
    """`say` gets a line, `show` the warnings of a run."""

    say: Say = say_on_stderr
    show: Callable[[Iterable[Problem]], None] = show_problems


TERMINAL = Messages()


# ------------------------------------------------------------------ options
# Arguments and options that several subcommands share.


def completed_by(function: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """A function of reference/complete.py, imported when a shell asks what completes a word."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> Any:
        module = importlib.import_module("clusterjobs.reference.complete")
        return getattr(module, function)(context, parameter, typed)

    return complete


# Not `readable`: reading the file gives a better message than click.
spec_argument = click.argument("spec", type=click.Path(readable=False, path_type=pathlib.Path))
specs_argument = click.argument(
    "specs",
    nargs=-1,
    required=True,
    metavar="SPEC...",
    type=click.Path(readable=False, path_type=pathlib.Path),
)
_set_option = functools.partial(
    click.option,
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=completed_by("completed_settings"),
)
set_option = _set_option(
    help="Change a value of the spec for this run: --set nodes=4 --set args.lr=3e-4.",
)
submitted_set_option = _set_option(
    help="A value that the jobs were submitted with. It matters if it changes logs or sweep.",
)
user_option = click.option(
    "--user", metavar="NAME", help="Suppose this user for the site's policies, not the caller."
)
group_option = click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Suppose this group, and no other, for the site's policies. May be repeated.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=pathlib.Path("generated"),
    show_default=True,
    help="The folder for the files.",
)
force_option = click.option(
    "--force", is_flag=True, help="Overwrite files that clusterjobs did not write."
)
points_option = click.option(
    "--points",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    shell_complete=completed_by("completed_jobs"),
    help="Only these points of a sweep: 3,7-9, a name, or '*lr=3e-4*'. May be repeated.",
)
failed_option = click.option(
    "--failed", is_flag=True, help="Only points of a sweep that failed or are lost."
)
all_option = click.option(
    "--all", "completed", is_flag=True, help="Also the completed points of a sweep."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Submit also if there are more than 1,000 points or unknown jobs."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for a script to read."
)
site_file_option = click.option(
    "--site",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="The site.yaml to use.",
)
strict_option = click.option(
    "--strict", is_flag=True, help="Refuse a job whose model does not fit into the GPUs' memory."
)


def submit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """SPEC, and what `submit` and `run` know to submit it."""
    options = (
        *(spec_argument, output_option, set_option, force_option),
        *(points_option, failed_option, all_option, yes_option),
    )
    for option in reversed(options):
        command = option(command)
    return command
