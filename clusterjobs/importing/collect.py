"""Reads all texts of a cluster into one record of what they say.

Slurm's answers count before its files, and files before tables for people.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from clusterjobs.errors import InputError, Location, Problem, in_order, one_problem
from clusterjobs.importing.nodes import Node, Partition, Seen, add_nodes, node_of, partition_of
from clusterjobs.importing.probe import exported_folders, is_mounts, shared_folders
from clusterjobs.importing.records import Line, Record, Text, conf_lines, scontrol_records
from clusterjobs.importing.slurm_conf import (
    ConfReader,
    read_associations,
    read_gres_conf,
    read_sinfo,
)

# ------------------------------------------------------------------ the kind of a text

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


# Reads a file that slurm.conf includes, named there and wanted by a line.
Include = Callable[[str, Line], Text]
_MAX_DEPTH = 10


class Given(NamedTuple):
    """A text, and what it is."""

    text: Text
    kind: Kind


def given(text: Text) -> Given:
    """The text with its kind. Raises InputError if it is none that can be used."""
    return Given(text, kind_of(text))


def collect(texts: Sequence[Given], include: Include) -> Seen:
    """What all texts say together. Raises InputError with all problems."""
    problems: list[Problem] = []
    seen = Seen()
    conf = ConfReader(problems)
    for text, kind in texts:
        try:
            if kind == "slurm.conf":
                conf.read(included_lines(text, include))
            elif kind != "gres.conf":
                _READERS[kind](text, seen)
            if kind in ("scontrol", "sinfo") and (error := error_in(text)):
                problems.append(error)
        except InputError as error:
            problems += error.problems
    _add_conf(conf, seen, problems)
    for text, kind in texts:
        if kind == "gres.conf":
            read_gres_conf(conf_lines(text), seen, problems)
    if errors := [one for one in problems if not one.warning]:
        raise InputError(in_order(errors))
    seen.warnings = in_order(problems)
    if not seen.nodes and not seen.partitions:
        raise one_problem("no text says which nodes and partitions there are", hint=WANTED)
    return seen


def _add_conf(conf: ConfReader, seen: Seen, problems: list[Problem]) -> None:
    try:
        for name, node in conf.nodes.items():
            seen.nodes[name] = seen.nodes[name].filled_from(node) if name in seen.nodes else node
        for name, partition in conf.partitions().items():
            seen.partitions.setdefault(name, partition)
    except InputError as error:
        problems += error.problems
    seen.settings = {**conf.settings, **seen.settings}


def included_lines(text: Text, include: Include, above: tuple[str, ...] = ()) -> Iterator[Line]:
    """The lines of slurm.conf, with those of the files that it includes in their place."""
    for line in conf_lines(text):
        key, _, name = line.text.partition(" ")
        if key.lower() != "include":
            yield line
            continue
        other = include(name.strip().strip('"'), line)
        if other.name == text.name or other.name in above or len(above) >= _MAX_DEPTH:
            raise one_problem(f"{other.name} includes itself", line.where, hint="remove the line")
        yield from included_lines(other, include, (*above, text.name))


# ------------------------------------------------------------------ one reader per kind


def _read_scontrol(text: Text, seen: Seen) -> None:
    problems: list[Problem] = []
    for record in scontrol_records(text, "nodename"):
        try:
            _add_node(node_of(record), record, seen)
        except InputError as error:
            problems += error.problems
    total = 0
    for record in scontrol_records(text, "partitionname"):
        try:
            partition = partition_of(record)
            total = add_nodes(total, partition, record)
            seen.partitions[partition.name] = partition
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)


def _add_node(node: Node, record: Record, seen: Seen) -> None:
    old, before = seen.nodes.get(node.name), seen.read_at.get(node.name)
    values = (node.cpus, node.memory_mib, node.gpus)
    if old and before and (old.cpus, old.memory_mib, old.gpus) != values:
        what = f"the node {node.name} has other values in {before.file}:{before.number}"
        raise record.problem(what, "give the texts of one cluster at a time")
    seen.read_at[node.name] = record.line
    seen.nodes[node.name] = node.filled_from(old) if old else node


def _read_config(text: Text, seen: Seen) -> None:
    for line in text.lines:
        key, equals, value = line.text.partition("=")
        if equals and value.strip() not in ("(null)", ""):
            seen.settings.setdefault(key.strip().lower(), value.strip())


def _read_srun_help(text: Text, seen: Seen) -> None:
    seen.has_pyxis = "--container-image" in text.text


def _read_version(text: Text, seen: Seen) -> None:
    seen.settings["slurm_version"] = text.text.split()[-1]


def _read_mounts(text: Text, seen: Seen) -> None:
    seen.mounts = {**(seen.mounts or {}), **shared_folders(text)}


def _read_exports(text: Text, seen: Seen) -> None:
    seen.exports |= exported_folders(text)


_READERS: dict[Kind, Callable[[Text, Seen], None]] = {
    "scontrol": _read_scontrol,
    "config": _read_config,
    "sinfo": read_sinfo,
    "associations": read_associations,
    "srun help": _read_srun_help,
    "version": _read_version,
    "mounts": _read_mounts,
    "exports": _read_exports,
}


# ------------------------------------------------------------------ partitions and their nodes


def partitions_with_nodes(seen: Seen) -> dict[str, Partition]:
    """All partitions: those that only nodes name have no limits that are known."""
    found = dict(seen.partitions)
    for node in seen.nodes.values():
        for name in node.partitions:
            found.setdefault(name, Partition(name, limits_known=False))
    return found
