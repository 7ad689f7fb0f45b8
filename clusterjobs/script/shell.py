"""Text that is safe in a bash script, and the only functions that make it.

The templates refuse to print anything but ShellText and numbers, so a value that is not quoted is
an error when it is rendered, not a command when it runs.
"""

import functools
import re
from collections.abc import Callable

from clusterjobs.text import Reference, ShellVariable, Text, Value, joined, parts_of, show

INTERPRETERS = ("bash", "python", "python3", "sh")  # of a script that is their first argument


class ShellText(str):
    """Text that is safe in a script. Only the functions below make it."""

    __slots__ = ()


class CommentText(ShellText):
    """Text that is safe after a `#` alone."""

    __slots__ = ()


class HereDocument(ShellText):
    """Lines that are safe as the body of a quoted here-document alone."""

    __slots__ = ()


class ExpandingDocument(ShellText):
    """Lines that are safe as the body of an unquoted here-document alone."""

    __slots__ = ()


class Delimiter(ShellText):
    """The word that ends a here-document."""

    __slots__ = ()


class TemplateName(ShellText):
    """The name of a template, for an include."""

    __slots__ = ()


class UnquotedError(TypeError):
    """A template tried to print a value that is not quoted: a bug of the template."""


def finalize(value: object) -> str:
    """Jinja calls this for every value that a template prints."""
    if isinstance(value, ShellText):
        return value
    if type(value) is int:
        return str(value)
    str(value)  # what is undefined says so itself
    raise UnquotedError(f"a template prints {value!r}, which is not quoted")


_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./^-]+")
_RESERVED = re.compile(  # each would be syntax at the start of a command or a pattern
    "case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time|until|while"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Also characters that mislead a reader: those that reverse the direction of text, and U+FEFF.
_UNSEEN_SIGNS = (
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_UNSEEN = re.compile(_UNSEEN_SIGNS)
_IN_DOUBLE = re.compile(r'[\\"$`]')


def quote(text: Value, unset: str = "") -> ShellText:
    """One word of bash: literal, except for its references.

    `unset` follows a variable's name: "-" makes an unset one empty, "" makes it an error (set -u).
    """
    return ShellText(
        f'"{_inner(text.parts, unset, _in_double)}"' if isinstance(text, Text) else _literal(text)
    )


@functools.lru_cache(maxsize=4096)  # nearly all scripts quote the same texts
def _literal(text: str) -> str:
    # In an array, an unquoted comma looks like a mistake.
    if _SAFE.fullmatch(text) and "," not in text and not _RESERVED.fullmatch(text):
        return text
    if _UNSEEN.search(text):
        return _ansi(text)
    if "'" not in text:
        return f"'{text}'"
    if _IN_DOUBLE.search(text):
        return "'" + text.replace("'", "'\\''") + "'"
    return f'"{text}"'


def argument(text: str) -> ShellText:
    """One word of bash, with no quotes for commas: for a command, and not for an array."""
    return ShellText(text if _SAFE.fullmatch(text) else _literal(text))


def plain(text: str) -> ShellText:
    """Text that is the same inside any quotes. Raises UnquotedError for other text."""
    if text and not _SAFE.fullmatch(text):
        raise UnquotedError(f"{text!r} has other characters than letters, digits and _@%+=:,./^-")
    return ShellText(text)


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def _ansi(text: str) -> str:
    r"""Bash's $'...': control characters are visible to a reader, and arrive unchanged."""
    return "$'" + "".join(map(_ansi_character, text)) + "'"


def _ansi_character(character: str) -> str:
    if escape := _ESCAPES.get(character):
        return escape
    if _UNSEEN.match(character):
        return "".join(f"\\{byte:03o}" for byte in character.encode())
    return character


def _inner(parts: tuple[str | Reference, ...], unset: str, literal: Callable[[str], str]) -> str:
    following = [*(part if isinstance(part, str) else "" for part in parts), ""][1:]
    return "".join(
        literal(part) if isinstance(part, str) else _variable(part, unset, after)
        for part, after in zip(parts, following, strict=True)
    )


# Only a variable that is unset or empty makes bash expand it: the same would miss in each attempt.
_UNSET = ":?not set on this node: ${reason:=not_started}"


def _variable(part: Reference, unset: str, after: str) -> str:
    otherwise = _otherwise(part, _UNSET, unset)
    bare = not otherwise and not _NAME_GOES_ON.match(after)
    return f"${part.name}" if bare else f"${{{part.name}{otherwise}}}"


def _otherwise(part: Reference, required: str, unset: str = "") -> str:
    """What follows the name inside the braces."""
    if not isinstance(part, ShellVariable):
        raise UnquotedError(f"the derived value {part.name} has not been put in place")
    if part.required:
        return required
    if part.default is None:
        return unset
    return f":-{_inner(parts_of(part.default), unset, _in_braces)}"


def _in_braces(text: str) -> str:
    """A default inside the braces of its variable, where bash has no quotes for other text."""
    if not _DEFAULT.fullmatch(text):
        raise UnquotedError(f"the default {text!r} has other characters than _@%+=:,./^~- in it")
    return text


_DEFAULT = re.compile(r"[\w @%+=:,./^~-]*")


def _in_double(text: str) -> str:
    escaped = _IN_DOUBLE.sub(r"\\\g<0>", text)
    return _UNSEEN_RUN.sub(lambda match: f'"{_ansi(match[0])}"', escaped)


# Outside ASCII, the locale decides what bash takes for a letter.
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_\[]|[^\x00-\x7f]")
_UNSEEN_RUN = re.compile(_UNSEEN_SIGNS + "+")


_NOT_IN_A_COMMENT = re.compile(_UNSEEN_SIGNS + "|[\ud800-\udfff]")


def comment(text: str) -> CommentText:
    """Text inside a comment: it cannot leave its line."""
    return CommentText(_NOT_IN_A_COMMENT.sub("?", text))


_MODULE = re.compile(r"(?m)(?:^|[;&|({]|\b(?:then|do|else))[ \t]*(?:module|ml)[ \t]")


def calls_module(code: str) -> bool:
    """Whether lines of bash call `module` or `ml`, functions that a job does not inherit."""
    return _MODULE.search(code) is not None


def code(lines: tuple[str, ...]) -> ShellText:
    """Lines of bash that the user wrote as code, the only text of a spec that is executed."""
    return ShellText("\n".join(lines))


def heredoc_word(text: str) -> Delimiter:
    """A delimiter that is different from every line of `text`."""
    lines, word = set(text.split("\n")), "END"
    while word in lines:
        word += "_"
    return Delimiter(word)


def verbatim(text: str) -> HereDocument:
    """The body of a quoted here-document, in which bash expands nothing."""
    return HereDocument(text)


def expanding_document(text: Value) -> ExpandingDocument:
    """The body of an unquoted here-document: bash expands the references alone."""
    pieces = (
        _IN_DOCUMENT.sub(r"\\\g<0>", part)
        if isinstance(part, str)
        else f"${{{part.name}{_otherwise(part, ':?')}}}"
        for part in parts_of(text)
    )
    return ExpandingDocument("".join(pieces))


_IN_DOCUMENT = re.compile(r"[\\$`]")


@functools.lru_cache(maxsize=1024, typed=True)  # typed: 1 is a value, and True is none
def directive(name: str, value: Value | int | bool) -> ShellText:
    """One sbatch directive, quoted as sbatch reads it: quotes and backslashes, but no $.

    Source: Slurm's src/sbatch/opt.c, _get_argument: ' and " quote, # ends the line, and a
    backslash escapes even inside single quotes, other than in a shell.
    """
    if value is True:
        return ShellText(f"#SBATCH --{name}")
    if isinstance(value, Text):
        raise UnquotedError(f"--{name} cannot hold {show(value)!r}: sbatch expands no variables")
    text = str(value)
    if _CONTROL.search(text):
        raise UnquotedError(f"--{name} cannot hold {text!r}: sbatch has no way to write it")
    return ShellText(f"#SBATCH --{name}={text if _SAFE.fullmatch(text) else _sbatch_quoted(text)}")


def _sbatch_quoted(text: str) -> str:
    return "'" + re.sub(r"[\\']", r"\\\g<0>", text) + "'"


def option(name: str, value: Value | int | bool) -> ShellText:
    """One long option of a command."""
    if value is True:
        return ShellText(f"--{name}")
    return quote(joined(f"--{name}=", value if isinstance(value, Text) else str(value)))
