"""The lines of slurm.conf and the sacctmgr commands that enforce a policy, as text.

It knows how Slurm writes settings; which are needed, `policy_settings.py` says. Only checked names
and numbers reach a line; everything else is in comments, without control characters.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.slurm.policy_settings import Settings
from clusterjobs.slurm_time import slurm_time
from clusterjobs.spec.policy import SiteRule

_HEAD = """\
# What Slurm can enforce of the rules of clusterjobs. Read each line before you use it:
# clusterjobs knows neither your accounts nor the settings that you have.
# Sources: slurm.conf(5), sacctmgr(1), https://slurm.schedmd.com/job_submit_plugins.html"""


def slurm_lines(settings: Settings) -> str:
    """All lines, in the order in which they are used, then what needs a plugin of your own.

    sacctmgr knows no GPUs before slurmctld has tracked them, slurmctld does not start with a QOS
    that does not exist, and without accounts in the database it refuses all jobs.
    """
    parts = {
        "slurm.conf: restart slurmctld with it, so that the database knows GPUs": _tracked(
            settings
        ),
        "sacctmgr, a shell script": _commands(settings),
        "slurm.conf": [*_of_cluster(settings), *_partitions(settings)],
        "no setting of Slurm enforces these": _rest(settings),
    }
    shown = ["\n".join([f"# ---- {head}", *lines]) for head, lines in parts.items() if lines]
    return "\n\n".join([_HEAD, *(shown or ["# There are no rules."])]) + "\n"


# ------------------------------------------------------------------ slurm.conf


def _tracked(settings: Settings) -> list[str]:
    uses_gpus = any("gpu" in name for one in _limits(settings) for name in one)
    return ["AccountingStorageTRES=gres/gpu"] if uses_gpus else []


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
        lines.append(f"sacctmgr -i modify user where {_word(f'name={name}')} set {_all(limits)}")
    for name, limits in settings.groups.items():
        lines += [*_about(settings, "groups", name), *_group(name, limits)]
    return lines


def _group(name: str, limits: Mapping[str, int]) -> Iterator[str]:
    qos = _qos("group", name)
    yield from _new_qos(qos, _all(limits))
    yield "# Slurm's database knows no Unix groups: each member gets the QOS, and no other one."
    yield "# getent does not list those whose primary group it is: add them."
    yield f"for user in $(getent group {_word(name)} | cut -d: -f4 | tr , ' '); do"
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


def _word(text: str) -> str:
    return shlex.quote(text)
