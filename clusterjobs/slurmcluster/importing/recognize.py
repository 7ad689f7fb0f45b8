"""Recognizes what a text is by its content: which command of Slurm printed it, or which file it is.

It knows how each begins. It must not know what the values mean.
"""

from __future__ import annotations

import re
from typing import Literal

from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.slurmcluster.importing.mounts import is_mounts
from clusterjobs.slurmcluster.importing.records import Text

Kind = Literal[
    "scontrol",
    "config",
    "slurm.conf",
    "gres.conf",
    "sinfo",
    "associations",
    "srun help",
    "version",
    "mounts",
    "exports",
]

WANTED = (
    "save the output of scontrol --oneliner show node, scontrol show partition and scontrol show "
    "config; or give slurm.conf"
)


def _rule(kind: Kind, pattern: str, flags: int = re.IGNORECASE) -> tuple[Kind, re.Pattern[str]]:
    return kind, re.compile(pattern, flags | re.MULTILINE)


# The first that fits: slurm.conf has NodeName= and PartitionName=, too.
_RULES = (
    _rule("config", r"^(?:Configuration data as of|SLURM_VERSION\s+= )"),
    _rule("scontrol", r"^[ \t]*NodeName=.*(?:\n(?![ \t]*NodeName=).*){0,9}CPU(?:Tot|Alloc)="),
    _rule(
        "scontrol", r"^[ \t]*PartitionName=.*(?:\n(?!PartitionName=).*){0,12}Total(?:CPUs|Nodes)="
    ),
    _rule("scontrol", r"^[ \t]*NodeName=\S+ Arch="),
    _rule("gres.conf", r"^[ \t]*(?:NodeName=\S+\s+)?(?:Name=\w+|AutoDetect=)"),
    _rule("slurm.conf", r"^[ \t]*(?:NodeName|PartitionName|ClusterName|NodeSet)\s*=\s*\S"),
    _rule("slurm.conf", r"^[ \t]*(?:(?:Slurmctld|Slurmd|SelectType)\w*\s*=|Include\s+\S)"),
    _rule("sinfo", r"^.*\bPARTITION\b.*\b(?:NODELIST|NODES)\b", 0),
    _rule("sinfo", r"^NODELIST\b.*\bPARTITION\b", 0),
    _rule("associations", r"\A\s*.*\bAccount\b.*(?:QOS|Partition|User|Share)"),
    _rule("srun help", r"^Usage: srun\b"),
    _rule("version", r"\A\s*slurm \d+\.\d+\S*\s*\Z"),
    _rule("exports", r"\A(?:[ \t]*(?:#.*)?\n)*/\S*[ \t]+\S+\(.*\)"),
)
# Rows of jobs have a partition and nodes, too.
_OF_JOBS = re.compile(r"^.*\bJOB_?ID\b", re.MULTILINE | re.IGNORECASE)
_ERROR = re.compile(
    r"^(?:\w+: (?:error|fatal): .*|slurm_load_\w+ error: .*|.*(?:command not found|: not found).*"
    r"|Node \S+ not found|sacctmgr: .*)$",
    re.MULTILINE,
)
_LAST_ERROR = re.compile(r"(?:scontrol: |sinfo: |slurm_load_\w+ )(?:error|fatal)")


def kind_of(text: Text) -> Kind:
    """What the text is. Raises InputError, with the reason, for anything else."""
    head = text.text.lstrip()[:1]
    if not head:
        raise _unusable(text, "the file is empty", WANTED)
    if head in "{[":
        hint = "its form differs between versions of Slurm: leave out --json or --yaml"
        raise _unusable(text, "JSON is not read", hint)
    if is_mounts(text.text):
        return "mounts"
    for kind, pattern in _RULES:
        if pattern.search(text.text) and not (kind == "sinfo" and _OF_JOBS.search(text.text)):
            return kind
    if found := _ERROR.search(text.text):
        what = f"the command that wrote this file has failed: {found[0].strip()[:150]}"
        raise _unusable(text, what, "run it again where Slurm answers")
    if _OF_JOBS.search(text.text):
        raise _unusable(text, "this is a list of jobs, not of nodes", WANTED)
    raise _unusable(text, "this is no output of Slurm that can be used", WANTED)


def error_in(text: Text) -> Problem | None:
    """An error that a command printed after a part of its output."""
    for line in text.lines:
        if _LAST_ERROR.match(line.text):
            what = f"the output ends with an error: {line.text.strip()[:150]}"
            return Problem(what, line.where, hint="run the command again where Slurm answers")
    return None


def _unusable(text: Text, what: str, hint: str) -> InputError:
    first = next((line for line in text.lines if line.text.strip()), None)
    where = first.where if first else Location(text.name, 1, 1)
    return InputError([Problem(what, where, hint=hint)])
