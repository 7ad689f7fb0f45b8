"""Markdown from any text: what a file of the site holds cannot become markup of the page.

Knows Markdown with tables (CommonMark and GitHub's extension); it must not know what is shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from clusterjobs.commands.show import printable

_MARKUP = re.compile(r"[\\`*_\[\]|~]")  # a cell is never at the start of a line
_LINK = re.compile(r"https?://[^\s<>|\\]+")


def plain(text: str) -> str:
    """Text in one line that a reader sees as it is."""
    line = printable(" ".join(text.split()))
    return html.escape(_MARKUP.sub(r"\\\g<0>", line), quote=False)


def code(text: str) -> str:
    """The text as code: a name, a path, a value."""
    line = printable(" ".join(text.split()))
    if not line:
        return ""
    if "|" in line or "`" in line:  # what ends a cell, or the code
        entities = (one if one.isalnum() or one in " ./:" else f"&#{ord(one)};" for one in line)
        return f"<code>{''.join(entities)}</code>"
    return f"`{line}`"


def link(url: str) -> str:
    """A link to a page, or plain text if it is no web address."""
    return f"<{url}>" if _LINK.fullmatch(url) else plain(url)


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; a sentence if it has no row."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return "None.\n"
    return "\n".join([f"| {' | '.join(heading)} |", "|---" * len(heading) + "|", *lines, ""])
