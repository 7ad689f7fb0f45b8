"""Compares a job with the rules of the site's policies.

It knows what each part of a rule asks; it must not know where rules and users come from.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterjobs.errors import BrokenRule, Problem, nearest
from clusterjobs.plan.policy_values import JobValues
from clusterjobs.slurm_time import seconds_of
from clusterjobs.spec.images import spellings
from clusterjobs.spec.policy import Limits, Rule, Selection, SiteRule
from clusterjobs.yaml.document import Path, dotted


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
        if _applies(one.rule, job)
        for violation in _violations(one.rule, job)
    )


def _problem(one: SiteRule, violation: _Violation, job: JobValues) -> Problem:
    rule, where = one
    path, source = violation.path, job.spec.source
    reason = "" if violation.at_key else job.reason(path)
    return Problem(
        f"{violation.what} (derived: {reason})" if reason else violation.what,
        source.locate_key(path) if violation.at_key else source.locate(path),
        dotted(path),
        f"{rule.message} See {rule.link}" if rule.link else rule.message,
        warning=rule.action == "warn",
        rule=BrokenRule(rule.name, where.file, where.line),
    )


# ------------------------------------------------------------------ which jobs


def _applies(rule: Rule, job: JobValues) -> bool:
    if rule.when and not _is_selected(rule.when, job, exempts=False):
        return False
    return not (rule.unless and _is_selected(rule.unless, job, exempts=True))


def _is_selected(selection: Selection, job: JobValues, exempts: bool) -> bool:
    """`exempts`: an unknown queue fits; of two possible queues both must fit, and not only one."""
    compared = [
        (selection.clusters, [job.cluster]),
        (selection.groups, job.user.groups),
        (selection.users, [job.user.name]),
        (selection.frameworks, [job.spec.experiment.framework]),
    ]
    if selection.queues:
        if not job.queues:
            return exempts
        every = all if exempts else any
        if not every(_match(selection.queues, [one]) for one in job.queues):
            return False
    return all(_match(patterns, values) for patterns, values in compared if patterns)


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
        yield from _check_allowed(key, allowed, job)
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


def _check_allowed(key: str, allowed: tuple[str, ...], job: JobValues) -> Iterator[_Violation]:
    for path, value in job.values(key):
        if not _match(allowed, [value]):
            meant = nearest(value, allowed)
            hint = f"; did you mean {meant}?" if meant else ""
            yield _Violation(path, f"{value!r} is not one of: {_list(allowed)}{hint}")


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
    preflight, path = job.spec.experiment.preflight, ("preflight",)
    if preflight is None:
        yield _Violation(path, "the nodes are not checked: add `preflight: true`")
    elif preflight.checks is not None:
        lacking = [name for name in wanted if name not in preflight.checks]
        if lacking:
            yield _Violation(path, f"it leaves out {', '.join(lacking)}: add them")
