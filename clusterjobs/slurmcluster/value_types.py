"""The types of single values in a description of a Slurm cluster: names, times, versions, numbers.

As in spec/field_types.py, a ValueError says what is wrong and, after a colon, what to write. It
must not know which key a value is for.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.slurm_time import is_slurm_time, seconds_of
from clusterjobs.spec import field_types
from clusterjobs.spec.field_types import integer, plain, scalar_text
from clusterjobs.spec.references import show

_MAX_NAME = 200
_MAX_NUMBER = 1_000_000
_NAME = re.compile(r"[^\s,=|&()\[\]{}*!:;<>$`\"'\\/-][^\s,=|&()\[\]{}*!:;<>$`\"'\\/]*")
_FEATURE = re.compile(r"[^\s,|&()\[\]{}*!;<>$`\"'\\-][^\s,|&()\[\]{}*!;<>$`\"'\\]*")
_VERSION = re.compile(r"\d{1,2}\.\d{1,2}(?:\.[\w.-]{1,80})?", re.ASCII)
_HOST_PART = re.compile(r"[A-Za-z0-9.-]{1,63}", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9._+-]{0,31}", re.ASCII)


def name(value: Any) -> str:
    """The name of a partition, node type, GRES type, account or QOS: one word for Slurm."""
    text = _fixed(value)
    if not _NAME.fullmatch(text) or len(text.encode()) > _MAX_NAME:
        raise ValueError(
            f"{show(text)[:60]!r} is not a name of Slurm: write letters, digits, '_', '-' and '.'"
        )
    return text


def feature(value: Any) -> str:
    """A feature of nodes. Slurm's --constraint gives `&`, `|`, `*` and brackets a meaning."""
    text = _fixed(value)
    if not _FEATURE.fullmatch(text) or len(text.encode()) > _MAX_NAME:
        raise ValueError(f"{show(text)[:60]!r} is not a feature: write one word for each feature")
    return text


def version(value: Any) -> str:
    """Slurm's version, as `sinfo --version` prints it."""
    text = plain(value).removeprefix("slurm ")
    if not _VERSION.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a version of Slurm: write what `sinfo --version` prints, "
            "23.02.7"
        )
    return text


def max_time(value: Any) -> str:
    """A partition's MaxTime."""
    text = scalar_text(value)
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return "UNLIMITED"
    if not is_slurm_time(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a Slurm time: write 90 (minutes), 12:00:00, 2-00:00:00 "
            "or UNLIMITED"
        )
    if not seconds_of(text):
        raise ValueError("no job can have a time limit of zero: write UNLIMITED, or a longer time")
    return text


def folder(value: Any) -> str:
    """An absolute folder of the nodes."""
    text = field_types.path(value)
    if not text.startswith("/"):
        raise ValueError(f"{show(text)[:60]!r} is not an absolute path: write it with a leading /")
    if "$" in text:
        raise ValueError("a description has no variables: write the whole path")
    return "/" + "/".join(part for part in text.split("/") if part)


def mount_kind(value: Any) -> str:
    """The kind of a file system."""
    text = plain(value)
    if not _WORD.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} is not a kind of file system: write one word, as /proc/mounts "
            "has it, for example lustre, gpfs, nfs or beegfs"
        )
    return text


def host_suffix(value: Any) -> str:
    """What is added to a node's name to get its address in the fast network."""
    text = plain(value)
    if not _HOST_PART.fullmatch(text):
        raise ValueError(
            f"{show(text)[:60]!r} cannot end a host name: write letters, digits, '-' and '.'"
        )
    return text


def line(value: Any) -> str:
    """Text of one line."""
    text = _fixed(value)
    if bad := field_types.first_control_character(text):
        raise ValueError(f"the text contains {bad}: write it in one line")
    return text


def reason(value: Any) -> str:
    """Why something is set, as a comment of job.sh."""
    if value == "":
        raise ValueError("the reason is empty: write why the variable is set")
    return line(value)


def number(value: Any) -> float:
    """A number that may have decimals."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("expected a number: for example 400 or 25.5")
    if not 0 < value <= _MAX_NUMBER:
        raise ValueError(f"{value} is out of range: write a number from 0.1 to {_MAX_NUMBER:,}")
    return float(value)


def _fixed(value: Any) -> str:
    text = plain(value)
    if "{{" in text:
        raise ValueError("a description has no references: write the value itself")
    return text


Name = Annotated[str, BeforeValidator(name)]
Feature = Annotated[str, BeforeValidator(feature)]
Version = Annotated[str, BeforeValidator(version)]
MaxTime = Annotated[str, BeforeValidator(max_time)]
Folder = Annotated[str, BeforeValidator(folder)]
# of the keys of a mapping, which YAML gives as text
FolderKey = Annotated[str, AfterValidator(folder)]
NameKey = Annotated[str, AfterValidator(name)]
Line = Annotated[str, BeforeValidator(line)]
Reason = Annotated[str, BeforeValidator(reason)]
MountKind = Annotated[str, BeforeValidator(mount_kind)]
HostSuffix = Annotated[str, BeforeValidator(host_suffix)]
Number = Annotated[float, BeforeValidator(number)]
NumberOfNodes = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(integer)]
Mebibytes = Annotated[int, Field(ge=1, le=1_000_000_000), BeforeValidator(integer)]
Gpus = Annotated[int, Field(ge=0, le=1_000), BeforeValidator(integer)]
Count = field_types.Count
Flag = field_types.Flag
