"""torchtitan: its own ConfigManager, and what its config checks when it is made.

Source: torchtitan 0.3, config/manager.py; 0.2, config/manager.py.
"""

from __future__ import annotations

import contextlib
import io
import re

from argument_request import RefusedError, Request, imported, stand_in_if_missing


def check(request: Request) -> None:
    """Report what torchtitan refuses."""
    torch = imported("torch", request.title)
    torch.compile = lambda model=None, **_: model or (lambda function: function)
    stand_in_if_missing("triton")
    torchtitan = imported("torchtitan", request.title)
    request.version = f"torchtitan {getattr(torchtitan, '__version__', '')}".rstrip()
    manager = imported("torchtitan.config", request.title)
    words = request.words[2:] if request.words[:1] == ["-m"] else request.arguments
    errors = io.StringIO()
    with request.refusals():
        try:
            with contextlib.redirect_stderr(errors):
                manager.ConfigManager().parse_args(list(words))
        except SystemExit as error:
            said = plain(errors.getvalue())
            raise RefusedError(said or f"it ended with exit code {error.code}") from error


def plain(text: str) -> str:
    """The text of tyro's box, without its frame."""
    lines = [re.sub(r"^[│|╭╰─\s]+|[│|╮╯─\s]+$", "", line) for line in text.splitlines()]
    return " ".join(line for line in lines if line)
