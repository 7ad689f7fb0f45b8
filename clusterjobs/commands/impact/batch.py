"""clusterjobs render-batch: renders many specs for the `impact` of another version.

It is not in --help. One JSON object per line on standard input and output: the first line that it
writes says which version it is; then each question has one answer. Keys may be added, none may
change its meaning: an old version answers a newer one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click

from clusterjobs import __version__
from clusterjobs.commands.impact.rendering import Rendered, render_for_comparison
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.errors import InputError, one_problem

COMMAND = "render-batch"


@click.command(COMMAND, hidden=True)
def render_batch() -> None:
    """Answer each question with the texts of the spec's files, or with a message.

    A question is {"spec": PATH, "site": [FOLDER, ...], "owned_as": PATH}.
    """
    _write({"clusterjobs": __version__})
    for question in _questions():
        site = SiteFolders(tuple(map(Path, question["site"])))
        owned_as = question.get("owned_as", "")
        _write(render_for_comparison(question["spec"], site, owned_as)._asdict())


def _questions() -> Iterator[dict[str, Any]]:
    for line in sys.stdin.buffer:
        yield json.loads(line)


def _write(answer: object) -> None:
    click.echo(json.dumps(answer))


class OtherVersion:
    """Another installed version of clusterjobs, in a process that answers until it is closed."""

    def __init__(self, executable: str) -> None:
        """Raises InputError if it cannot be started, or does not know the command."""
        self._executable = executable
        try:
            # In a session of its own: Ctrl-C at the terminal is for this process.
            self._process = subprocess.Popen(
                [executable, COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise one_problem(f"cannot start {executable}: {error.strerror}") from None
        self.version = str(self._answer().get("clusterjobs", ""))

    def render(self, spec: str, site: SiteFolders, owned_as: str = "") -> Rendered:
        """The same as `render_for_comparison`, by the other version."""
        folders = list(map(str, site.folders))
        question = {"spec": spec, "site": folders, "owned_as": owned_as}
        try:
            self._stdin.write(json.dumps(question).encode() + b"\n")
            self._stdin.flush()
        except OSError:
            raise self._ended() from None
        answer = self._answer()
        return Rendered(**{key: answer[key] for key in Rendered._fields if key in answer})

    def close(self) -> None:
        """End the process, and forget it."""
        self.kill()
        self._process.communicate()

    def kill(self) -> None:
        """End the process, also from a signal handler."""
        self._process.kill()

    @property
    def _stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            answer = json.loads(self._process.stdout.readline())
        except ValueError:
            raise self._ended() from None
        if not isinstance(answer, dict):
            raise self._ended()
        return answer

    def _ended(self) -> InputError:
        self.close()
        return one_problem(
            f"{self._executable} cannot render many specs at once",
            hint=f"it must be a clusterjobs that has `{COMMAND}`: 0.1.0 of 2026-11 or later; try "
            f"`{self._executable} {COMMAND} </dev/null`",
        )


def _environment() -> dict[str, str]:
    """Without the variables of this Python, which the other version may not be able to use."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME", "CLUSTERJOBS_SITE")
    }
