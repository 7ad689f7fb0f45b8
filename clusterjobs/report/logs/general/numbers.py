"""Finds the numbers of a line, each with the name in front of it and the unit behind it.

    step:12/100 train_loss: 3.41 | 98.7 ms | 51,200 tokens/s
    Epoch: [0][  10/5005]  Time  0.345 ( 1.234)  Loss 6.9e+00 (7.0e+00)
    {"step": 12, "loss": "3.41"}

What the names mean is in `names.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

STAMP = r"\d{4}[-/]\d\d[-/]\d\d[t _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
PER_SECOND = r"(?: ?/ ?|_per_| per )s(?:ec(?:ond)?)?"
ONE_UNIT = r"(?:gpu|device|rank|chip|cpu)"
THINGS_UNIT = r"(?:samples?|images?|imgs?|examples?|sequences?|seqs?|sentences?|tokens?|toks?)"
STEPS_UNIT = r"(?:it|iters?|iterations?|steps?|batch(?:es)?|updates?)"
RATE = rf"(?:[km] ?)?{THINGS_UNIT}{PER_SECOND}(?:(?:/| per ){ONE_UNIT})?"
_STEPS = rf"{STEPS_UNIT}{PER_SECOND}|(?:ms|us|s|sec|seconds?)/{STEPS_UNIT}"
_UNITS = (
    rf"{RATE}|{_STEPS}|(?:ms|us|secs?|seconds?|s|mins?|minutes?|hrs?|hours?)"
    r"|[kmgt]?flop(?:s|/s)?(?:/(?:s/)?(?:gpu|device))?|[kgmbt]i?b?|/s"
    r"|%(?: (?:[a-z0-9]{1,8} )?[mh]fu)?"
)
# All patterns are for a line in small letters, and have no repeat without a limit.
DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3}){1,5},\d{1,30}"  # 1.234,5
    r"|\d{1,30}(?:,\d{1,30}){0,10}(?:\.\d{0,40})?(?:e[-+]?\d{1,4})?)"
)
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<text>[-+]?(?:\d{{1,9}}(?::\d\d){{1,2}}|{DIGITS}|nan|inf))"
    rf"(?P<total> ?/ {{0,12}}\d{{1,15}})?(?:[\"']?(?P<unit> ?(?:{_UNITS})))?(?![\w/]|\.\d)"
)
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?![\d,])")
_EITHER = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3}|\.\d{3})")
_STAMP = re.compile(STAMP)
_LAST_RATE = re.compile(rf".*\b(?:{RATE}|{_STEPS})\b(?P<behind> +[-+]?{DIGITS}(?!\w))?")
_IS_NAME = re.compile(r"[\"']? ?[:=]")  # behind a rate
_GOES_ON = re.compile(r",? \d{1,2} ?(?:m|min|minutes?|s|secs?|seconds?)\b")  # `1 h 20 min`
_LOCATION = re.compile(
    r"(?:^|[\s|(\[])[\w.]{1,80}:[\w<>]{1,80}:$"
)  # of Loguru: `module:function:12`
_RANGE = re.compile(r"-\S| and | to |\.\.\d")  # `steps 0 and 100`
_UNIT_OF_NAME = re.compile(r"(?:\((ms|s|secs?|seconds|gi?b|mi?b|%)\)| in (s|ms|gi?b|mi?b))$")
_SEPARATOR = re.compile(r"[|;:(){}\[\],\t]| - |  +|=>|\. ")
_IN_PARENTHESES = re.compile(r" ?\(([a-z/]{1,15})\)$")  # `iter(train)`, `loss (val)`
_A_SECOND = re.compile(r"/(?=s(?:ec(?:ond)?)?$)")  # `it/s` is a rate, `it_s` may be a time
_LONG_UNITS = frozenset(("min", "mins", "minute", "minutes", "hr", "hrs", "hour", "hours"))
_WORD = re.compile(r"[a-z0-9]+|%")
_AROUND = " :=\"'#~"
_LONGEST_NAME = 100  # characters


class Number(NamedTuple):
    """A number of a line. `name`: words in small letters. `total` of `12/100`, 0 without one.

    `bracket`: the one directly in front of it. `start` and `end`: of the number in the line.
    """

    name: tuple[str, ...]
    text: str
    total: int
    unit: str
    bracket: str
    start: int
    end: int


def numbers_of(line: str) -> tuple[list[Number], tuple[int, int]]:
    """All numbers of a line in small letters, and where its time stamp begins and ends."""
    found_stamp = _STAMP.search(line) if ":" in line else None
    stamp = found_stamp.span() if found_stamp else (0, 0)
    # `51.2 samples/s` or `samples/s 51.2`: the last rate says it for all of the line.
    last = _LAST_RATE.match(line) if "/" in line or "per" in line else None
    names_first = last is not None and last["behind"] is not None
    found: list[Number] = []
    before = 0
    for match in _NUMBER.finditer(line):
        start, end = match.span("text")
        if stamp[0] <= start < stamp[1]:
            before = max(before, stamp[1])
            continue
        unit = (match["unit"] or "").strip()
        # `loss 8.8 it/s: 2` and, where the last rate of the line stands before its number,
        # `loss 8.8 it/s 2`: what follows is the name of the next number.
        is_name = (names_first and ("/" in unit or "per" in unit)) or _IS_NAME.match(
            line, match.end()
        )
        if is_name and unit[-1:].isalpha():
            unit, behind = "", match.start("unit")
        else:
            behind = match.end()
        gap = line[max(before, start - _LONGEST_NAME) : start].rstrip(_AROUND)
        bracket = gap[-1] if gap and gap[-1] in "([" else ""
        gap = gap.rstrip("([").rstrip(_AROUND)
        if unit_of_name := _UNIT_OF_NAME.search(gap):
            unit = unit or unit_of_name[1] or unit_of_name[2]
            gap = gap[: unit_of_name.start()].rstrip(_AROUND)
        gap = _A_SECOND.sub(" per ", _IN_PARENTHESES.sub(r" \1", gap))
        if unit in _LONG_UNITS and _GOES_ON.match(line, match.end()):
            unit = "?"
        # No name: the number of a path, `/api/step/3`, or source line, and the first of a range.
        is_other = (
            line[max(0, start - 1) : start] == "/"
            or _RANGE.match(line, match.end())
            or (line.startswith(" - ", end) and _LOCATION.search(line, before, start))
        )
        text = "" if is_other else _SEPARATOR.split(gap)[-1]
        total = int(match["total"].strip(" /")) if match["total"] else 0
        if total:
            text = text.partition("/")[0]  # `step/max_steps: 12/100`
        name = tuple(_WORD.findall(text))
        found.append(Number(name, match["text"], total, unit, bracket, start, end))
        before = behind
    return found, stamp


def has_decimal_comma(text: str) -> bool:
    """`64,0` cannot be grouped digits; `16,011` may be."""
    return "," in text and _GROUPED.match(text) is None


def is_either(text: str) -> bool:
    """`16,011` or `16.011` beside decimal commas: digits in groups, or a fraction."""
    return _EITHER.fullmatch(text) is not None


def value_of(text: str, is_decimal: bool) -> float:
    """`16,011` is 16011, or with decimal commas 16.011; `0:01:20` is 80 seconds.

    `1.234,5` is 1234.5.
    """
    if "." in text and text.find(".") < text.find(","):
        text = text.replace(".", "")
    if ":" in text:
        seconds = 0
        for part in text.split(":"):
            seconds = 60 * seconds + int(part)
        return float(seconds)
    return float(text.replace(",", "." if is_decimal else ""))
