"""The kinds of text a spec holds: words, arguments, paths, time limits.

Each function takes what YAML gave and returns text, or raises ValueError saying what to write
instead. None of them expands or executes anything.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from clusterjobs.spec.references import as_text, has_variable, show
from clusterjobs.spec.reserved_names import environment_name, parameter_name

MAX_NAME_BYTES = 200  # a file name has at most 255 bytes, and the log's name adds the job id
MAX_FILE_NAME_BYTES = 255
MAX_PATH_BYTES = 4_000  # Linux's PATH_MAX is 4,096 with what the script adds to it
MAX_OPTION_BYTES = 1_000  # slurmctld refuses a comment, an account, a name from 1,024 on
MAX_WORD_BYTES = 131_071  # Linux's limit for one argument or variable (MAX_ARG_STRLEN)


def word(value: Any) -> str:
    """One word of a command line. Numbers keep the way they were written."""
    if isinstance(value, bool):
        raise ValueError(f'{as_text(value)} is not text here: quote it, "{as_text(value)}"')
    if value is None:
        raise ValueError('the value is missing: write one, or "" for an empty text')
    if isinstance(value, (Mapping, list)):
        raise ValueError("a single value belongs here: no list, and no map of keys")
    text = as_text(value)
    if len(text.encode()) > MAX_WORD_BYTES:
        raise ValueError(f"longer than Linux allows ({MAX_WORD_BYTES:,} bytes): put it in a file")
    return text


def path(value: Any) -> str:
    """A path on the cluster. `${NAME}` in it is expanded on the node."""
    text = word(value)
    if not text:
        raise ValueError("the path is empty: write one, or leave the key out")
    if text.startswith("~"):
        raise ValueError("~ is not expanded: write ${HOME}")
    if bad := first_control_character(text.replace("\0", "")):
        raise ValueError(f"a path with {bad}: remove it")
    if text.startswith("-"):
        raise ValueError("a path with '-' in front would be read as an option: write ./ before it")
    if len(text.encode()) > MAX_PATH_BYTES:
        raise ValueError(f"longer than Linux allows for a path ({MAX_PATH_BYTES:,} bytes)")
    if any(len(part.encode()) > MAX_FILE_NAME_BYTES for part in text.split("/")):
        raise ValueError(f"a file name in it is longer than {MAX_FILE_NAME_BYTES} bytes")
    return text


def search_path(value: Any) -> str:
    """A folder whose programs go on PATH, where a colon separates folders."""
    text = path(value)
    if ":" in text:
        raise ValueError("a path with ':', which separates folders in PATH: rename the folder")
    return text


_MODULE = re.compile(r"[\w@%+=,./][\w@%+=:,./~^()-]*")


def module_name(value: Any) -> str:
    """A module file's name. Old module commands pass it through a shell unquoted."""
    text = plain(value)
    if not _MODULE.fullmatch(text):
        raise ValueError("not a module's name: no blanks, quotes or other signs of the shell in it")
    return text


_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_VERSION = re.compile(r"\d+(?:\.[0-9A-Za-z]+)*", re.ASCII)


def package_name(value: str) -> str:
    """The name of a Python package, as pip knows it."""
    if not _PACKAGE.fullmatch(value):
        raise ValueError("a package's name has only letters, digits, '.', '_' and '-'")
    return value


def package_version(value: Any) -> str:
    """A version, or the start of one: 2.6 is also 2.6.1."""
    text = plain(value)
    if not _VERSION.fullmatch(text):
        raise ValueError(f'{show(text)!r} is not a version: write it or its start, "2.6"')
    return text


_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)


def interface(value: Any) -> str:
    """The name of a network interface; Linux allows 15 characters."""
    text = plain(value)
    if not _INTERFACE.fullmatch(text):
        raise ValueError(f"{text!r} is not a network interface: write ens5, as `ip link` shows it")
    return text


_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9!_.*'()/-]*)?")


def bucket(value: Any) -> str:
    """`s3://bucket/prefix`, in the characters that S3 calls safe for keys."""
    text = word(value)
    if not _BUCKET.fullmatch(text):
        raise ValueError(f"{show(text)!r} is not a bucket: write s3://my-bucket/folder")
    return text


def repository(value: Any) -> str:
    """Where data comes from or goes to: `s3://bucket/prefix`, or a path on the cluster."""
    text = word(value)
    if "://" in text or text.lower().startswith("s3:"):
        return bucket(text)
    return path(text)


def flag(value: Any) -> bool:
    """Yes or no, as YAML 1.2 writes it."""
    if not isinstance(value, bool):
        raise ValueError("true or false belongs here: without quotes")
    return value


def job_name(value: Any) -> str:
    """The experiment's name: Slurm's job name, and part of paths."""
    text = word(value)
    if has_variable(text):
        raise ValueError("the name is fixed when the job is rendered: no parameter can be in it")
    if not text.strip() or text in (".", ".."):
        raise ValueError("the name is empty: it names the job and its folders, my-run")
    if text[0] == "-" or "/" in text or text != text.strip():
        raise ValueError("not a job's name: no '/' in it, no '-' in front, no space at its ends")
    if bad := first_control_character(text):
        raise ValueError(f"a name with {bad}: remove it")
    if len(text.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"longer than {MAX_NAME_BYTES} bytes: it names files, so shorten it")
    return text


def first_control_character(text: str) -> str | None:
    """The name of the first control or line-breaking character in `text`."""
    names = {"\n": "a line break", "\t": "a tab", "\r": "a carriage return"}
    for character in text:
        if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
            return names.get(character, f"the control character U+{ord(character):04X}")
    return None


_TIME_LIMIT = re.compile(r"(?:\d+-\d+(?::\d+){0,2}|\d+(?::\d+){0,2})|UNLIMITED|INFINITE", re.ASCII)


def time_limit(value: Any) -> str:
    """Slurm's --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:...]."""
    text = word(value)
    if not _TIME_LIMIT.fullmatch(text):
        raise ValueError(
            f"{show(text)!r} is not a Slurm time: write 90 (minutes), 12:00:00 or 2-00:00:00"
        )
    if not text.strip("0:-"):
        raise ValueError("zero is no limit at all to Slurm: remove time_limit, or write UNLIMITED")
    return text


def directive_name(value: str) -> str:
    """The long name of an sbatch or srun option, without its dashes."""
    if not re.fullmatch(r"[a-z][a-z0-9-]*", value):
        raise ValueError("an option's long name, without dashes in front: mail-type, qos")
    return value


def option_value(value: Any) -> str | bool:
    """An sbatch or srun option's value: true for a bare flag, false to leave it out."""
    if isinstance(value, bool):
        return value
    text = word(value)
    if has_variable(text):
        raise ValueError("options are fixed when the job is rendered: no parameter can be in them")
    if bad := first_control_character(text):
        raise ValueError(f"an option with {bad}: remove it")
    if len(text.encode()) > MAX_OPTION_BYTES:
        raise ValueError(f"longer than {MAX_OPTION_BYTES:,} bytes: Slurm does not take it")
    return text


def argument(value: Any) -> str | bool | tuple[str, ...]:
    """An argument's value: text, several texts, true for a bare flag, false to leave it out."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return tuple(word(item) for item in value)
    if value is None:
        raise ValueError("the value is missing: true for a bare flag, false to leave it out")
    return word(value)


def argument_name(value: str) -> str:
    """The name of an argument, as it stands after the dashes."""
    if not value or has_variable(value):
        raise ValueError("an argument needs a name that is fixed when the job is rendered")
    return value


def plain(value: Any) -> str:
    """Text that clusterjobs itself reads, so that no parameter can be in it."""
    text = word(value)
    if not text or has_variable(text):
        raise ValueError("a fixed text belongs here")
    return text


def _whole(value: Any) -> Any:
    if isinstance(value, str) and has_variable(value):
        raise ValueError("fixed when the job is rendered: --set changes it, a parameter cannot")
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:
        raise ValueError(f"a whole number belongs here: {int(value)}, without quotes")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a whole number belongs here: digits alone, as 12")
    return int(value)


Word = Annotated[str, BeforeValidator(word)]
Plain = Annotated[str, BeforeValidator(plain)]
Path = Annotated[str, BeforeValidator(path)]
SearchPath = Annotated[str, BeforeValidator(search_path)]
Interface = Annotated[str, BeforeValidator(interface)]
ModuleName = Annotated[str, BeforeValidator(module_name)]
Repository = Annotated[str, BeforeValidator(repository)]
Flag = Annotated[bool, BeforeValidator(flag)]
PackageName = Annotated[str, AfterValidator(package_name)]
PackageVersion = Annotated[str, BeforeValidator(package_version)]
JobName = Annotated[str, BeforeValidator(job_name)]
TimeLimit = Annotated[str, BeforeValidator(time_limit)]
EnvironmentName = Annotated[str, AfterValidator(environment_name)]
ParameterName = Annotated[str, AfterValidator(parameter_name)]
OptionName = Annotated[str, AfterValidator(directive_name)]
OptionValue = Annotated[str | bool, BeforeValidator(option_value)]
ArgumentName = Annotated[str, AfterValidator(argument_name)]
ArgumentValue = Annotated[str | bool | tuple[str, ...], BeforeValidator(argument)]
Count = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(_whole)]
Budget = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(_whole)]
Port = Annotated[int, Field(ge=1, le=65_535), BeforeValidator(_whole)]
Stage = Annotated[int, Field(ge=0, le=3), BeforeValidator(_whole)]
Arguments = Annotated[
    Annotated[dict[ArgumentName, ArgumentValue], Tag("map")]
    | Annotated[tuple[Word, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "map"),
]
