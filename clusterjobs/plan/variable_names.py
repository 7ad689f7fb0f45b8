"""Names for the shell variables that hold a point's values.

They are in small letters, unlike variables of the ranks, and none is one of the script's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from clusterjobs.spec.reserved_names import is_of_the_script

_MAX_CHARACTERS = 30
_OTHERS = re.compile(r"[^a-z0-9]+")
# Words and variables of bash, and variables that many programs read, in small letters.
_TAKEN = frozenset(
    (
        *("case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if"),
        *("in", "select", "then", "time", "until", "while", "histchars", "auto_resume"),
        *("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"),
    )
)


def slug(text: str) -> str:
    """The text as a name: `--weight-decay` is `weight_decay`."""
    name = _OTHERS.sub("_", text.lower())[:_MAX_CHARACTERS].strip("_")
    return name if name[:1].isalpha() else f"value_{name}".rstrip("_")


def free_name(hint: str, taken: Collection[str]) -> str:
    """A name like `hint`, with a number if that one is taken."""
    name, number = slug(hint), 1
    wanted = name
    while not _is_free(name, taken):
        number += 1
        name = f"{wanted}_{number}"
    return name


def names_of_keys(keys: Iterable[str], taken: Collection[str]) -> list[str]:
    """A name for each dotted key: its last word, or more words where names would be equal."""
    found: list[str] = []
    words = [key.split(".") for key in keys]
    for own in words:
        count = 1
        while count < len(own) and not _is_clear(own, count, words, taken):
            count += 1
        found.append(free_name("_".join(own[-count:]), {*taken, *found}))
    return found


def _is_clear(own: list[str], count: int, words: list[list[str]], taken: Collection[str]) -> bool:
    if own[-1].isdigit() and count == 1:  # the place in a list
        return False
    name = slug("_".join(own[-count:]))
    others = (slug("_".join(one[-count:])) for one in words if one is not own)
    return _is_free(name, taken) and name not in others


def _is_free(name: str, taken: Collection[str]) -> bool:
    return name not in taken and name not in _TAKEN and not is_of_the_script(name)
