"""Writes the page of `clusterjobs report --html`."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from clusterjobs.commands.write import replace_file
from clusterjobs.errors import one_problem
from clusterjobs.report.page import page
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table


def write_page(path: pathlib.Path, runs: Sequence[Run], tables: Sequence[Table]) -> None:
    """Write it completely or not at all. Raises InputError if that is not possible."""
    try:
        replace_file(path, page(runs, tables))
    except OSError as error:
        raise one_problem(f"cannot write {path}: {error.strerror}") from None
