"""Writes settings into a spec's file; comments and order are kept."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from clusterjobs.commands.advise.choices import Setting
from clusterjobs.commands.files import STDIN, read_text
from clusterjobs.errors import one_problem
from clusterjobs.yaml.document import dotted
from clusterjobs.yaml.edit import set_value


def write_settings(file: pathlib.Path, settings: Sequence[Setting]) -> None:
    """Raises InputError if the file cannot be written, or a value has another form there."""
    if file == STDIN:
        raise one_problem("--write: standard input cannot be written", hint="name a file")
    file = file.resolve()  # a link stays one
    text = read_text(file)
    for one in settings:
        try:
            text = set_value(text, str(file), one.path, one.value)
        except (ValueError, KeyError):
            raise one_problem(
                f"--write: {dotted(one.path)} cannot be written into {file}",
                hint=f"write it by hand: {one.written()}",
            ) from None
    new = file.with_name(f".{file.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.chmod(file.stat().st_mode & 0o7777)
        new.replace(file)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None
