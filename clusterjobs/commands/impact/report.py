"""The report of a comparison, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from clusterjobs.commands.impact.find import Found
from clusterjobs.commands.impact.groups import (
    CHANGED,
    FAILED_BEFORE,
    FAILS,
    MENDED,
    NEW,
    REFUSED,
    STATES,
    UNCHANGED,
    Group,
    Groups,
)
from clusterjobs.commands.impact.sides import Side
from clusterjobs.commands.show import printable, styled

_MAX_SHOWN = 20  # groups of a section
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_TITLES = {
    FAILS: "now fail",
    REFUSED: "now refused by a policy",
    CHANGED: "changed",
    MENDED: "failed before, and no longer",
    FAILED_BEFORE: "failed before and after",
}


class Report(NamedTuple):
    """What was compared and found. `complete` is False if somebody stopped it."""

    before: Side
    after: Side
    found: Found
    groups: Groups
    complete: bool

    def text(self) -> str:
        """The report for people: what fails first."""
        lines = [f"before: {_below_here(self.before.title)}"]
        lines.append(f"after:  {_below_here(self.after.title)}")
        for state, title in _TITLES.items():
            lines += _section(title, self.groups.of(state))
        return "\n".join([*lines, "", *self._summary()])

    def _summary(self) -> Iterator[str]:
        counts = self.groups.counts
        if not self.complete:
            yield styled(f"stopped early: {len(self.found.specs):,} specs were found", fg="red")
        parts = [f"{counts[state]:,} {title}" for state, title in _TITLES.items() if counts[state]]
        parts += [f"{counts[NEW]:,} new"] if counts[NEW] else []
        parts.append(f"{counts[UNCHANGED]:,} unchanged")
        yield f"{_specs(self.groups.specs)} rendered: {', '.join(parts)}"
        if self.found.others:
            yield f"other YAML files, not specs: {self.found.others:,}"
        if self.found.unread:
            yield f"not looked at (see above): {len(self.found.unread):,}"

    def data(self) -> dict[str, Any]:
        """The report as JSON. Names and structure are stable across versions."""
        return {
            "before": self.before.title,
            "after": self.after.title,
            "complete": self.complete,
            "specs": self.groups.specs,
            "counts": {state: self.groups.counts[state] for state in STATES},
            "groups": [_data(group) for state in STATES for group in self.groups.of(state)],
            "other_yaml_files": self.found.others,
            "unread": [_encodable(one._asdict()) for one in self.found.unread],
        }


def _section(title: str, groups: list[Group]) -> Iterator[str]:
    if not groups:
        return
    total = sum(group.count for group in groups)
    in_groups = f", in {len(groups):,} groups" if len(groups) > 1 else ""
    yield ""
    yield styled(f"{title}: {_specs(total)}{in_groups}", bold=True)
    for group in groups[:_MAX_SHOWN]:
        yield f"  {_who(group)}"
        yield from (f"    {_coloured(line, group.state)}" for line in group.text.splitlines())
    if len(groups) > _MAX_SHOWN:
        yield f"  and {len(groups) - _MAX_SHOWN:,} more groups: --json prints all"


def _who(group: Group) -> str:
    rule = f"rule {_shown(group.rule)}: " if group.rule else ""
    example = _shown(group.specs[0])
    return (
        f"{rule}{example}"
        if group.count == 1
        else f"{rule}{_specs(group.count)}, for example {example}"
    )


def _coloured(line: str, state: str) -> str:
    if state != CHANGED:
        return _shown(line)
    return styled(printable(_utf8(line)), fg=_COLOURS.get(line[:1]))


def _shown(text: str) -> str:
    return printable(_utf8(_below_here(text)))


def _below_here(text: str) -> str:
    """A message with paths relative to the working folder, if they are below it."""
    return text.replace(f"{Path.cwd()}/", "")


def _specs(count: int) -> str:
    return f"{count:,} spec" + ("" if count == 1 else "s")


def _data(group: Group) -> dict[str, Any]:
    found: dict[str, Any] = {"state": group.state, "count": group.count, "example": group.specs[0]}
    found |= {"rule": group.rule or None, "specs": group.specs}
    found["diff" if group.state == CHANGED else "message"] = group.text
    return {key: _encodable(value) for key, value in found.items()}


def _utf8(text: str) -> str:
    """A file's name may be any bytes."""
    return text.encode(errors="backslashreplace").decode()


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return _utf8(value) if isinstance(value, str) else value
