"""A script of the user's own: its argparse parser, if the spec allows to run it as `--help` does.

The script runs with `--help` alone, so that it ends where it would print its help. If that is in
argparse, the parser gets the job's arguments there instead. Any other program's help is read.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import runpy
import sys
from typing import Any, Callable, Iterator, List

from argument_request import NotCheckedError, Request, described, is_flag


class ParsedError(BaseException):
    """The script's parser has answered: the script ends here, whatever it catches."""


def check(request: Request) -> None:
    """Report what the script's parser refuses, else flags that its help does not name."""
    if not request.runs_help:
        return
    if not request.script.endswith(".py"):
        raise NotCheckedError(f"{request.script} is no script of Python")
    request.version = os.path.basename(request.script)
    sys.argv = [request.script, "--help"]
    printed, ended = io.StringIO(), ""
    try:
        with contextlib.redirect_stdout(printed), given_arguments(request):
            runpy.run_path(request.script, run_name="__main__")
    except ParsedError as error:
        if error.args:
            raise NotCheckedError(*error.args) from error
        return
    except SystemExit as error:
        ended = str(error.code or "")
    except Exception as error:
        raise NotCheckedError(f"{request.script} --help: {described(error)}") from error
    check_help(request, printed.getvalue(), ended)


@contextlib.contextmanager
def given_arguments(request: Request) -> Iterator[None]:
    """Here, argparse takes the job's arguments for `--help`."""
    names = ("parse_args", "parse_known_args")
    originals = {name: getattr(argparse.ArgumentParser, name) for name in names}
    is_asked = [False]  # it calls itself, and the parsers of subcommands

    def replaced(original: Any) -> Any:
        def parse(parser: Any, args: Any = None, namespace: Any = None) -> Any:
            if is_asked[0]:
                return original(parser, args, namespace)
            given = sys.argv[1:] if args is None else list(args)
            words = request.arguments if given == ["--help"] else given
            is_asked[0] = True
            try:
                return answer(request, parser, lambda one: original(parser, one, namespace), words)
            except NotCheckedError as error:
                raise ParsedError(str(error)) from error
            finally:
                is_asked[0] = False

        return parse

    for name, original in originals.items():
        setattr(argparse.ArgumentParser, name, replaced(original))
    opens_no_file: Any = lambda *_: None  # noqa: E731
    argparse.FileType.__call__ = opens_no_file  # type: ignore[method-assign]
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(argparse.ArgumentParser, name, original)


def answer(request: Request, parser: Any, parse: Callable[[Any], Any], words: List[str]) -> Any:
    """What a parser without `--help` returns: the script leaves that to its next parser."""
    parsed = None
    with request.refusals():
        parsed = request.parse(parse, words)
    if hasattr(parser, "parse_args_into_dataclasses") and parsed:  # of HfArgumentParser
        for word in filter(is_flag, parsed[1]):
            request.problem(f"unrecognized argument {word}", "", word)
    if parsed is None or "--help" in parser._option_string_actions:
        raise ParsedError
    return parsed


def check_help(request: Request, printed: str, ended: str) -> None:
    """Report flags that a printed help does not name."""
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w.-]*", printed))
    if ended or "--help" not in known:
        raise NotCheckedError(f"{request.script} --help: {ended or 'it printed no help'}")
    known |= {name.replace("--", "--no-", 1) for name in known}
    for word in request.arguments:
        flag = word.partition("=")[0]
        if is_flag(flag) and flag.startswith("--") and flag not in known:
            request.problem(f"--help names no argument {flag}", "", flag)
