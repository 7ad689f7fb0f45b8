"""Which settings of Slurm enforce the rules of a policy, and which rules have none.

Of several limits Slurm takes one, by precedence: the QOS of the partition, that of the job, the
user's association, the account's, the cluster's. A policy takes the smallest. So limits are
combined here, for each user, account and queue, and Slurm gets one QOS for each combination.

Source: slurm.conf(5), sacctmgr(1), https://slurm.schedmd.com/resource_limits.html, and
slurmctld 22.05, 24.11 and 26.05.
"""

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterjobs.admin.policy_members import NAME, Member
from clusterjobs.clusters.facts import Partition
from clusterjobs.sites.policy import Limits, Rule, Selection, SiteRule
from clusterjobs.slurm.options import seconds_of

_GLOB = re.compile(r"[*?\[]")

# The limits of one job, as a partition's line and a QOS know them. Slurm counts minutes.
Amounts = dict[str, int]  # nodes, minutes, gpus, gpus_per_node, gpu_minutes
OF_PARTITION_LINE = ("nodes", "minutes")


class _Lists(NamedTuple):
    """The settings of a partition that allow and forbid values of a key, and its facts of both."""

    allow: str
    deny: str
    allowed: str
    denied: str


_LISTS = {
    "sbatch.account": _Lists("AllowAccounts", "DenyAccounts", "accounts", "deny_accounts"),
    "sbatch.qos": _Lists("AllowQos", "DenyQos", "qos", "deny_qos"),
}
_PEOPLE = ("users", "groups", "accounts")
NO_MEMBERS = "name the users with --users: Slurm's database knows no Unix groups"


def _lists_of(one: Partition, names: _Lists) -> list[tuple[str, set[str]]]:
    """What a partition allows, or else what it denies: Slurm ignores the other then."""
    allowed, denied = set(getattr(one, names.allowed)), set(getattr(one, names.denied))
    return [("allow", allowed)] if allowed else [("forbid", denied)] if denied else []


class Unenforced(NamedTuple):
    """A part of a rule that no setting enforces."""

    rule: SiteRule
    part: str
    reason: str


class Combined(NamedTuple):
    """The limits of one job that some rules give together. `closed`: no job at all."""

    amounts: Amounts
    rules: tuple[SiteRule, ...]
    closed: bool = False


_NOTHING = Combined({}, ())


@dataclass
class Settings:
    """What to set, each with the rules that it is for."""

    everyone: Combined = field(default_factory=lambda: _NOTHING)
    queues: dict[str, Combined] = field(default_factory=dict)
    members: dict[Member, Combined] = field(default_factory=dict)
    cells: dict[tuple[Member, str], Combined] = field(default_factory=dict)
    totals: dict[tuple[str, str], Combined] = field(default_factory=dict)  # ("accounts", "nlp")
    lists: dict[str, dict[str, str]] = field(default_factory=dict)  # of partitions
    list_rules: dict[str, list[SiteRule]] = field(default_factory=dict)
    needs_account: bool = False
    needs_time_limit: bool = False
    unenforced: list[Unenforced] = field(default_factory=list)

    def partition_qos(self, queue: str) -> Amounts:
        """What the QOS of a partition has. It has precedence, so it includes everyone's limits."""
        of_queue = self.queues.get(queue, _NOTHING).amounts
        own = {key: value for key, value in of_queue.items() if key not in OF_PARTITION_LINE}
        return {
            key: min(value, self.everyone.amounts.get(key, value)) for key, value in own.items()
        }


def settings_of(
    rules: Iterable[SiteRule],
    cluster: str | None = None,
    members: Sequence[Member] = (),
    partitions: Sequence[Partition] = (),
) -> Settings:
    """The settings of one cluster; rules for other clusters are left out.

    `members`: all users; rules for users, groups or accounts need them. `partitions`:
    all of the cluster, if they are known.
    """
    return _Combination(cluster, members, partitions).of(rules)


def needs_cluster(rule: Rule, cluster: str | None) -> str:
    """Why the cluster must be named to export the rule; "" if it need not, or is."""
    names = [name for one in rule.selections for name in one.clusters]
    if not names or cluster:
        return ""
    return f"it is for the clusters {', '.join(names)}: name one with --cluster"


def rule_of(rule: Rule, cluster: str | None) -> Rule | None:
    """The rule for jobs of the cluster, with its exemptions there; None if it is for none there."""
    name = cluster or ""
    if rule.when and rule.when.clusters and not _match(rule.when.clusters, name):
        return None
    left = tuple(one for one in rule.exemptions if not one.clusters or _match(one.clusters, name))
    if any(one.kinds == {"clusters"} for one in left):
        return None
    return rule.model_copy(update={"unless": left})


class _Limit(NamedTuple):
    """What one rule allows one job. `closes`: patterns of queues that it forbids."""

    rule: SiteRule
    amounts: Amounts
    closes: tuple[str, ...] = ()
    opens: tuple[str, ...] = ("*",)

    def closed(self, queue: str) -> bool:
        return _match(self.closes, queue) or not _match(self.opens, queue)


class _Combination:
    """Collects the rules of a policy, and combines those that are for the same jobs."""

    def __init__(
        self, cluster: str | None, members: Sequence[Member], partitions: Sequence[Partition]
    ) -> None:
        self.cluster, self.members = cluster, members
        self.queues = tuple(one.name for one in partitions)
        self.limits: list[_Limit] = []
        self.settings = Settings()
        # What the partitions have already: a new line for a partition replaces it.
        self._lists = {
            (one.name, key): _lists_of(one, names)
            for one in partitions
            for key, names in _LISTS.items()
        }

    def of(self, rules: Iterable[SiteRule]) -> Settings:
        rules = list(rules)
        named = [
            name
            for one in rules
            for selection in one.rule.selections
            for name in selection.queues
            if NAME.fullmatch(name)
        ]
        self.known = bool(self.queues)
        self.queues = tuple(dict.fromkeys([*self.queues, *named]))
        for one in rules:
            for part, reason in self._parts(one):
                self.settings.unenforced.append(Unenforced(one, part, reason))
        self._combine()
        return self.settings

    # -------------------------------------------------------------- rules, one by one

    def _parts(self, one: SiteRule) -> Iterator[tuple[str, str]]:
        """Collect a rule; yields its parts that have no setting, with the reason."""
        if reason := needs_cluster(one.rule, self.cluster):
            yield "the rule", reason
            return
        rule = rule_of(one.rule, self.cluster)
        if rule is None:
            return
        one = one._replace(rule=rule)
        if rule.action == "warn":
            yield "the rule", "Slurm refuses a job or accepts it: it has no warnings"
            return
        if rule.limits:
            yield from self._limits(one, rule.limits)
        for key in rule.require:
            if reason := self._require(key, rule):
                yield f"require {key}", reason
        for word, keys in (("allow", rule.allow), ("forbid", rule.forbid)):
            for key in keys:
                values = keys[key] if isinstance(keys, Mapping) else None
                if reason := self._list(one, word, key, values):
                    yield f"{word} {key}", reason
        if rule.images:
            yield "images", "Slurm does not know the image of a container"
        if rule.preflight is not None:
            yield "preflight", "the preflight is a part of the job's script"

    def _unfit(self, rule: Rule) -> str:
        """Why no setting is for the jobs of this rule; "" if one may be."""
        used = _kinds(rule)
        if "frameworks" in used:
            return "Slurm does not know the framework of a job"
        if used & {*_PEOPLE} and not self.members:
            return NO_MEMBERS
        names = [name for one in rule.selections for name in one.queues]
        if any(_GLOB.search(name) for name in names) and not self.known:
            return "Slurm takes names, not patterns: name the cluster with --cluster"
        if any(one.queues for one in rule.exemptions) and not self.known:
            return "it is for all queues but some: name the cluster with --cluster"
        return _bad_names(name for name in names if not _GLOB.search(name))

    def _limits(self, one: SiteRule, limits: Limits) -> Iterator[tuple[str, str]]:
        reason = self._unfit(one.rule)
        seconds = seconds_of(limits.time) if limits.time else None
        if seconds is not None and seconds < 60:
            yield "time", "Slurm counts minutes"
            seconds = None
        amounts = {
            "nodes": limits.nodes,
            "minutes": seconds // 60 if seconds else None,
            "gpus": limits.gpus,
            "gpus_per_node": limits.gpus_per_node,
            "gpu_minutes": limits.gpu_hours and int(limits.gpu_hours * 60),
        }
        given = {name: int(value) for name, value in amounts.items() if value is not None}
        if given and reason:
            yield "limits", reason
        elif given:
            self.limits.append(_Limit(one, given))
        totals = {"nodes": limits.team_nodes, "gpus": limits.team_gpus}
        total = {name: value for name, value in totals.items() if value is not None}
        if total and (reason := self._total(one, total)):
            yield "the total of a team", reason

    def _total(self, one: SiteRule, total: Amounts) -> str:
        """Add what all jobs of an account, a queue or the cluster may use together."""
        used = _kinds(one.rule)
        if one.rule.exemptions or used - {"accounts", "queues"} or len(used) > 1:
            return "Slurm counts the jobs of an account, of a partition or of the cluster"
        kind = next(iter(used), "")
        if reason := self._unfit(one.rule) if kind == "queues" else "":
            return reason
        patterns = getattr(one.rule.when, kind) if kind else ("",)
        known = self.queues if kind == "queues" else sorted({m.account for m in self.members})
        names = [n for n in patterns if not _GLOB.search(n)]
        names += [n for n in known if kind and _match(patterns, n) and n not in names]
        if not names:
            return NO_MEMBERS
        if reason := _bad_names(name for name in names if name):
            return reason
        for name in names:
            self._add_total((kind, name), one, total)
        return ""

    def _add_total(self, key: tuple[str, str], one: SiteRule, total: Amounts) -> None:
        before = self.settings.totals.get(key, _NOTHING)
        amounts = _smallest([before.amounts, total])
        self.settings.totals[key] = Combined(amounts, (*before.rules, one))

    def _require(self, key: str, rule: Rule) -> str:
        if key not in ("time_limit", "sbatch.account"):
            return _no_setting(key)
        if _kinds(rule):
            return "the setting is for all jobs of the cluster"
        self.settings.needs_time_limit |= key == "time_limit"
        self.settings.needs_account |= key == "sbatch.account"
        return ""

    def _list(self, one: SiteRule, word: str, key: str, values: tuple[str, ...] | None) -> str:
        """Add a list of a partition, or close a queue; returns why that is impossible, else ""."""
        if key == "queue" and values:
            return self._closed_queues(one, word, values)
        if key not in _LISTS or values is None:
            return _no_setting(key)
        if _kinds(one.rule) != {"queues"}:
            return "only a partition has such a list: add `when: {queues: [...]}`"
        if any(_GLOB.search(value) for value in values):
            return "Slurm takes names, not patterns: write each name"
        if reason := self._unfit(one.rule) or _bad_names(values):
            return reason
        reasons = [
            self._add_list(queue, key, word, set(values), one)
            for queue in self.queues
            if _applies(one.rule, queue, None)
        ]
        return next(filter(None, reasons), "")

    def _add_list(self, queue: str, key: str, word: str, values: set[str], one: SiteRule) -> str:
        """Slurm ignores a Deny list beside an Allow list, so the two become one."""
        known = self._lists.setdefault((queue, key), [])
        both = [*known, (word, values)]
        allowed = [names for kind, names in both if kind == "allow"]
        denied = set().union(*(names for kind, names in both if kind == "forbid"))
        left = set.intersection(*allowed) - denied if allowed else denied
        if not left:
            return f"no value is left for partition {queue}: close it, State=INACTIVE"
        known.append((word, values))
        names = _LISTS[key]
        found = self.settings.lists.setdefault(queue, {})
        found.pop(names.deny, None)
        found[names.allow if allowed else names.deny] = ",".join(sorted(left))
        self._note(queue, one)
        return ""

    def _closed_queues(self, one: SiteRule, word: str, queues: tuple[str, ...]) -> str:
        """A queue that is forbidden to all but some groups has the setting AllowGroups."""
        rule = one.rule
        reason = self._unfit(rule)
        simple = word == "forbid" and not (rule.when and rule.when.kinds - {"clusters"})
        groups = tuple(dict.fromkeys(name for one in rule.exemptions for name in one.groups))
        if (
            simple
            and groups
            and all(one.kinds - {"clusters"} == {"groups"} for one in rule.exemptions)
        ):
            names = (*queues, *groups)
            taken = [q for q in queues if "AllowGroups" in self.settings.lists.get(q, {})]
            if not any(_GLOB.search(name) for name in names) and not taken:
                if reason := _bad_names(names):
                    return reason
                for queue in queues:
                    found = self.settings.lists.setdefault(queue, {})
                    found["AllowGroups"] = ",".join(groups)
                    self._note(queue, one)
                return ""
        if reason:
            return reason
        if not self.members:
            return "a partition allows groups of users (unless: {groups: [...]}), nothing else"
        names_all = word == "forbid" and not any(_GLOB.search(name) for name in queues)
        if not (names_all or self.known):
            return "it names no single queues: name the cluster with --cluster"
        limit = _Limit(one, {}, queues) if word == "forbid" else _Limit(one, {}, (), queues)
        self.queues = tuple(
            dict.fromkeys([*self.queues, *(q for q in queues if NAME.fullmatch(q))])
        )
        self.limits.append(limit)
        return ""

    def _note(self, queue: str, one: SiteRule) -> None:
        rules = self.settings.list_rules.setdefault(queue, [])
        if one not in rules:
            rules.append(one)

    # -------------------------------------------------------------- rules, together

    def _combine(self) -> None:
        found = self.settings
        found.everyone = _combined(one for one in self.limits if not _kinds(one.rule.rule))
        for queue in self.queues:
            of_queue = _combined(
                one
                for one in self.limits
                if _kinds(one.rule.rule) == {"queues"} and _applies(one.rule.rule, queue, None)
            )
            if of_queue.amounts:
                found.queues[queue] = of_queue
        self._check_totals()
        for member in self.members:
            self._combine_member(member)

    def _combine_member(self, member: Member) -> None:
        found = self.settings
        applied = [one for one in self.limits if "queues" not in _kinds(one.rule.rule)]
        base = _combined(one for one in applied if _applies(one.rule.rule, "", member))
        if base.amounts or found.totals:  # without a QOS, a job above a total waits for ever
            found.members[member] = base
        for queue in self.queues:
            here = [one for one in self.limits if _applies(one.rule.rule, queue, member)]
            cell = _combined(here, queue)
            of_queue = found.queues.get(queue, _NOTHING)
            line = {k: v for k, v in of_queue.amounts.items() if k in OF_PARTITION_LINE}
            given = {**_smallest([base.amounts, line]), **found.partition_qos(queue)}
            if cell.closed or cell.amounts != given:
                found.cells[member, queue] = cell

    def _check_totals(self) -> None:
        """The QOS of a partition hides totals of accounts and of the cluster in that partition."""
        found = self.settings
        others = {
            name
            for (kind, _), one in found.totals.items()
            if kind != "queues"
            for name in one.amounts
        }
        for key in [key for key in found.totals if key[0] == "queues"]:
            one = found.totals[key]
            for name in others & {*one.amounts}:
                reason = f"Slurm would no longer count the {name} of accounts in partition {key[1]}"
                found.unenforced += [
                    Unenforced(r, "the total of a team", reason) for r in one.rules
                ]
            amounts = {name: v for name, v in one.amounts.items() if name not in others}
            found.totals[key] = one._replace(amounts=amounts)


def _kinds(rule: Rule) -> set[str]:
    """What selects the jobs of a rule: queues, users, groups, accounts, frameworks.

    A list with `*` selects nothing in `when`.
    """
    return {
        kind
        for selection in rule.selections
        for kind in selection.kinds - {"clusters"}
        if not (selection is rule.when and "*" in getattr(selection, kind))
    }


def _applies(rule: Rule, queue: str, member: Member | None) -> bool:
    """Whether the rule is for this user's jobs in this queue; its cluster is this one."""
    if rule.when and not _selects(rule.when, queue, member):
        return False
    return not any(_selects(one, queue, member) for one in rule.exemptions)


def _selects(selection: Selection, queue: str, member: Member | None) -> bool:
    pairs: list[tuple[tuple[str, ...], Iterable[str]]] = [(selection.queues, [queue])]
    if member:
        pairs += [
            (selection.users, [member.user]),
            (selection.groups, member.groups),
            (selection.accounts, [member.account]),
        ]
    elif any(
        patterns and "*" not in patterns
        for patterns in (selection.users, selection.groups, selection.accounts)
    ):
        return False
    return all(
        any(_match(patterns, value) for value in values) for patterns, values in pairs if patterns
    )


def _match(patterns: Iterable[str], value: str) -> bool:
    return any(fnmatch.fnmatchcase(value, one) for one in patterns)


def _combined(limits: Iterable[_Limit], queue: str = "") -> Combined:
    """The smallest of all."""
    limits = list(limits)
    used = [one for one in limits if one.amounts or (queue and one.closed(queue))]
    closed = any(queue and one.closed(queue) for one in limits)
    rules = tuple({one.rule.rule.name: one.rule for one in used}.values())
    return Combined(_smallest(one.amounts for one in limits), rules, closed)


def _smallest(several: Iterable[Mapping[str, int]]) -> Amounts:
    found: Amounts = {}
    for amounts in several:
        for name, value in amounts.items():
            found[name] = min(value, found.get(name, value))
    return found


def _bad_names(names: Iterable[str]) -> str:
    for name in names:
        if not NAME.fullmatch(name):
            return f"{name!r} cannot be written as a name in Slurm's files"
    return ""


def _no_setting(key: str) -> str:
    if key.startswith("sbatch."):
        return f"no setting of Slurm is about --{key.partition('.')[2]}"
    return f"Slurm does not know {key}"
