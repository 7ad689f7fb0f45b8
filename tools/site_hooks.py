"""MkDocs calls this for each page of the site: rows of the tables of keys get anchors.

The row of `batch.micro` on the page of the spec is `spec.html#batch.micro`.
"""

from __future__ import annotations

import re
from typing import Any

_ROW = re.compile(r"<tr>\s*<td><code>([a-z_][\w.\[\]]*)</code></td>")


def on_page_content(html: str, **_page: Any) -> str:
    """The page with an id at the first row of each key."""
    seen: set[str] = set()

    def with_anchor(row: re.Match[str]) -> str:
        key = row[1].replace("[]", "")
        if key in seen or f'id="{key}"' in html:
            return row[0]
        seen.add(key)
        return f'<tr id="{key}"><td><code>{row[1]}</code></td>'

    return _ROW.sub(with_anchor, html)
