"""Regular expressions for the log lines of a program of your own."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, model_validator

from clusterjobs.spec import field_types
from clusterjobs.spec.model import Key, Only, SpecModel

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.


_EXAMPLE = "a number is ([0-9.]+), for example in 'name: ([0-9.]+)'"
_LONGEST = 1000  # characters of a pattern


def compiled(value: str) -> re.Pattern[str]:
    """The pattern. Raises ValueError with a hint if it is no regular expression."""
    if len(value) > _LONGEST:
        raise ValueError(f"too long: {len(value)} characters, {_LONGEST} at most")
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a valid regular expression ({error}): {_EXAMPLE}") from None


def _of_one_number(value: str) -> str:
    groups = compiled(value).groups
    if groups != 1:
        found = "no group" if not groups else f"{groups} groups"
        raise ValueError(f"{found}; put exactly one group around the number: {_EXAMPLE}")
    return value


def _of_a_line(value: str) -> str:
    names = compiled(value).groupindex
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ValueError(f"unknown group {unknown[0]!r}: groups are named {', '.join(NAMES)}")
    if "step" not in names or len(names) < 2:
        raise ValueError(
            "no group `step`, or no other: write "
            r"'step (?P<step>\d+) loss (?P<loss>[\d.]+)'"
        )
    return value


_STEP = {"type": "string", "pattern": r"\(\?P<step>"}
_GROUP = {"type": "string", "pattern": r"\((?!\?[:=!])"}
Number = Annotated[field_types.Plain, AfterValidator(_of_one_number), Only(_GROUP)]


class Report(SpecModel):
    """How `clusterjobs report` reads the log: `pattern` with named groups, or a pattern a value.

    Each other key is a pattern whose one group is the number. All are searched for in one line.
    """

    pattern: Annotated[
        Annotated[field_types.Plain, AfterValidator(_of_a_line), Only(_STEP)] | None,
        Key(
            "a pattern with the named groups `step` and at least one of the names below",
            r"'step (?P<step>\d+) loss (?P<loss>[\d.]+)'",
        ),
    ] = None
    step: Annotated[Number | None, Key("the number of the step", "'step ([0-9]+)'")] = None
    seconds: Annotated[Number | None, Key("the time of a step", "'seconds: ([0-9.]+)'")] = None
    samples_per_second: Annotated[
        Number | None, Key("samples of all ranks in a second", "'samples per second: ([0-9.]+)'")
    ] = None
    tokens_per_second: Annotated[
        Number | None, Key("tokens of all ranks in a second", "'tokens per second: ([0-9.]+)'")
    ] = None
    loss: Annotated[Number | None, Key("the loss", "'loss: ([0-9.]+)'")] = None
    validation_loss: Annotated[
        Number | None, Key("the loss of the validation data", "'validation loss: ([0-9.]+)'")
    ] = None
    learning_rate: Annotated[
        Number | None, Key("the learning rate", "'learning rate: ([0-9.]+)'")
    ] = None
    grad_norm: Annotated[
        Number | None, Key("the norm of the gradient", "'grad norm: ([0-9.]+)'")
    ] = None
    loss_scale: Annotated[
        Number | None, Key("the scale of the loss, with fp16", "'loss scale: ([0-9.]+)'")
    ] = None
    memory_gib: Annotated[
        Number | None, Key("the memory of a GPU that is in use", "'memory gib: ([0-9.]+)'")
    ] = None

    @model_validator(mode="after")
    def _has_a_step(self) -> Any:
        """Values without a step belong to no step."""
        if self.pattern and self.values:
            raise ValueError("both `pattern` and a pattern of one value: remove one of them")
        if not self.pattern and (self.step is None or len(self.values) < 2):
            raise ValueError(
                "no step, or no value: write {step: 'step ([0-9]+)', loss: 'loss ([0-9.]+)'}"
            )
        return self

    @property
    def values(self) -> dict[str, str]:
        """Name -> pattern, of those that are given."""
        found = ((name, getattr(self, name)) for name in NAMES)
        return {name: value for name, value in found if value is not None}


NAMES = tuple(name for name in Report.model_fields if name != "pattern")


class ReportKeys:
    """What is read from the log."""

    report: Annotated[
        Report | None,
        Key(
            "how [`clusterjobs report`](report.md) reads the log of a program of your own: "
            "`pattern`, or a pattern with one group for each value",
            r"{step: 'step (\d+)', loss: 'loss ([\d.]+)'}",
            schedules=True,
            default_is="the formats of the frameworks",
        ),
    ] = None
