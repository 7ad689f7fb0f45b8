"""Which settings of Slurm enforce the rules of a policy, and which rules have none.

It knows rules and what Slurm can limit. It must not know how a setting is written.
Source: slurm.conf(5), sacctmgr(1) and job_submit_plugins of Slurm 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterjobs.slurm_time import seconds_of
from clusterjobs.spec.policy import Limits, Rule, Selection, SiteRule

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_GLOB = re.compile(r"[*?\[]")

# The key of a spec -> the settings of a partition that allow and forbid its values.
_LISTS = {
    "sbatch.account": ("AllowAccounts", "DenyAccounts"),
    "sbatch.qos": ("AllowQos", "DenyQos"),
}


class Unenforced(NamedTuple):
    """A part of a rule that no setting enforces."""

    rule: SiteRule
    part: str
    reason: str


@dataclass
class Settings:
    """What to set. Limits are by name (`nodes`, `gpu_minutes` ...), the smallest of all rules."""

    everyone: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    users: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    needs_account: bool = False
    needs_time_limit: bool = False
    origins: dict[tuple[str, str], list[SiteRule]] = field(default_factory=dict)
    unenforced: list[Unenforced] = field(default_factory=list)

    def limit(self, kind: str, name: str, limits: Mapping[str, int], rule: SiteRule) -> None:
        """Lower the limits of a queue, a user or a group; of everyone for the name ""."""
        if not limits:
            return
        known = self.everyone if not name else getattr(self, kind).setdefault(name, {})
        for key, value in limits.items():
            known[key] = min(value, known.get(key, value))
        self._note(kind, name, rule)

    def partition(self, name: str, setting: str, value: str, rule: SiteRule) -> str:
        """Set a list of a partition; returns why this is impossible, else ""."""
        known = self.partitions.setdefault(name, {})
        other = {"AllowAccounts": "DenyAccounts", "DenyAccounts": "AllowAccounts"}
        other |= {"AllowQos": "DenyQos", "DenyQos": "AllowQos"}
        if known.get(setting, value) != value:
            return f"partition {name} has {setting}={known[setting]} from another rule"
        if other.get(setting) in known:
            return f"Slurm ignores the Deny list of partition {name}, which has an Allow list"
        known[setting] = value
        self._note("queues", name, rule)
        return ""

    def _note(self, kind: str, name: str, rule: SiteRule) -> None:
        rules = self.origins.setdefault((kind if name else "", name), [])
        if rule not in rules:
            rules.append(rule)


class _Target(NamedTuple):
    """Whom a rule is for: the kind is "queues", "users" or "groups"; () stands for everyone."""

    kind: str
    names: tuple[str, ...]


def settings_of(rules: Iterable[SiteRule], cluster: str | None = None) -> Settings:
    """The settings of one cluster; rules for other clusters are left out."""
    found = Settings()
    for one in rules:
        clusters = one.rule.when.clusters if one.rule.when else ()
        if cluster and clusters and not any(fnmatch.fnmatchcase(cluster, c) for c in clusters):
            continue
        if clusters and not cluster:
            reason = f"it is for the clusters {', '.join(clusters)}: name one with --cluster"
            found.unenforced.append(Unenforced(one, "the rule", reason))
            continue
        for part, reason in _parts(one, found):
            found.unenforced.append(Unenforced(one, part, reason))
    return found


def _parts(one: SiteRule, found: Settings) -> Iterator[tuple[str, str]]:
    """Add the settings of a rule; yields its parts that have none, with the reason."""
    rule = one.rule
    if rule.action == "warn":
        yield "the rule", "Slurm refuses a job or accepts it: it has no warnings"
        return
    target = _target(rule)
    if rule.limits:
        if isinstance(target, str):
            yield "limits", target
        else:
            _add_limits(one, rule.limits, target, found)
    for key in rule.require:
        if reason := _require(key, target, found):
            yield f"require {key}", reason
    for word, keys in (("allow", rule.allow), ("forbid", rule.forbid)):
        for key in keys:
            values = keys[key] if isinstance(keys, Mapping) else None
            if reason := _list(one, word, key, values, target, found):
                yield f"{word} {key}", reason
    if rule.images:
        yield "images", "Slurm does not know the image of a container"
    if rule.preflight is not None:
        yield "preflight", "the preflight is a part of the job's script"


def _target(rule: Rule) -> _Target | str:
    """Whom the rule is for, or why no setting of Slurm is for them."""
    when = rule.when or Selection.model_construct()
    if rule.unless:
        return "a limit of Slurm has no exceptions"
    if when.frameworks:
        return "Slurm does not know the framework of a job"
    asked = {kind: getattr(when, kind) for kind in ("queues", "users", "groups")}
    named = [(kind, names) for kind, names in asked.items() if names and "*" not in names]
    if len(named) > 1:
        return "a limit of Slurm is for a partition, a user or a QOS, not for a pair of them"
    if not named:
        return _Target("", ())
    kind, names = named[0]
    return _bad_names(names) or _Target(kind, names)


def _bad_names(names: Iterable[str]) -> str:
    for name in names:
        if _GLOB.search(name):
            return f"Slurm takes names, not patterns: write each name in place of {name!r}"
        if not NAME.fullmatch(name):
            return f"{name!r} cannot be written as a name in Slurm's files"
    return ""


def _add_limits(one: SiteRule, limits: Limits, target: _Target, found: Settings) -> None:
    wanted = {
        "nodes": limits.nodes,
        "gpus": limits.gpus,
        "gpus_per_node": limits.gpus_per_node,
        "seconds": limits.time and seconds_of(limits.time),
        "gpu_minutes": limits.gpu_hours and int(limits.gpu_hours * 60),
    }
    given = {name: int(value) for name, value in wanted.items() if value is not None}
    for name in target.names or ("",):
        found.limit(target.kind, name, given, one)


def _require(key: str, target: _Target | str, found: Settings) -> str:
    if key not in ("time_limit", "sbatch.account"):
        return _no_setting(key)
    if isinstance(target, str):
        return target
    if target.names:
        return "the setting is for all jobs of the cluster"
    found.needs_time_limit |= key == "time_limit"
    found.needs_account |= key == "sbatch.account"
    return ""


def _list(
    one: SiteRule,
    word: str,
    key: str,
    values: tuple[str, ...] | None,
    target: _Target | str,
    found: Settings,
) -> str:
    """Add a list of a partition; returns why there is none, else ""."""
    if key == "queue" and word == "forbid" and values:
        return _closed_queues(one, values, found)
    if key not in _LISTS or values is None:
        return _no_setting(key)
    if isinstance(target, str):
        return target
    if target.kind != "queues":
        return "only a partition has such a list: add `when: {queues: [...]}`"
    setting = _LISTS[key][word == "forbid"]
    reasons = [
        _bad_names(values) or found.partition(name, setting, ",".join(values), one)
        for name in target.names
    ]
    return next(filter(None, reasons), "")


def _closed_queues(one: SiteRule, queues: tuple[str, ...], found: Settings) -> str:
    """A queue that is forbidden to all but some groups has the setting AllowGroups."""
    when, unless = one.rule.when, one.rule.unless
    if when and when.model_fields_set - {"clusters"}:
        return "a partition has AllowGroups, and no list of groups that are denied"
    if unless is None or unless.model_fields_set != {"groups"}:
        return "a partition allows groups of users (unless: {groups: [...]}), nothing else"
    reasons = [
        _bad_names((*queues, *unless.groups))
        or found.partition(queue, "AllowGroups", ",".join(unless.groups), one)
        for queue in queues
    ]
    return next(filter(None, reasons), "")


def _no_setting(key: str) -> str:
    if key.startswith("sbatch."):
        return f"no setting of Slurm is about --{key.partition('.')[2]}"
    return f"Slurm does not know {key}"
