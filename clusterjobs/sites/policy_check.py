"""Compares a job with the rules of the site's policies."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.errors import BrokenRule, Problem, nearest
from clusterjobs.sections.plan import Plan
from clusterjobs.sites.policy import Limits, Rule, Selection, SiteRule
from clusterjobs.slurm.options import seconds_of
from clusterjobs.spec.keys.container import spellings
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text, show
from clusterjobs.yaml.document import Path, dotted

if TYPE_CHECKING:
    import datetime

# ------------------------------------------------------------------ policy values
# The values of a job that a site's rules are compared with, and their paths in the spec.


ANY_DAY = "any"


class User(NamedTuple):
    """Who submits, and the names of the Unix groups that this user belongs to.

    `day`: when, as 2027-01-31; "" is today, and `ANY_DAY` one on which all rules are in force.
    """

    name: str
    groups: frozenset[str] = frozenset()
    day: str = ""


class Usage(NamedTuple):
    """What the job uses. `gpus_per_node` and `seconds` are None if unknown or without a limit."""

    nodes: int
    gpus_per_node: int | None
    time_limit: str | None

    @property
    def gpus(self) -> int | None:
        """The GPUs of all nodes."""
        return None if self.gpus_per_node is None else self.nodes * self.gpus_per_node

    @property
    def seconds(self) -> int | None:
        return None if self.time_limit is None else seconds_of(self.time_limit)


@dataclass(frozen=True)
class JobValues:
    """One job. `plan` is None if it could not be planned; `cluster` is the cluster's name.

    `default_queue`: Slurm's, of jobs that name none; "" if unknown.
    """

    loaded: LoadedSpec
    plan: Plan | None
    cluster: str
    user: User
    default_queue: str = ""

    @property
    def queues(self) -> tuple[str, ...]:
        """The planned one, and Slurm's default if the script names none; empty if unknown."""
        if self.plan is None:
            planned = self.loaded.spec.queue
            is_named = self.loaded.spec.sbatch.get("partition") is not False
        else:
            planned = self.plan.placement.partition
            is_named = any(one.name == "partition" for one in self.plan.job.directives)
        found = (planned, None if is_named else self.default_queue)
        return tuple(dict.fromkeys(filter(None, found))) if planned else ()

    @functools.cached_property
    def usage(self) -> Usage:
        """Nodes, GPUs and time."""
        wanted = self.loaded.spec
        if self.plan is None:
            return Usage(wanted.nodes, wanted.gpus_per_node, wanted.time_limit)
        placement = self.plan.placement
        gpus = placement.per_node * placement.shape.gpus_per_node
        return Usage(placement.all_nodes, gpus, self.plan.job.time_limit)

    def is_written(self, key: str) -> bool:
        """Whether the spec, or a default, gives the key a value; `false` leaves an option out."""
        return any(_is_value(value) for _, value in _find(self._written, key.split("."), ()))

    def missing(self, key: str) -> Iterator[Path]:
        """The paths at which the key is not written: one for each item of a list without it."""
        return _missing(self._written, self._effective, key.split("."), ())

    def values(self, key: str) -> Iterator[tuple[Path, str]]:
        """Each value of the key as text: items of a list, names in a mapping, derived values."""
        for path, value in _find(self._effective, key.split("."), ()):
            yield from _texts(value, path)
            if key == "queue":
                yield from ((path, show(one)) for one in self.queues[1:])

    def reason(self, path: Path) -> str:
        """Why the job has the value, if it is derived; "" if it is written."""
        name = str(path[0])
        if self.plan is None or name in self._written:
            return ""
        return next((one.reason for one in self.plan.derived if one.name == name), "")

    @functools.cached_property
    def _written(self) -> dict[str, Any]:
        """What the spec says, without built-in defaults."""
        return self._dumped(exclude_unset=True)

    @functools.cached_property
    def _effective(self) -> dict[str, Any]:
        """What the job has: built-in defaults and derived values where nothing is written."""
        values = {**self._dumped(exclude_unset=False), "cluster": self.cluster}
        values["sbatch"] = {k: v for k, v in values["sbatch"].items() if v is not False}
        if self.plan:
            placement = self.plan.placement
            values |= {
                "queue": placement.partition,
                "instance_type": placement.node_type.name,
                "gpus_per_node": placement.shape.gpus_per_node,
                "ranks_per_node": placement.shape.ranks_per_node,
                "launcher": self.plan.launch.launcher.name,
            }
            if self.plan.container:
                values["software"]["container"]["runtime"] = self.plan.container.runtime
        return values

    def _dumped(self, exclude_unset: bool) -> dict[str, Any]:
        models = filter(None, (self.loaded.spec, self.loaded.options))
        found: dict[str, Any] = {}
        for model in models:
            found |= model.model_dump(by_alias=True, exclude_unset=exclude_unset)
        for launcher, model in self.loaded.launcher_options.items():
            found[launcher] = model.model_dump(by_alias=True, exclude_unset=exclude_unset)
        return found


def _is_value(value: Any) -> bool:
    """Whether a key has a value; False, None and an empty list are none."""
    return value is not None and value is not False and value != ()


def _find(data: Any, steps: list[str], path: Path) -> Iterator[tuple[Path, Any]]:
    """The values at `steps`, in each item of a list, with their paths."""
    if not steps:
        yield path, data
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from _find(item, steps, (*path, index))
    elif isinstance(data, Mapping) and steps[0] in data:
        yield from _find(data[steps[0]], steps[1:], (*path, steps[0]))


def _missing(data: Any, effective: Any, steps: list[str], path: Path) -> Iterator[Path]:
    """`effective`: the same with the defaults, which show an empty list that has no items."""
    if not steps:
        if not _is_value(data):
            yield path
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from _missing(item, effective[index], steps, (*path, index))
    elif isinstance(data, Mapping) and steps[0] in data:
        step = steps[0]
        yield from _missing(data[step], effective.get(step), steps[1:], (*path, step))
    elif not (len(steps) > 1 and _is_empty_list(effective, steps[0])):
        yield (*path, *steps)


def _is_empty_list(effective: Any, step: str) -> bool:
    return isinstance(effective, Mapping) and effective.get(step) == ()


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for name in value:
            yield (*path, name), show(str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif value is not None:
        yield path, show(value) if isinstance(value, Text) else as_text(value)


class _Violation(NamedTuple):
    """What breaks a rule. `at_key`: the problem is the key, not its value."""

    path: Path
    what: str
    at_key: bool = False


def check_policies(rules: Iterable[SiteRule], job: JobValues) -> tuple[Problem, ...]:
    """What breaks the rules: errors, and warnings for rules with `action: warn`.

    Rules that need the plan are left out if there is none.
    """
    return tuple(
        _problem(one, violation, job)
        for one in rules
        if not _why_not(one.rule, job)
        for violation in _violations(one.rule, job)
    )


def _problem(one: SiteRule, violation: _Violation, job: JobValues) -> Problem:
    rule, where = one
    path, source = violation.path, job.loaded.source
    reason = "" if violation.at_key else job.reason(path)
    return Problem(
        f"{violation.what} (derived: {reason})" if reason else violation.what,
        source.locate_key(path) if violation.at_key else source.locate(path),
        dotted(path),
        f"{rule.message} See {rule.link}" if rule.link else rule.message,
        warning=rule.action == "warn",
        rule=BrokenRule(rule.name, where.file, where.line),
    )


class Explained(NamedTuple):
    """A rule, what it means for a job, and why.

    `state`: broken, kept, not known, not for this job, not in force.
    """

    rule: SiteRule
    state: str
    why: str


def explain_policies(
    rules: Iterable[SiteRule], job: JobValues, day: datetime.date
) -> Iterator[Explained]:
    """Each rule, whether it is for this job and keeps it from running or not."""
    for one in rules:
        rule = one.rule.on(day.isoformat())
        if rule is None:
            yield Explained(one, "not in force", f"today is {day}")
        elif why := _why_not(rule, job):
            yield Explained(one, "not for this job", why)
        elif broken := [_problem(one, found, job) for found in _violations(rule, job)]:
            yield Explained(one, "broken", "; ".join(f"{one.path}: {one.what}" for one in broken))
        elif job.plan is None:  # instance types, GPU hours and others follow from the plan
            why = "the job cannot be planned; the spec alone does not break it"
            yield Explained(one, "not known", why)
        else:
            yield Explained(one, "kept", "")


# ------------------------------------------------------------------ which jobs


def _why_not(rule: Rule, job: JobValues) -> str:
    """Why the rule is not for this job; "" if it is."""
    for one in _fits(rule.when, job, exempts=False) if rule.when else ():
        if not one.fits:
            return f"{one.kind}: {one.values} does not fit {', '.join(one.patterns)}"
    for exemption in rule.exemptions:
        exempting = list(_fits(exemption, job, exempts=True))
        if all(one.fits for one in exempting):
            named = [
                f"{one.kind}: {one.values} fits {', '.join(one.patterns)}" for one in exempting
            ]
            until = f", until {exemption.until}" if exemption.until else ""
            return f"unless {'; '.join(named)}{until}"
    return ""


class _Fit(NamedTuple):
    """A list of a selection, with what it is compared with, and whether that fits."""

    kind: str
    patterns: tuple[str, ...]
    values: str
    fits: bool


def _fits(selection: Selection, job: JobValues, exempts: bool) -> Iterator[_Fit]:
    """Each list of the selection. `exempts`: an unknown queue or account fits; of two possible
    queues both must fit."""
    compared: dict[str, Collection[str]] = {
        "accounts": [value for _, value in job.values("sbatch.account")],
        "clusters": [job.cluster],
        "groups": job.user.groups,
        "users": [job.user.name],
        "frameworks": [job.loaded.spec.framework],
        "queues": job.queues,
    }
    for kind, values in compared.items():
        if patterns := getattr(selection, kind):
            if kind == "queues" and exempts:
                fits = all(_match(patterns, [one]) for one in values)
            else:
                fits = bool(_match(patterns, values))
            fits = fits or (exempts and kind == "accounts" and not values)
            yield _Fit(kind, patterns, ", ".join(sorted(values)) or "none", fits)


def _match(patterns: Iterable[str], values: Iterable[str]) -> str | None:
    """The first pattern that one of the values fits; None if there is none."""
    fits = fnmatch.fnmatchcase
    return next((one for one in patterns if any(fits(value, one) for value in values)), None)


# ------------------------------------------------------------------ what they must have


def _violations(rule: Rule, job: JobValues) -> Iterator[_Violation]:
    for key in rule.require:
        for path in job.missing(key):
            yield _Violation(path, f"{path[-1]} is missing: add `{_as_yaml(path)}`", at_key=True)
    for key, allowed in rule.allow.items():
        for path, value in job.values(key):
            if not _match(allowed, [value]):
                meant = nearest(value, allowed)
                hint = f"; did you mean {meant}?" if meant else ""
                yield _Violation(path, f"{value!r} is not one of: {_list(allowed)}{hint}")
    if isinstance(rule.forbid, Mapping):
        for key, forbidden in rule.forbid.items():
            yield from _check_forbidden(key, forbidden, job)
    else:
        for key in rule.forbid:
            if job.is_written(key):
                path = tuple(key.split("."))
                yield _Violation(path, f"{path[-1]} is not allowed: remove it", at_key=True)
    if rule.limits:
        yield from _check_limits(rule.limits, job)
    if rule.images:
        yield from _check_images(rule.images.allow, rule.images.forbid, job)
    if rule.preflight is not None:
        yield from _check_preflight(rule.preflight, job)


def _as_yaml(path: Path) -> str:
    """The key as a person may paste it: `sbatch: {account: ...}`."""
    text = "..."
    for step in reversed([one for one in path if isinstance(one, str)]):
        text = f"{step}: {{{text}}}" if text != "..." else f"{step}: ..."
    return text


def _check_forbidden(key: str, forbidden: tuple[str, ...], job: JobValues) -> Iterator[_Violation]:
    for path, value in job.values(key):
        if pattern := _match(forbidden, [value]):
            yield _Violation(path, f"{value!r} is forbidden{_by(pattern, value)}")


def _by(pattern: str, value: str) -> str:
    return "" if pattern == value else f" (it fits {pattern!r})"


_SHOWN = 10


def _list(texts: tuple[str, ...]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


# ------------------------------------------------------------------ limits


def _check_limits(limits: Limits, job: JobValues) -> Iterator[_Violation]:
    usage = job.usage
    gpus_key = ("gpus_per_node",)
    if limits.nodes is not None and usage.nodes > limits.nodes:
        yield _Violation(("nodes",), f"{usage.nodes} is more than {limits.nodes}")
    if limits.gpus_per_node is not None and (usage.gpus_per_node or 0) > limits.gpus_per_node:
        yield _Violation(gpus_key, f"{usage.gpus_per_node} is more than {limits.gpus_per_node}")
    if limits.gpus is not None and (usage.gpus or 0) > limits.gpus:
        what = f"{usage.gpus:,} GPUs ({usage.nodes} x {usage.gpus_per_node}) are more than"
        yield _Violation(("nodes",), f"{what} {limits.gpus:,}")
    if limits.team_nodes is not None and usage.nodes > limits.team_nodes:
        what = f"{usage.nodes} is more than {limits.team_nodes}, the total of all such jobs"
        yield _Violation(("nodes",), what)
    if limits.team_gpus is not None and (usage.gpus or 0) > limits.team_gpus:
        what = f"{usage.gpus:,} GPUs are more than {limits.team_gpus:,}, the total of all such jobs"
        yield _Violation(("nodes",), what)
    if limits.time is not None:
        yield from _check_time(limits, job)
    if limits.gpu_hours is not None and usage.gpus:
        yield from _check_gpu_hours(limits.gpu_hours, usage.gpus, job)


_ENDLESS = "the job has no time limit"


def _check_time(limits: Limits, job: JobValues) -> Iterator[_Violation]:
    most = seconds_of(limits.time or "") or 0
    if job.usage.seconds is None:
        yield _Violation(("time_limit",), f"{_ENDLESS}: write {limits.time} at most")
    elif job.usage.seconds > most:
        yield _Violation(("time_limit",), f"{job.usage.time_limit} is longer than {limits.time}")


def _check_gpu_hours(limit: float, gpus: int, job: JobValues) -> Iterator[_Violation]:
    path, seconds = ("time_limit",), job.usage.seconds
    if seconds is None:
        most = f"{limit:,.6g} GPU-hours of {gpus:,} GPUs last {limit / gpus:.3g} hours"
        yield _Violation(path, f"{_ENDLESS}: {most}")
    elif gpus * seconds > limit * 3600:
        used = gpus * seconds / 3600
        what = f"{used:,.6g} GPU-hours ({gpus:,} GPUs x {job.usage.time_limit}) are more than"
        yield _Violation(path, f"{what} {limit:,.6g}")


# ------------------------------------------------------------------ images and preflight


_IMAGE_KEYS = ("software.container.image", "srun.container-image", "sbatch.container-image")


def _check_images(
    allowed: tuple[str, ...], forbidden: tuple[str, ...], job: JobValues
) -> Iterator[_Violation]:
    for key in _IMAGE_KEYS:
        for path, image in job.values(key):
            names = spellings(image)
            if pattern := _match(forbidden, names):
                yield _Violation(path, f"the image is forbidden{_by(pattern, image)}")
            elif allowed and not _match(allowed, names):
                yield _Violation(path, f"the image is not one of: {_list(allowed)}")


def _check_preflight(wanted: tuple[str, ...], job: JobValues) -> Iterator[_Violation]:
    preflight, path = job.loaded.spec.preflight, ("preflight",)
    if preflight is None:
        yield _Violation(path, "the nodes are not checked: add `preflight: true`")
    elif preflight.checks is not None:
        lacking = [name for name in wanted if name not in preflight.checks]
        if lacking:
            yield _Violation(path, f"it leaves out {', '.join(lacking)}: add them")
