"""Prints a job's log to standard output as it grows: all of it, its last lines, or one rank's.

It knows the log's file; it must not know jobs or Slurm.
"""

from __future__ import annotations

import pathlib
import re

import click

from clusterjobs.commands.rank_labels import RankChoice
from clusterjobs.commands.show import printable
from clusterjobs.errors import one_problem
from clusterjobs.growing_file import GrowingFile

_ENDED = re.compile(r"(?m)^clusterjobs: job [0-9]+ ended with exit code")


class LogPrinter:
    """`rank`: print only its lines; None: all. `tail`: start with this many lines.

    `saw_end`: whether the log reported the end of an attempt since the last call.
    """

    def __init__(
        self, path: pathlib.Path, rank: RankChoice | None = None, tail: int | None = None
    ) -> None:
        self.path, self.choice, self.saw_end = path, rank, False
        self.rank = rank.filter() if rank else None
        self._file, self._said_uncertain = GrowingFile(path), False
        if tail is not None:
            try:
                self._file.skip_to_last(tail, self.rank.counts if self.rank else None)
            except OSError as error:
                raise self._unreadable(error) from None

    def print_new(self) -> None:
        """Print what was added since the last call. Raises InputError if it cannot be read."""
        self.saw_end = False
        try:
            for text in self._file.new_parts():
                self.saw_end = self.saw_end or bool(_ENDED.search(text))
                self._print(self.rank.passed(text) if self.rank else text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._unreadable(error) from None

    def finish(self) -> None:
        """Print the rest of a log that is complete.

        Raises InputError if it had no line of the rank.
        """
        self.print_new()
        if self.rank and self.choice:
            self._print(self.rank.rest())
            if not self.rank.found:
                raise self.choice.nothing(self.path)

    def _print(self, text: str) -> None:
        """The text without control characters, since another user may have written it."""
        if self.rank and self.choice and not self.rank.is_certain and not self._said_uncertain:
            self._said_uncertain = True
            click.echo(self.choice.uncertain, err=True)
        if text:
            foreign = self._file.is_foreign()
            click.echo(printable(text, kept="\n\r\t") if foreign else text, nl=False)

    def _unreadable(self, error: OSError) -> Exception:
        return one_problem(f"cannot read {self.path}: {error.strerror}")
