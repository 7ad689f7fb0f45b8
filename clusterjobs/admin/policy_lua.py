"""Writes the rules of a policy as a job_submit plugin of Slurm, in Lua.

The code is in `job_submit.lua`; the rules are added to it as a table. Every text of a rule is a
quoted string there.
"""

import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clusterjobs.admin.policy_settings import Unenforced, needs_cluster, rule_of
from clusterjobs.sites.policy import Limits, Rule, Selection, SiteRule
from clusterjobs.slurm.options import seconds_of

CODE_FILE = pathlib.Path(__file__).with_name("job_submit.lua")

# Keys of a spec -> the field of Slurm's job. What a job has no field for is no directive.
FIELDS = {
    "name": "name",
    "workdir": "work_dir",
    "sbatch.account": "account",
    "sbatch.array": "array_inx",
    "sbatch.burst-buffer": "burst_buffer",
    "sbatch.comment": "comment",
    "sbatch.constraint": "features",
    "sbatch.dependency": "dependency",
    "sbatch.exclude": "exc_nodes",
    "sbatch.extra": "extra",
    "sbatch.licenses": "licenses",
    "sbatch.mail-user": "mail_user",
    "sbatch.network": "network",
    "sbatch.nodelist": "req_nodes",
    "sbatch.prefer": "prefer",
    "sbatch.qos": "qos",
    "sbatch.reservation": "reservation",
    "sbatch.wckey": "wckey",
}
_KEYS = {*FIELDS, "queue", "time_limit"}


def lua_plugin(rules: Iterable[SiteRule], cluster: str | None = None, last_day: str = "") -> str:
    """The plugin of one cluster; rules for other clusters are left out.

    `last_day`: after it, other rules are in force.
    """
    unenforced: list[Unenforced] = []
    shown = [table for one in rules if (table := _rule(one, cluster, unenforced)) is not None]
    lines = [f"-- Right until {last_day}: then export again."] if last_day else []
    lines += [f"local FIELDS = {_lua(FIELDS)}", f"local RULES = {_lua(shown)}"]
    for one in unenforced:
        text = f"{one.rule.rule.name}: {one.part}: {one.reason}"
        lines.append("-- not enforced: " + "".join(c if c.isprintable() else "?" for c in text))
    code = CODE_FILE.read_text(encoding="utf-8")
    return code.replace("-- RULES\n", "\n".join(lines) + "\n")


def _rule(
    one: SiteRule, cluster: str | None, unenforced: list[Unenforced]
) -> dict[str, Any] | None:
    """The rule as a table; None if it is for another cluster, or nothing of it is left."""
    if reason := needs_cluster(one.rule, cluster):
        unenforced.append(Unenforced(one, "the rule", reason))
        return None
    rule = rule_of(one.rule, cluster)
    if rule is None:
        return None
    if any(one.frameworks for one in rule.selections):
        unenforced.append(Unenforced(one, "the rule", "Slurm does not know the framework of a job"))
        return None
    found: dict[str, Any] = {}
    for part, value, reason in _parts(rule):
        if reason:
            unenforced.append(Unenforced(one, part, reason))
        elif isinstance(value, dict):
            found.setdefault(part, {}).update(value)
        else:
            found.setdefault(part, []).append(value)
    if not found:
        return None
    message = f"{rule.message} See {rule.link}" if rule.link else rule.message
    head = {"name": rule.name, "message": message, "action": rule.action}
    selections: dict[str, Any] = {"when": _selection(rule.when)} if rule.when else {}
    selections["unless"] = [_selection(one) for one in rule.exemptions]
    return head | {name: table for name, table in selections.items() if table} | found


def _selection(selection: Selection) -> dict[str, Any]:
    kinds = ("queues", "groups", "users", "accounts")
    return {kind: _patterns(getattr(selection, kind)) for kind in kinds if getattr(selection, kind)}


def _parts(rule: Rule) -> Iterator[tuple[str, Any, str]]:
    """Each part of a rule: its name, its value in the table, or why there is none."""
    for key in rule.require:
        yield "require", key, _no_field(key)
    for key, values in rule.allow.items():
        yield "allow", {key: _patterns(values)}, _no_field(key)
    if isinstance(rule.forbid, Mapping):
        for key, values in rule.forbid.items():
            yield "forbid_values", {key: _patterns(values)}, _no_field(key)
    else:
        for key in rule.forbid:
            yield "forbid", key, _no_field(key)
    if rule.limits:
        yield "limits", _limits(rule.limits), ""
    if rule.images:
        yield "images", None, "Slurm does not know the image of a container"
    if rule.preflight is not None:
        yield "preflight", None, "the preflight is a part of the job's script"


def _no_field(key: str) -> str:
    return "" if key in _KEYS else f"a job of Slurm has no field for {key}"


def _limits(limits: Limits) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: getattr(limits, name)
        for name in ("nodes", "gpus", "gpus_per_node", "team_nodes", "team_gpus")
        if getattr(limits, name) is not None
    }
    if limits.time is not None:
        found["time"] = limits.time
        found["minutes"] = max(1, (seconds_of(limits.time) or 0) // 60)  # Slurm counts minutes
    if limits.gpu_hours is not None:
        found["gpu_minutes"] = limits.gpu_hours * 60
    return found


def _patterns(names: Iterable[str]) -> list[list[str]]:
    """Each name as it is written, and as a pattern of Lua."""
    return [[name, _pattern(name)] for name in names]


def _pattern(name: str) -> str:
    """The pattern of Lua that fits what `fnmatch` fits."""
    found = re.sub(
        r"\[(!?)(\]?[^\]]*)\]|.",
        lambda m: _class(m[1], m[2]) if m[2] is not None else _character(m[0]),
        name,
        flags=re.DOTALL,
    )
    return f"^{found}$"


def _class(negated: str, characters: str) -> str:
    escaped = re.sub(r"[^\w-]", lambda m: f"%{m[0]}", characters)
    return f"[{'^' if negated else ''}{escaped}]"


def _character(one: str) -> str:
    return {"*": ".*", "?": "."}.get(one) or re.sub(r"[^\w]", lambda m: f"%{m[0]}", one, flags=re.A)


def _lua(value: Any, indent: str = "") -> str:
    """A value as Lua's text: nested tables in lines of their own."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, str):
        return _string(value)
    inner = indent + "   "
    if isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            return "{ " + ", ".join(_string(one) for one in value) + " }"
        rows = [f"{inner}{_lua(one, inner)}," for one in value]
    else:
        rows = [f"{inner}[{_string(key)}] = {_lua(one, inner)}," for key, one in value.items()]
    return "{\n" + "\n".join(rows) + f"\n{indent}}}" if rows else "{}"


def _string(text: str) -> str:
    """A quoted string; bytes outside of ASCII as decimal escapes."""
    shown = []
    for byte in text.encode():
        character = chr(byte)
        plain = 32 <= byte < 127 and character not in '"\\'
        shown.append(character if plain else f"\\{byte:03}")
    return '"' + "".join(shown) + '"'
