"""The templates and other files of the page, and how values get into them: always escaped.

It knows Jinja and the package's files; it must not know runs.
"""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import jinja2
from markupsafe import Markup

from clusterjobs.report.tables import visible

_FOLDER = pathlib.Path(__file__).parent


@functools.cache
def asset(name: str) -> str:
    """The text of a file beside this module."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def render(name: str, **values: Any) -> str:
    return _environment().get_template(name).render(values)


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _finalize(value: Any) -> Any:
    """Every text that is printed, but what a template has made itself."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value
