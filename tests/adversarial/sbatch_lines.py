"""What sbatch reads from a script, written anew from its source and checked against the real one.

Slurm's src/sbatch/opt.c: the lines above the first command; blanks separate, both quotes quote,
a backslash escapes everywhere (also inside single quotes), an unquoted # ends the line.
"""

from __future__ import annotations


def read_directives(script: str) -> list[tuple[str, str | bool]]:
    """(option, value) of every directive; True for an option without a value."""
    found: list[tuple[str, str | bool]] = []
    for line in script.split("\n"):
        if line.strip(" \t") and not line.startswith("#"):
            break
        for magic in ("#PBS", "#BSUB"):
            assert not line.startswith(magic), f"another scheduler's directive: {line}"
        if line.startswith("#SBATCH"):
            found += [_option(word) for word in _words(line.removeprefix("#SBATCH"))]
    return found


def _option(word: str) -> tuple[str, str | bool]:
    assert word.startswith("--"), f"not a long option: {word!r}"
    name, sign, value = word[2:].partition("=")
    return name, value if sign else True


def _words(line: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    quote, escaped = "", False
    for character in line:
        if escaped:
            word, escaped = (word or "") + character, False
        elif character == "\\":
            word, escaped = word or "", True
        elif quote:
            word, quote = (
                (word or "") + (character if character != quote else ""),
                (quote if character != quote else ""),
            )
        elif character in "'\"":
            word, quote = word or "", character
        elif character == "#":
            break
        elif character in " \t\n\v\f\r":
            words += [] if word is None else [word]
            word = None
        else:
            word = (word or "") + character
    assert not quote, f"a quote is not closed: {line}"
    return words + ([] if word is None else [word])
