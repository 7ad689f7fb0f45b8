"""The lines of slurm.conf and the sacctmgr commands that enforce a policy, as text.

Only checked names and numbers reach a line; everything else is in comments, without control
characters.
"""

import pathlib
import shlex
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.admin.policy_members import Member
from clusterjobs.admin.policy_settings import Amounts, Combined, Settings
from clusterjobs.sites.policy import SiteRule
from clusterjobs.slurm.options import slurm_time

_HEAD = """\
# What Slurm can enforce of the rules of clusterjobs. Read each line before you use it:
# clusterjobs does not see the settings that you have. After a change of the rules, the users
# or their groups, undo this first, and export again.
# Sources: slurm.conf(5), sacctmgr(1), https://slurm.schedmd.com/resource_limits.html"""

_USERS_IN_A_LINE = 50
_UNDO_FILE = pathlib.Path(__file__).with_name("policy_undo.sh")


def slurm_lines(settings: Settings, last_day: str = "") -> str:
    """All lines, in the order in which they are used, then what needs a plugin of your own.

    `last_day`: after it, other rules are in force.

    sacctmgr knows no GPUs before slurmctld has tracked them, slurmctld does not start with a QOS
    that does not exist, and without accounts in the database it refuses all jobs.
    """
    parts = {
        "slurm.conf: restart slurmctld with it, so that the database knows GPUs": (
            ["AccountingStorageTRES=gres/gpu"] if _uses_gpus(settings) else []
        ),
        "sacctmgr, a shell script": _with_undo(list(_commands(settings))),
        "slurm.conf": [*_of_cluster(settings), *_partitions(settings)],
        "no setting of Slurm enforces these": _rest(settings),
    }
    shown = ["\n".join([f"# ---- {head}", *lines]) for head, lines in parts.items() if lines]
    head = f"{_HEAD}\n# Right until {last_day}: then export again." if last_day else _HEAD
    return "\n\n".join([head, *(shown or ["# There are no rules."])]) + "\n"


def _all(settings: Settings) -> list[Combined]:
    kinds = (settings.queues, settings.members, settings.cells, settings.totals)
    return [settings.everyone, *(one for kind in kinds for one in kind.values())]


def _uses_gpus(settings: Settings) -> bool:
    return any("gpu" in name for one in _all(settings) for name in one.amounts)


# ------------------------------------------------------------------ slurm.conf


def _of_cluster(settings: Settings) -> Iterator[str]:
    by_database = [settings.everyone.amounts, settings.members, settings.cells, settings.totals]
    by_database += [settings.partition_qos(queue) for queue in settings.queues]
    enforced = ["associations"] if settings.needs_account else []
    if any(by_database):
        enforced = ["associations", "limits", "qos", "safe"]
    if enforced:
        yield f"AccountingStorageEnforce={','.join(enforced)}"
    if settings.needs_account:
        yield "# A job without --account gets its user's DefaultAccount; without one it is refused."
    if settings.needs_time_limit:
        yield "JobSubmitPlugins=require_timelimit"
    if settings.lists or settings.queues:
        yield "# Without it, a job that its partition does not allow waits."
        yield "EnforcePartLimits=ALL"


def _partitions(settings: Settings) -> Iterator[str]:
    of_totals = [name for kind, name in settings.totals if kind == "queues"]
    names = [*dict.fromkeys([*settings.lists, *settings.queues, *of_totals])]
    if names:
        yield "# Add these to the lines of the partitions; each has one line in slurm.conf."
    for name in names:
        amounts = settings.queues.get(name, settings.everyone._replace(amounts={})).amounts
        values = dict(settings.lists.get(name, {}))
        if "nodes" in amounts:
            values["MaxNodes"] = str(amounts["nodes"])
        if "minutes" in amounts:
            values["MaxTime"] = slurm_time(amounts["minutes"] * 60)
        if _partition_qos(settings, name):
            values["QOS"] = _qos_of(name)
        rules = [*settings.list_rules.get(name, []), *_rules_of_queue(settings, name)]
        yield from _about(rules)
        shown = " ".join(f"{setting}={value}" for setting, value in values.items())
        yield f"PartitionName={name} {shown}"


def _partition_qos(settings: Settings, queue: str) -> str:
    total = settings.totals.get(("queues", queue))
    parts = [_limits(settings.partition_qos(queue)), _total(total.amounts) if total else ""]
    return " ".join(filter(None, parts))


def _rules_of_queue(settings: Settings, queue: str) -> Iterator[SiteRule]:
    for one in (settings.queues.get(queue), settings.totals.get(("queues", queue))):
        yield from one.rules if one else ()


# ------------------------------------------------------------------ sacctmgr


def _with_undo(commands: list[str]) -> list[str]:
    """The commands below a part that writes what undoes them, from what sacctmgr shows."""
    if not commands:
        return []
    touched = dict.fromkeys(one for line in commands for one in _touched(shlex.split(line, True)))
    code = _UNDO_FILE.read_text(encoding="utf-8")
    return [*code.replace("-- TOUCHED", "\n".join(touched)).splitlines(), "", *commands]


def _touched(words: list[str]) -> Iterator[str]:
    """What a command changes, `KIND|NAME|ACCOUNT|PARTITION|`, and how its settings are cleared."""
    if words[2:4] == ["add", "qos"]:
        yield f"qos|{words[4]}|||"
    elif words[2:4] == ["modify", "user"]:
        where = dict(word.split("=", 1) for word in words[5 : words.index("set")])
        for user in where["name"].split(","):
            yield f"user|{user}|{where['account']}|{where.get('partition', '')}|"
    elif words[2:3] == ["modify"] and words[3] in ("cluster", "account"):
        name = words[5].partition("=")[2] if words[3] == "account" else ""
        yield f"{words[3]}|{name}|||{_cleared(words[words.index('set') + 1 :])}"


def _cleared(settings: Iterable[str]) -> str:
    """`MaxTRESPerJob=node=8 MaxWall=1:00:00` without these limits."""
    found = []
    for setting in settings:
        name, _, value = setting.partition("=")
        kinds = [one.partition("=")[0] for one in value.split(",") if "=" in one]
        found.append(f"{name}={','.join(f'{kind}=-1' for kind in kinds) or '-1'}")
    return " ".join(found)


def _commands(settings: Settings) -> Iterator[str]:
    if settings.everyone.amounts:
        yield from _about(settings.everyone.rules)
        yield "# For users without a QOS of these. A job with more waits, and never starts."
        yield f"sacctmgr -i modify cluster set {_limits(settings.everyone.amounts)}"
    for (kind, name), total in settings.totals.items():
        if kind != "queues":
            yield from _about(total.rules)
            whom = f"account where name={name}" if kind else "cluster"
            yield f"sacctmgr -i modify {whom} set {_total(total.amounts)}"
    queues = dict.fromkeys([*settings.queues, *(n for k, n in settings.totals if k == "queues")])
    for queue in queues:
        if limits := _partition_qos(settings, queue):
            yield from _about(_rules_of_queue(settings, queue))
            yield from _new_qos(_qos_of(queue), f"{limits} Flags=DenyOnLimit")
    yield from _qos_of_users(settings)


def _qos_of_users(settings: Settings) -> Iterator[str]:
    """A QOS for each combination of limits, and the users who get it, and no other one."""
    known: set[str] = set()
    for one, members in _same_limits(settings.members.items()):
        name = _name(one.amounts)
        limits = f"{_limits(one.amounts)} Flags=DenyOnLimit".lstrip()
        yield from _about(one.rules)
        yield from _new_qos(name, limits) if name not in known else ()
        known.add(name)
        for where in _where(members):
            yield f"sacctmgr -i modify user where {where} set qos={name} defaultqos={name}"
    cells: dict[str, list[tuple[Member, Combined]]] = {}
    for (member, queue), one in settings.cells.items():
        cells.setdefault(queue, []).append((member, one))
    for queue, of_queue in cells.items():
        for one, members in _same_limits(of_queue):
            yield from _cell(queue, one, members, known)


def _cell(queue: str, one: Combined, members: list[Member], known: set[str]) -> Iterator[str]:
    """Users with their own association for one partition; `add` refuses one that exists."""
    yield from _about(one.rules)
    name, sets = f"{_name(one.amounts)}-over", f"MaxSubmitJobs={0 if one.closed else -1}"
    if one.amounts:
        if name not in known:
            yield from _new_qos(name, f"{_limits(one.amounts)} Flags=DenyOnLimit,OverPartQOS")
        known.add(name)
        sets += f" qos={name} defaultqos={name}"
    for where in _where(members):
        new = where.replace("name=", "", 1)
        yield f"sacctmgr -i add user {new} partition={queue} || true  # it may exist"
        yield f"sacctmgr -i modify user where {where} partition={queue} set {sets}"


def _same_limits(
    several: Iterable[tuple[Member, Combined]],
) -> Iterator[tuple[Combined, list[Member]]]:
    """The members with the same limits from the same rules."""
    found: dict[str, tuple[Combined, list[Member]]] = {}
    for member, one in several:
        key = f"{sorted(one.amounts.items())} {one.closed} {[id(rule.rule) for rule in one.rules]}"
        found.setdefault(key, (one, []))[1].append(member)
    yield from found.values()


def _where(members: Iterable[Member]) -> Iterator[str]:
    """`name=ann,bob account=research`: the users of each account."""
    accounts: dict[str, list[str]] = {}
    for member in members:
        accounts.setdefault(member.account, []).append(member.user)
    for account, users in accounts.items():
        for start in range(0, len(users), _USERS_IN_A_LINE):
            names = ",".join(users[start : start + _USERS_IN_A_LINE])
            yield f"name={names} account={account}"


def _new_qos(name: str, limits: str) -> Iterator[str]:
    yield f"sacctmgr -i add qos {name} || true  # it may exist"
    yield f"sacctmgr -i modify qos where name={name} set {limits}"


def _qos_of(queue: str) -> str:
    """The database keeps names in lower case."""
    return f"clusterjobs-partition-{queue.lower()}"


_SHORT = {"nodes": "n", "minutes": "t", "gpus": "g", "gpus_per_node": "p", "gpu_minutes": "m"}


def _name(amounts: Amounts) -> str:
    """The name says the limits: clusterjobs-n8-t60 has 8 nodes for 60 minutes."""
    return "-".join(["clusterjobs", *(f"{_SHORT[k]}{v}" for k, v in sorted(amounts.items()))])


def _limits(amounts: Mapping[str, int]) -> str:
    per_job = [f"node={amounts['nodes']}"] if "nodes" in amounts else []
    per_job += [f"gres/gpu={amounts['gpus']}"] if "gpus" in amounts else []
    settings = [f"MaxTRESPerJob={','.join(per_job)}"] if per_job else []
    if "gpus_per_node" in amounts:
        settings.append(f"MaxTRESPerNode=gres/gpu={amounts['gpus_per_node']}")
    if "gpu_minutes" in amounts:
        settings.append(f"MaxTRESMinsPerJob=gres/gpu={amounts['gpu_minutes']}")
    if "minutes" in amounts:
        settings.append(f"MaxWall={slurm_time(amounts['minutes'] * 60)}")
    return " ".join(settings)


def _total(amounts: Mapping[str, int]) -> str:
    words = {"nodes": "node", "gpus": "gres/gpu"}
    shown = ",".join(f"{words[name]}={value}" for name, value in amounts.items())
    return f"GrpTRES={shown}" if shown else ""


# ------------------------------------------------------------------ comments


def _rest(settings: Settings) -> list[str]:
    lines = [
        line
        for one in settings.unenforced
        for line in (_origin(one.rule), comment(f"  {one.part}: {one.reason}"))
    ]
    head = [
        "# `clusterjobs policy export --lua` writes a job_submit plugin for those that Slurm sees."
    ]
    return [*head, *dict.fromkeys(lines)] if lines else []


def _about(rules: Iterable[SiteRule]) -> list[str]:
    return list(dict.fromkeys(_origin(rule) for rule in rules))


def _origin(one: SiteRule) -> str:
    rule, where = one
    until = f" Until {rule.until}." if rule.until else ""
    return comment(f"{rule.name} ({where.file}:{where.line}): {rule.message}{until}")


def comment(text: str) -> str:
    """A comment in one line; a backslash at its end would continue a line of slurm.conf."""
    return "# " + "".join(c if c.isprintable() and c != "\\" else "?" for c in text)
