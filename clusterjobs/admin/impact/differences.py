"""The difference between two renders, and which differences are the same in many specs."""

from __future__ import annotations

import difflib
import functools
import hashlib
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import click

from clusterjobs.admin.impact.sides import Side
from clusterjobs.console import format_problem, printable, styled
from clusterjobs.errors import InputError, Problem
from clusterjobs.runs.ci_reports import Case
from clusterjobs.runs.find_specs import Found
from clusterjobs.runs.load import load
from clusterjobs.sites.folders import SiteFolders, supposed_user
from clusterjobs.sites.policy_check import User

_NOT_RUN = ("manifest.json",)
_MAX_LINES = 60  # of an example
_MAX_WIDTH = 300
_CONTEXT = 2

# plan.json, which the job script writes into the job's folder: it has the version and checksums.
_PLAN_RECORD = r'\{"name": .*"spec": \{"file": .*"clusterjobs": '
# Above lines of a site's file, with its path (templates/job.sh.j2, blocks/inserted.sh.j2).
_ORIGIN = r" *# From .*:$"
_IGNORED = re.compile(f"{_PLAN_RECORD}|{_ORIGIN}")


class Difference(NamedTuple):
    """`key` is the same for the same change in other specs; `text` is a diff to be read."""

    key: str
    text: str


class _Hunk(NamedTuple):
    old: list[str]
    new: list[str]


def difference(
    before: Mapping[str, str], after: Mapping[str, str], names: Sequence[str] = ()
) -> Difference | None:
    """How the files that run differ; None if they do not.

    The manifest, the plan record, comments at a file's top and those that name a site's file do
    not run. `names` are words of the spec, such as its name: they do not distinguish one change
    from another.
    """
    files = [file for file in _in_order(before, after) if before.get(file) != after.get(file)]
    keys: list[str] = []
    texts: list[str] = []
    for file in files:
        old, new = _lines(before.get(file)), _lines(after.get(file))
        if old == new and (file in before) == (file in after):
            continue
        hunks, text = _compare(old, new)
        keys += [file, *(line for hunk in hunks for line in _normal(hunk, names))]
        texts += [f"--- {file if file in before else '/dev/null'}"]
        texts += [f"+++ {file if file in after else '/dev/null'}", *text]
    if not keys:
        return None
    digest = hashlib.sha256("\n".join(keys).encode(errors="surrogatepass")).hexdigest()
    return Difference(digest, _shortened(texts))


def _in_order(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """job.sh first: it is what people read."""
    names = {*before, *after} - set(_NOT_RUN)
    return sorted(names, key=lambda name: (name != "job.sh", name))


def _lines(text: str | None) -> list[str]:
    """The lines without the comments at the top, the plan record and the paths of a site."""
    lines = (text or "").split("\n")
    first = next((n for n, line in enumerate(lines) if line and line[0] != "#"), len(lines))
    header = [line for line in lines[:first] if line.startswith(("#!", "#SBATCH"))]
    return header + [line for line in lines[first:] if not _IGNORED.match(line)]


def _compare(old: list[str], new: list[str]) -> tuple[list[_Hunk], list[str]]:
    """The changed lines, and the same as a diff with some context."""
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    start, end = max(0, first - _CONTEXT), max(0, last - _CONTEXT)
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(None, a, b)
    hunks = [
        _Hunk(a[i1:i2], b[j1:j2])
        for kind, i1, i2, j1, j2 in matcher.get_opcodes()
        if kind != "equal"
    ]
    return hunks, [
        line for group in matcher.get_grouped_opcodes(_CONTEXT) for line in _shown(group, a, b)
    ]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines at the start are the same."""
    count = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shown(
    group: Sequence[tuple[str, int, int, int, int]], old: list[str], new: list[str]
) -> Iterator[str]:
    yield "@@"
    for kind, i1, i2, j1, j2 in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[i1:i2])
        else:
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


def _shortened(lines: list[str]) -> str:
    shown = [line if len(line) <= _MAX_WIDTH else f"{line[:_MAX_WIDTH]}..." for line in lines]
    more = len(shown) - _MAX_LINES
    return "\n".join([*shown[:_MAX_LINES], *([f"... {more} more lines"] if more > 0 else [])])


# ------------------------------------------------------------------ what makes two changes the same


def _normal(hunk: _Hunk, names: Sequence[str]) -> Iterator[str]:
    """The changed words of each line: the rest of the line may be the spec's own."""
    if len(hunk.old) == len(hunk.new):
        pairs = [_changed_words(*pair) for pair in zip(hunk.old, hunk.new, strict=True)]
    else:
        pairs = [("\n".join(hunk.old), "\n".join(hunk.new))]
    for old, new in pairs:
        yield elided(f"-{old}\n+{new}", names)


def _changed_words(old: str, new: str) -> tuple[str, str]:
    """Of both lines the words that differ, with the line's first word and the one before them."""
    a, b = old.split(), new.split()
    if a == b:  # only the spaces differ
        return old, new
    first = _common(a, b)
    last = _common(a[first:][::-1], b[first:][::-1])
    kept = [*a[:1], *a[max(1, first - 1) : first]] if first else []
    words = (kept + a[first : len(a) - last], kept + b[first : len(b) - last])
    return " ".join(words[0]), " ".join(words[1])


def elided(text: str, names: Sequence[str]) -> str:
    """The text with a placeholder for each of the names, where it is a whole word."""
    for number, name in enumerate(names):
        if not name or name not in text:
            continue  # most are in none, and each has a pattern of its own
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", f"<{number}>", text)
    return text


# ------------------------------------------------------------------ one render


class Rendered(NamedTuple):
    """The texts of the files by name; without any, the message says why.

    `reason` is the message without positions, and `rule` the name of the policy's rule that
    refuses the spec.
    """

    name: str
    files: Mapping[str, str]
    message: str = ""
    reason: str = ""
    rule: str = ""

    @property
    def failed(self) -> bool:
        return not self.files


def render_for_comparison(spec: str, site: SiteFolders, owned_as: str = "") -> Rendered:
    """Any failure is part of the answer: one spec must not end the others.

    For the policies, the job is one of the owner of the file `owned_as`, by default the spec.
    """
    try:
        user = _owner(owned_as or spec) if site.rules else None
        run = load(Path(spec), site=site, user=user)
        return Rendered(run.plan.job.name, run.files_that_run())
    except InputError as error:
        return _refused(error)
    except Exception as error:  # any: thousands of other specs wait
        what = f"internal error, not a mistake in the spec: {type(error).__name__}"
        return Rendered("", {}, f"{spec}: {what}", what)


def _owner(file: str) -> User | None:
    """The file's owner; None, which is the caller, if there is no such file."""
    try:
        return _user(Path(file).stat().st_uid)
    except OSError:
        return None


def _owner_name(file: str) -> str:
    """The name, or the number, of the file's owner; "" if there is no such file any more."""
    try:
        return _name_of(Path(file).stat().st_uid)
    except OSError:
        return ""


@functools.cache
def _name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@functools.lru_cache(maxsize=1024)  # its groups may be looked up in a network
def _user(number: int) -> User | None:
    return supposed_user(_name_of(number), ())


def _refused(error: InputError) -> Rendered:
    """The first error speaks for all; a policy's, only if there is no other."""
    errors = [problem for problem in error.problems if not problem.warning]
    first = min(errors or error.problems, key=lambda problem: bool(_rule(problem)))
    message = click.unstyle(format_problem(first))
    if len(errors) > 1:
        message += f"\n(and {len(errors) - 1} more)"
    reason = f"{first.path}: {first.what}" if first.path else first.what
    return Rendered("", {}, message, reason, _rule(first))


def _rule(problem: Problem) -> str:
    """The policy's rule that the problem is about, and where it is; "" if it is about none."""
    rule = problem.rule
    return f"{rule.name}, {rule.file}:{rule.line}" if rule else ""


# ------------------------------------------------------------------ groups of specs
# Counts, and one example for each kind of change. Its size grows with the number of different
# changes, not with the number of specs.


# The states, in the order of a report.
FAILS = "fails"
REFUSED = "refused"
CHANGED = "changed"
MENDED = "mended"
NEW = "new"
FAILED_BEFORE = "failed_before"
UNCHANGED = "unchanged"
BASE = "base"
STATES = (FAILS, REFUSED, CHANGED, MENDED, NEW, FAILED_BEFORE, UNCHANGED, BASE)
FAILURES = (FAILS, REFUSED, FAILED_BEFORE)

_MAX_EXAMPLES = 1_000  # groups whose example is kept


class Outcome(NamedTuple):
    """What happens to one spec. Outcomes with the same state and key are one group."""

    spec: str
    state: str
    key: str = ""
    text: str = ""
    rule: str = ""


@dataclass
class Group:
    """Specs with the same outcome. `text` is a message or a diff of the first one.

    `messages`: why each spec fails; a change has none.
    """

    state: str
    text: str
    rule: str
    specs: list[str] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.specs)

    def owners(self) -> dict[str, list[str]]:
        """The specs by the owner of the file."""
        found: dict[str, list[str]] = {}
        for spec in self.specs:
            found.setdefault(_owner_name(spec), []).append(spec)
        return found


class Groups:
    """All outcomes so far."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(STATES, 0)
        self._groups: dict[tuple[str, str], Group] = {}

    def add(self, outcome: Outcome) -> None:
        """Count one more spec."""
        self.counts[outcome.state] += 1
        if outcome.state in (UNCHANGED, BASE):
            return
        text = outcome.text if len(self._groups) < _MAX_EXAMPLES else "(too many to keep: diff it)"
        key = (outcome.state, outcome.key)
        group = self._groups.setdefault(key, Group(outcome.state, text, outcome.rule))
        group.specs.append(outcome.spec)
        if outcome.state in FAILURES:
            group.messages[outcome.spec] = outcome.text

    def of(self, state: str) -> list[Group]:
        """The groups of a state, the largest first."""
        found = [group for group in self._groups.values() if group.state == state]
        return sorted(found, key=lambda group: (-group.count, group.specs[0]))

    def cases(self) -> Iterator[Case]:
        """For CI: each spec that is not unchanged. What changes is a note, not an error."""
        for group in self._groups.values():
            is_note = group.state not in FAILURES
            kind = group.rule.partition(",")[0] or group.state
            for spec in group.specs:
                text = group.messages.get(spec, group.text)
                problem = Problem(text.partition("\n")[0], warning=is_note, info=is_note)
                yield Case(spec, (problem,), kind, text)

    @property
    def specs(self) -> int:
        """How many specs were rendered; incomplete bases of other specs do not count."""
        return sum(self.counts.values()) - self.counts[BASE]

    @property
    def any_fails(self) -> bool:
        return any(self.counts[state] for state in FAILURES)


def outcome_of(
    spec: str, before: Rendered | None, after: Rendered, names: tuple[str, ...], is_base: bool
) -> Outcome:
    """Compare both renders of a spec; `before` is None for one that did not exist.

    `names` are those that differ from spec to spec, such as its path. A base of other specs may
    be incomplete: then its failure does not count.
    """
    if after.failed:
        failed_before = before is not None and before.failed
        if is_base and (failed_before or before is None):
            return Outcome(spec, BASE)
        state = FAILED_BEFORE if failed_before else REFUSED if after.rule else FAILS
        key = after.rule or elided(after.reason, names)
        return Outcome(spec, state, key, after.message, after.rule)
    if before is None:
        return Outcome(spec, NEW)
    if before.failed:
        return Outcome(spec, MENDED, elided(before.reason, names), before.message, before.rule)
    found = difference(before.files, after.files, (after.name, before.name, *names))
    return Outcome(spec, CHANGED, *found) if found else Outcome(spec, UNCHANGED)


# ------------------------------------------------------------------ report


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
    rule = f"rule {_shown_kind(group.rule)}: " if group.rule else ""
    example = _shown_kind(group.specs[0])
    return (
        f"{rule}{example}"
        if group.count == 1
        else f"{rule}{_specs(group.count)}, for example {example}"
    )


def _coloured(line: str, state: str) -> str:
    if state != CHANGED:
        return _shown_kind(line)
    return styled(printable(_utf8(line)), fg=_COLOURS.get(line[:1]))


def _shown_kind(text: str) -> str:
    return printable(_utf8(_below_here(text)))


def _below_here(text: str) -> str:
    """A message with paths relative to the working folder, if they are below it."""
    return text.replace(f"{Path.cwd()}/", "")


def _specs(count: int) -> str:
    return f"{count:,} spec" + ("" if count == 1 else "s")


def _data(group: Group) -> dict[str, Any]:
    found: dict[str, Any] = {"state": group.state, "count": group.count, "example": group.specs[0]}
    found |= {"rule": group.rule or None, "specs": group.specs, "owners": group.owners()}
    found["diff" if group.state == CHANGED else "message"] = group.text
    return {key: _encodable(value) for key, value in found.items()}


def _utf8(text: str) -> str:
    """A file's name may be any bytes."""
    return text.encode(errors="backslashreplace").decode()


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    return _utf8(value) if isinstance(value, str) else value
