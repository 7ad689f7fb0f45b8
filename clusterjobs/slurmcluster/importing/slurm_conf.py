"""Reads slurm.conf and gres.conf: nodes, partitions, node sets and settings.

It knows their keys and DEFAULT lines (slurm.conf(5), gres.conf(5)). Lines that they include are
given in their place. It must not read files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from clusterjobs.errors import Problem
from clusterjobs.slurmcluster.importing import nodes as fields
from clusterjobs.slurmcluster.importing.hostlist import HostlistError, expand
from clusterjobs.slurmcluster.importing.records import Line, Record, conf_record
from clusterjobs.slurmcluster.importing.seen import Node, Partition, Seen

_EVERY_NODE = "ALL"


class ConfReader:
    """Collects the lines of slurm.conf in their order: DEFAULT lines change those that follow."""

    def __init__(self, problems: list[Problem]) -> None:
        self.nodes: dict[str, Node] = {}
        self.settings: dict[str, str] = {}
        self._partitions: dict[str, tuple[Record, Partition]] = {}
        self._sets: dict[str, Record] = {}
        self._defaults: dict[str, dict[str, str]] = {"nodename": {}, "partitionname": {}}
        self._defined: dict[str, Line] = {}
        self._problems = problems

    def read(self, lines: Iterable[Line]) -> None:
        """Read the lines of slurm.conf, without Include."""
        for line in lines:
            record = conf_record(line)
            head = next(iter(record.values), "")
            if head in self._defaults:
                self._read_head(head, record)
            elif head == "nodeset":
                self._sets[record.values[head]] = record
            elif head:
                self.settings.setdefault(head, line.text.partition("=")[2].strip().strip('"'))

    def _read_head(self, head: str, record: Record) -> None:
        if record.values[head].upper() == "DEFAULT":
            self._defaults[head].update(record.values)
            return
        record = Record({**self._defaults[head], **record.values}, record.line)
        if head == "nodename":
            self._add_nodes(record)
        else:
            name = record.values[head]
            partition = Partition(
                name,
                is_default=(record.get("Default") or "").upper() == "YES",
                state=(record.get("State") or "UP").upper(),
                root_only=(record.get("RootOnly") or "").upper() == "YES",
                max_time=record.get("MaxTime") or "UNLIMITED",
                max_nodes=fields.max_nodes_of(record),
                exclusive=fields.is_exclusive(record),
                allowed=fields.allowed_in(record),
            )
            self._partitions[name] = (record, partition)

    def _add_nodes(self, record: Record) -> None:
        names = self._expand(record, record.values["nodename"])
        one = _node(record)
        for name in names:
            if name in self._defined:
                first = self._defined[name]
                what = f"the node {name[:60]} is also in {first.file}:{first.number}"
                self._problems.append(
                    Problem(what, record.line.where, hint="remove one of the two")
                )
                return
            self._defined[name] = record.line
            self.nodes[name] = dataclasses.replace(one, name=name)

    def _expand(self, record: Record, text: str) -> list[str]:
        try:
            return expand(text)
        except HostlistError as error:
            what = f"{text[:60]} is no list of nodes: {error}"
            where = record.line.at(text[:60])
            self._problems.append(Problem(what, where, hint=fields.HOSTLIST_FORM))
            return []

    def partitions(self) -> dict[str, Partition]:
        """The partitions, once all nodes and node sets are known."""
        return {
            name: dataclasses.replace(one, nodes=self._nodes_of(record, record.get("Nodes") or ""))
            for name, (record, one) in self._partitions.items()
        }

    def _nodes_of(self, record: Record, text: str, depth: int = 0) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for name in self._expand(record, text):
            if name.upper() == _EVERY_NODE:
                found |= dict.fromkeys(self.nodes)
            elif name in self._sets and depth < 9:
                one = self._sets[name]
                found |= dict.fromkeys(self._nodes_of(one, one.get("Nodes") or "", depth + 1))
                wanted = one.get("Feature", "Features")
                found |= dict.fromkeys(
                    node for node, has in self.nodes.items() if wanted in (has.features or ())
                )
            else:
                found[name] = None
        return tuple(found)


def _node(record: Record) -> Node:
    """What a NodeName line says of each of its nodes."""
    threads = record.number("ThreadsPerCore")
    cpus = _cpus(record, threads or 1)
    reserved = _reserved_cpus(record, threads or 1)
    usable = None if cpus is None else max(cpus - reserved, 0) or None
    return Node(
        name="",
        cpus=usable,
        reserved_cpus=reserved if usable else 0,
        threads_per_core=threads or (1 if cpus else None),
        memory_mib=fields.memory_of(record),
        gpus=fields.gpus_in(record),
        features=fields.words(record.get("Feature", "Features")),
        instance_type=record.get("InstanceType") or "",
        temporary_mb=record.number("TmpDisk") or None,
        states=fields.states_of(record.get("State") or ""),
    )


def _cpus(record: Record, threads: int) -> int | None:
    """The CPUs; without CPUs= the product of what is written; None if nothing is."""
    given = record.number("CPUs", "Procs")
    sockets, cores = record.number("Sockets"), record.number("CoresPerSocket")
    boards, per_board = record.number("Boards"), record.number("SocketsPerBoard")
    if given is not None or (sockets, cores, per_board) == (None, None, None):
        return given
    total = sockets if sockets is not None else (boards or 1) * (per_board or 1)
    return total * (cores or 1) * threads


def _reserved_cpus(record: Record, threads: int) -> int:
    """CoreSpecCount counts cores. CpuSpecList names CPUs (`0,16`, `0-3`): all of their cores."""
    listed = record.get("CpuSpecList")
    if listed:
        try:
            return len({int(cpu) // threads for cpu in expand(f"[{listed}]")}) * threads
        except HostlistError as error:
            what = f"CpuSpecList={listed[:40]}: {error}"
            raise record.problem(what, "write it as in CpuSpecList=0-3,16", listed) from None
    return (record.number("CoreSpecCount") or 0) * threads


# ------------------------------------------------------------------ gres.conf


def read_gres_conf(lines: Iterable[Line], seen: Seen, problems: list[Problem]) -> None:
    """Gives the nodes the models of gres.conf: slurm.conf alone has the counts that jobs get."""
    for line in lines:
        record = conf_record(line)
        if record.get("AutoDetect"):
            seen.settings.setdefault("gres.conf autodetect", record.get("AutoDetect") or "")
        model = record.get("Type")
        if record.get("Name") != "gpu" or not model:
            continue
        try:
            named = set(expand(record.get("NodeName") or ""))
        except HostlistError as error:
            what = f"NodeName= of gres.conf: {error}"
            problems.append(Problem(what, line.where, hint=fields.HOSTLIST_FORM))
            continue
        for name, node in seen.nodes.items():
            if node.gpus and not node.gpus[0].type and (name in named or not named):
                seen.nodes[name] = dataclasses.replace(node, model=node.model or model)
