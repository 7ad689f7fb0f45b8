"""The types of single values in a policy.yaml: names, messages, links, lists, times.

Each function takes a value that YAML gave and returns the checked one, or raises ValueError: what
is wrong and, after a colon, what to write instead. It must not know which key the value is for.
"""

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from clusterjobs.slurm_time import is_slurm_time, seconds_of
from clusterjobs.spec.experiment import PreflightCheck
from clusterjobs.spec.field_types import first_control_character, scalar_text

MAX_MESSAGE = 1_000
MAX_TEXT = 500
MAX_VALUES = 1_000  # of one list: each is compared with each value of a job

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_LINK = re.compile(r"(?:https?://|mailto:)[^\s<>\"'`]{1,500}")


def _name(value: Any) -> str:
    text = scalar_text(value)
    if not _NAME.fullmatch(text):
        raise ValueError(
            "not a name of a rule: only letters, digits, '.', '_' and '-', at most 64, "
            "for example account-required"
        )
    return text


def _message(value: Any) -> str:
    """The message in one line. An admin may write it in several."""
    if isinstance(value, str) and len(value) > MAX_MESSAGE:
        raise ValueError(f"longer than {MAX_MESSAGE:,} characters: shorten it, and add a link")
    text = " ".join(scalar_text(value).split())
    if not text:
        raise ValueError("the message is empty: say what the user must do")
    if bad := first_control_character(text):
        raise ValueError(f"the message contains {bad}: remove it")
    return text


def _link(value: Any) -> str:
    text = scalar_text(value)
    if not _LINK.fullmatch(text):
        raise ValueError("not a link: write one that starts with https:// and has no spaces")
    return text


def _one_value(value: Any) -> str:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ValueError(f"longer than {MAX_TEXT} characters: shorten it, a * stands for any text")
    text = scalar_text(value)
    if not text:
        raise ValueError("the value is empty: write one, or * for any")
    if bad := first_control_character(text):
        raise ValueError(f"the value contains {bad}: remove it")
    return text


def _list(value: Any) -> Any:
    """A list; a single value is a list of one."""
    if isinstance(value, list):
        if not value:
            raise ValueError("the list is empty: write at least one value, or remove the key")
        return tuple(value)
    if value is None:
        raise ValueError("the value is missing: write a list, [a, b]")
    return value if isinstance(value, dict) else (value,)


def _time(value: Any) -> str:
    """A time that limits: `12:00` is refused, because few read it as minutes and seconds."""
    text = scalar_text(value)
    if re.fullmatch(r"[0-9]+:[0-9]+", text):
        raise ValueError(f"Slurm reads {text} as minutes and seconds: for hours write {text}:00")
    if not is_slurm_time(text) or not seconds_of(text):
        raise ValueError(
            f"{text!r} is not a time limit: write 90 (minutes), 12:00:00 or 2-00:00:00"
        )
    return text


def _hours(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise ValueError("expected a number of hours above 0: for example 512")
    return value


def _checks(value: Any) -> Any:
    """`true` means any preflight, a list the checks that it must have."""
    if value is True:
        return ()
    if value is False:
        raise ValueError("false requires nothing: write true, or a list of checks")
    return _list(value)


RuleName = Annotated[str, BeforeValidator(_name)]
Message = Annotated[str, BeforeValidator(_message)]
Link = Annotated[str, BeforeValidator(_link)]
Time = Annotated[str, BeforeValidator(_time)]
Hours = Annotated[float, BeforeValidator(_hours)]
Checks = Annotated[tuple[PreflightCheck, ...], BeforeValidator(_checks)]
Texts = Annotated[
    tuple[Annotated[str, BeforeValidator(_one_value)], ...],
    Field(max_length=MAX_VALUES),
    BeforeValidator(_list),
]
TextsOfKeys = dict[Annotated[str, AfterValidator(_one_value)], Texts]
