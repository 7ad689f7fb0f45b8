"""Which settings of Slurm enforce the rules of a policy, and which rules have none.

Source: slurm.conf(5), sacctmgr(1) and job_submit_plugins of Slurm 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterjobs.sites.policy import Limits, Rule, Selection, SiteRule
from clusterjobs.slurm.options import seconds_of, slurm_time

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


# ------------------------------------------------------------------ lines of text
# The lines of slurm.conf and the sacctmgr commands that enforce a policy, as text.
# Only checked names and numbers reach a line; everything else is in comments, without
# control characters.


_HEAD = """\
# What Slurm can enforce of the rules of clusterjobs. Read each line before you use it:
# clusterjobs knows neither your accounts nor the settings that you have.
# Sources: slurm.conf(5), sacctmgr(1), https://slurm.schedmd.com/job_submit_plugins.html"""


def slurm_lines(settings: Settings) -> str:
    """All lines, in the order in which they are used, then what needs a plugin of your own.

    sacctmgr knows no GPUs before slurmctld has tracked them, slurmctld does not start with a QOS
    that does not exist, and without accounts in the database it refuses all jobs.
    """
    uses_gpus = any("gpu" in name for one in _limits(settings) for name in one)
    parts = {
        "slurm.conf: restart slurmctld with it, so that the database knows GPUs": (
            ["AccountingStorageTRES=gres/gpu"] if uses_gpus else []
        ),
        "sacctmgr, a shell script": _commands(settings),
        "slurm.conf": [*_of_cluster(settings), *_partitions(settings)],
        "no setting of Slurm enforces these": _rest(settings),
    }
    shown = ["\n".join([f"# ---- {head}", *lines]) for head, lines in parts.items() if lines]
    return "\n\n".join([_HEAD, *(shown or ["# There are no rules."])]) + "\n"


# ------------------------------------------------------------------ slurm.conf


def _limits(settings: Settings) -> list[Mapping[str, int]]:
    kinds = (settings.queues, settings.users, settings.groups)
    return [settings.everyone, *(limits for kind in kinds for limits in kind.values())]


def _of_cluster(settings: Settings) -> Iterator[str]:
    limits = _limits(settings)
    by_database = [*limits[:1], *settings.users.values(), *settings.groups.values()]
    by_database += [one for one in settings.queues.values() if _tres(one)]
    enforced = ["associations"] if settings.needs_account else []
    if any(by_database):
        enforced = ["associations", "limits", "qos", "safe"]
    if enforced:
        yield f"AccountingStorageEnforce={','.join(enforced)}"
    if settings.needs_account:
        yield "# A job without --account gets its user's DefaultAccount; without one it is refused."
    if settings.needs_time_limit:
        yield "JobSubmitPlugins=require_timelimit"
    if settings.partitions or settings.queues:
        yield "# Without it, a job that its partition does not allow waits."
        yield "EnforcePartLimits=ALL"


def _partitions(settings: Settings) -> Iterator[str]:
    names = [*dict.fromkeys([*settings.partitions, *settings.queues])]
    if names:
        yield "# Add these to the lines of the partitions; each has one line in slurm.conf."
    for name in names:
        limits, values = settings.queues.get(name, {}), dict(settings.partitions.get(name, {}))
        if "nodes" in limits:
            values["MaxNodes"] = str(limits["nodes"])
        if "seconds" in limits:
            values["MaxTime"] = slurm_time(limits["seconds"])
        if _tres(limits):
            values["QOS"] = _qos("partition", name)
        yield from _about(settings, "queues", name)
        shown = " ".join(f"{setting}={value}" for setting, value in values.items())
        yield f"PartitionName={name} {shown}"


# ------------------------------------------------------------------ sacctmgr


def _commands(settings: Settings) -> list[str]:
    lines: list[str] = []
    if settings.everyone:
        lines += _about(settings, "", "")
        lines.append("# A limit set for an account or a user replaces this one.")
        lines.append(f"sacctmgr -i modify cluster set {_all(settings.everyone)}")
    for name, limits in settings.queues.items():
        if tres := _tres(limits):
            lines += [*_about(settings, "queues", name), *_new_qos(_qos("partition", name), tres)]
    for name, limits in settings.users.items():
        lines += _about(settings, "users", name)
        lines.append(
            f"sacctmgr -i modify user where {shlex.quote(f'name={name}')} set {_all(limits)}"
        )
    for name, limits in settings.groups.items():
        lines += [*_about(settings, "groups", name), *_group(name, limits)]
    return lines


def _group(name: str, limits: Mapping[str, int]) -> Iterator[str]:
    qos = _qos("group", name)
    yield from _new_qos(qos, _all(limits))
    yield "# Slurm's database knows no Unix groups: each member gets the QOS, and no other one."
    yield "# getent does not list those whose primary group it is: add them."
    yield f"for user in $(getent group {shlex.quote(name)} | cut -d: -f4 | tr , ' '); do"
    yield f'  sacctmgr -i modify user where name="$user" set qos={qos} defaultqos={qos}'
    yield "done"


def _new_qos(name: str, limits: str) -> Iterator[str]:
    yield f"sacctmgr -i add qos {name}"
    yield f"sacctmgr -i modify qos where name={name} set {limits} Flags=DenyOnLimit"


def _qos(kind: str, name: str) -> str:
    """The database keeps names in lower case."""
    return f"clusterjobs-{kind}-{name.lower()}"


def _all(limits: Mapping[str, int]) -> str:
    nodes = [f"node={limits['nodes']}"] if "nodes" in limits else []
    wall = [f"MaxWall={slurm_time(limits['seconds'])}"] if "seconds" in limits else []
    return " ".join([*filter(None, [_tres(limits, nodes)]), *wall])


def _tres(limits: Mapping[str, int], nodes: Iterable[str] = ()) -> str:
    """The limits that a partition's line cannot hold."""
    per_job = [*nodes, *([f"gres/gpu={limits['gpus']}"] if "gpus" in limits else [])]
    settings = [f"MaxTRESPerJob={','.join(per_job)}"] if per_job else []
    if "gpus_per_node" in limits:
        settings.append(f"MaxTRESPerNode=gres/gpu={limits['gpus_per_node']}")
    if "gpu_minutes" in limits:
        settings.append(f"MaxTRESMinsPerJob=gres/gpu={limits['gpu_minutes']}")
    return " ".join(settings)


# ------------------------------------------------------------------ comments


def _rest(settings: Settings) -> list[str]:
    lines = [
        line
        for one in settings.unenforced
        for line in (_origin(one.rule), _comment(f"  {one.part}: {one.reason}"))
    ]
    head = [
        "# A job_submit plugin of your own can (JobSubmitPlugins=lua): it sees the options of",
        "# sbatch as fields of job_desc, and the job's script as job_desc.script.",
    ]
    return [*head, *dict.fromkeys(lines)] if lines else []


def _about(settings: Settings, kind: str, name: str) -> list[str]:
    return [_origin(rule) for rule in settings.origins.get((kind, name), [])]


def _origin(rule: SiteRule) -> str:
    return _comment(f"{rule.rule.name} ({rule.where.file}:{rule.where.line}): {rule.rule.message}")


def _comment(text: str) -> str:
    """A comment in one line; a backslash at its end would continue a line of slurm.conf."""
    return "# " + "".join(c if c.isprintable() and c != "\\" else "?" for c in text)
