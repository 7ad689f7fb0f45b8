"""Text from logs and specs as it may stand in a page or a table: no character acts, all are seen.

Control characters and signs that turn the direction of writing are shown by their codes.
"""

from __future__ import annotations

import unicodedata

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LONGEST = 500


def visible(text: str) -> str:
    """The text without characters that act, shortened if it is very long. HTML is not escaped."""
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(
        _code(sign) if unicodedata.category(sign) in _INVISIBLE else sign for sign in cut
    )


def _code(sign: str) -> str:
    return f"\\x{ord(sign):02x}" if ord(sign) < 256 else f"\\u{ord(sign):04x}"
