"""Reports of failures: problems of the input, or an internal error, which is also logged."""

from __future__ import annotations

import errno
import os
import pathlib
import platform
import sys
import tempfile
import traceback
from collections.abc import Sequence

import click

from clusterjobs.console.show import print_json, problem_data, show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.version import __version__


def report_failure(error: Exception, arguments: list[str]) -> int:
    """Report it, and return the exit code: 1 invalid input, 2 usage error, 3 internal error."""
    if isinstance(error, click.ClickException):
        error.show()
        _print_as_json([Problem(error.format_message())], arguments)
        return error.exit_code
    if isinstance(error, InputError):
        show_problems(error.problems)
        _print_as_json(error.problems, arguments)
        return 1
    if isinstance(error, BrokenPipeError):  # `clusterjobs plan x | head`: the reader has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        click.echo(f"clusterjobs: cannot write: {error.strerror}", err=True)
        return 1
    what = f"internal error, not a mistake in your input: {type(error).__name__}"
    click.echo(f"clusterjobs: {what}", err=True)
    _print_as_json([Problem(what)], arguments)
    try:
        log = _write_log(error, arguments)
    except OSError as failure:
        click.echo(f"  no log could be written: {failure.strerror}", err=True)
    else:
        click.echo(f"  what happened is in {log}: please attach it to a report", err=True)
    return 3


def _print_as_json(problems: Sequence[Problem], arguments: list[str]) -> None:
    """With --json, a script reads the problems instead of the result."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in own:
        print_json({"problems": [problem_data(one) for one in problems]})


def _write_log(error: Exception, arguments: list[str]) -> pathlib.Path:
    """Versions and the traceback, without values, which may be secret."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"clusterjobs {__version__}, Python {platform.python_version()}, {platform.system()}",
        f"command: {arguments[0] if arguments else ''} and {max(0, len(arguments) - 1)} arguments",
        *(f"  {pathlib.Path(f.filename).name}:{f.lineno} {f.name}: {f.line}" for f in frames),
        type(error).__name__,
    ]
    descriptor, name = tempfile.mkstemp(prefix="clusterjobs-", suffix=".log")
    os.close(descriptor)
    log = pathlib.Path(name)
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return log
