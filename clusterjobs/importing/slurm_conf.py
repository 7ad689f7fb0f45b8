"""Reads slurm.conf and gres.conf, and the tables of sinfo and `sacctmgr show assoc`.

The files are described in slurm.conf(5) and gres.conf(5). Lines that they include are given in
their place.
"""

import dataclasses
import re
from collections.abc import Iterable

from clusterjobs.errors import Problem, one_problem
from clusterjobs.importing import nodes as fields
from clusterjobs.importing.nodes import (
    GRES_FORM,
    HOSTLIST_FORM,
    Node,
    Partition,
    Seen,
    add_nodes,
    split_list,
    states_of,
)
from clusterjobs.importing.records import (
    HostlistError,
    Line,
    Record,
    Text,
    conf_record,
    expand,
    gpus_of,
)
from clusterjobs.slurm.values import parameter_name, wrong_conf_value

_EVERY_NODE = "ALL"
_LEVELS = {"nodename": "node", "partitionname": "partition"}


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
            self._check(head, record)
            if head in self._defaults:
                self._read_head(head, record)
            elif head == "nodeset":
                self._sets[record.values[head]] = record
            elif head:
                self.settings.setdefault(head, line.text.partition("=")[2].strip().strip('"'))

    def _check(self, head: str, record: Record) -> None:
        """Add a warning for each value that Slurm refuses."""
        level = _LEVELS.get(head, "cluster")
        for key, value in record.values.items():
            name = parameter_name(level, key)
            if name and (wrong := wrong_conf_value(level, name, value)):
                what, where = f"{name}: {wrong.what}", record.line.at(value)
                self._problems.append(Problem(what, where, hint=wrong.hint, warning=True))

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
                **fields.defaults_in(record),
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
        found: dict[str, Partition] = {}
        total = 0
        for name, (record, one) in self._partitions.items():
            found[name] = dataclasses.replace(
                one, nodes=self._nodes_of(record, record.get("Nodes") or "")
            )
            total = add_nodes(total, found[name], record)
        return found

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
        features=fields.split_list(record.get("Feature", "Features")),
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


# ------------------------------------------------------------------ sinfo


# sinfo(1), --format and --long: the headers of columns that say something of nodes
_FEATURES = ("AVAIL_FEATURES", "FEATURES", "ACTIVE_FEATURES")
_NOTHING = ("(null)", "N/A", "none", "")


def read_sinfo(text: Text, seen: Seen) -> None:
    """Adds the nodes and partitions of sinfo. Raises InputError for rows that do not fit."""
    header: list[str] = []
    for line in text.lines:
        cells = line.text.split()
        if "PARTITION" in cells and {"NODELIST", "NODES"} & set(map(_plain, cells)):
            header = list(map(_plain, cells))
        elif cells and header:
            _read_row(dict(zip(header, cells, strict=False)), cells, header, line, seen)


def _plain(cell: str) -> str:
    return "NODELIST" if cell.startswith("NODELIST") else cell


def _read_row(
    row: dict[str, str], cells: list[str], header: list[str], line: Line, seen: Seen
) -> None:
    if len(cells) < len(header) and (header[-1] == "REASON" or row.get("NODES") == "0"):
        header = header[:-1]  # a partition without nodes has no NODELIST
    if len(cells) < len(header):
        what = f"the row has {len(cells)} of {len(header)} columns"
        hint = "is the text cut off? scontrol --oneliner show node says more"
        raise one_problem(what, line.where, hint=hint)
    partition = row.get("PARTITION", "")
    name = partition.rstrip("*")
    names = _names(row, name, line)
    old = seen.partitions.get(name) or Partition(
        name,
        (),
        max_time=row.get("TIMELIMIT"),
        is_default=partition.endswith("*"),
        state=row.get("AVAIL", "up").upper(),
        limits_known="TIMELIMIT" in row,
    )
    if old.total_nodes and "NODELIST" not in row:
        return  # scontrol has the names
    merged = tuple(dict.fromkeys((*(old.nodes or ()), *names)))
    seen.partitions[name] = dataclasses.replace(old, nodes=merged)
    one = _sinfo_node(row, line)
    for node in names:
        new = dataclasses.replace(one, name=node)
        seen.nodes[node] = seen.nodes[node].filled_from(new) if node in seen.nodes else new


def _names(row: dict[str, str], partition: str, line: Line) -> list[str]:
    """The nodes of a row; made up where it has only their number."""
    try:
        if "NODELIST" in row or row["NODES"] == "0":
            return expand(row.get("NODELIST", ""))
        return expand(f"{partition}-line{line.number}-[1-{int(row['NODES'])}]")
    except HostlistError as error:
        raise one_problem(f"NODELIST: {error}", line.where, hint=HOSTLIST_FORM) from None
    except ValueError:
        what = f"NODES {row['NODES'][:20]} is not a number"
        hint = "use sinfo --Node --long, or scontrol --oneliner show node"
        raise one_problem(what, line.where, hint=hint) from None


def _sinfo_node(row: dict[str, str], line: Line) -> Node:
    features = next((row[key] for key in _FEATURES if key in row), None)
    shape = re.fullmatch(r"(\d+)\+?:(\d+)\+?:(\d+)\+?", row.get("S:C:T", ""), re.ASCII)
    try:
        gpus = gpus_of(row["GRES"]) if "GRES" in row else None
    except ValueError as error:
        raise one_problem(str(error), line.where, hint=GRES_FORM) from None
    return Node(
        name="",
        cpus=_number(row.get("CPUS")),
        threads_per_core=int(shape[3]) if shape else None,
        memory_mib=_number(row.get("MEMORY")),
        gpus=gpus,
        features=None if features is None else split_list("" if features in _NOTHING else features),
        temporary_mb=_number(row.get("TMP_DISK")),
        states=states_of(row.get("STATE", "")),
    )


def _number(text: str | None) -> int | None:
    """`64`, and `64+` for the smallest of several."""
    found = re.fullmatch(r"(\d{1,12})\+?", text or "", re.ASCII)
    return (int(found[1]) or None) if found else None


# ------------------------------------------------------------------ sacctmgr


def read_associations(text: Text, seen: Seen) -> None:
    """The accounts and QOS of `sacctmgr show assoc`, with --parsable2 and without."""
    lines = [line.text for line in text.lines if line.text.strip()]
    if not lines:
        return
    if "|" in lines[0]:
        rows = [line.strip("|").split("|") for line in lines]
    else:
        marks = next((line for line in lines if set(line) <= set("- ")), "")
        spans = [found.span() for found in re.finditer(r"-+", marks)]
        rows = [[line[start:end].strip() for start, end in spans] for line in lines]
        rows = [row for row in rows if row and set("".join(row)) - set("-")]
    header = [cell.strip().upper() for cell in rows[0]] if rows else []
    table = [dict(zip(header, row, strict=False)) for row in rows[1:]]
    seen.accounts = _distinct(row.get("ACCOUNT", "") for row in table)
    columns = ("DEF QOS", "DEFAULTQOS", "QOS")
    seen.qos = _distinct(
        one for row in table for key in columns for one in split_list(row.get(key))
    )


def _distinct(names: object) -> tuple[str, ...]:
    found = [str(name).strip() for name in names]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(name for name in found if name and not name.endswith("+")))
