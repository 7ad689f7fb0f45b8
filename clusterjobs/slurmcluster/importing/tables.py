"""Reads tables that Slurm's commands print for people: sinfo and `sacctmgr show assoc`.

It knows their headers. It must not know how nodes are grouped.
"""

from __future__ import annotations

import dataclasses
import re

from clusterjobs.errors import one_problem
from clusterjobs.slurmcluster.importing.gres import gpus_of
from clusterjobs.slurmcluster.importing.hostlist import HostlistError, expand
from clusterjobs.slurmcluster.importing.nodes import GRES_FORM, HOSTLIST_FORM, states_of, words
from clusterjobs.slurmcluster.importing.records import Line, Text
from clusterjobs.slurmcluster.importing.seen import Node, Partition, Seen

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
    merged = tuple(dict.fromkeys((*(old.nodes or ()), *names)))
    seen.partitions[name] = dataclasses.replace(old, nodes=merged)
    one = _node(row, line)
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


def _node(row: dict[str, str], line: Line) -> Node:
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
        features=None if features is None else words("" if features in _NOTHING else features),
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
    seen.qos = _distinct(one for row in table for key in columns for one in words(row.get(key)))


def _distinct(names: object) -> tuple[str, ...]:
    found = [str(name).strip() for name in names]  # type: ignore[attr-defined]
    return tuple(dict.fromkeys(name for name in found if name and not name.endswith("+")))
