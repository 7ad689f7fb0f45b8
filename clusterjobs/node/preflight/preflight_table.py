"""The preflight's results as a table and a verdict; it knows nothing of how they are obtained."""

from __future__ import annotations

import subprocess
from typing import NamedTuple


class Row(NamedTuple):
    """One result. `verdict`: ok, bad, warn, or absent (hardware that a lab lacks)."""

    node: str
    check: str
    verdict: str
    seen: str
    wanted: str


def missing_rows(
    nodes: list[str], checks: list[str], rows: list[Row], finished: list[str], why: str
) -> list[Row]:
    """A bad row for each check without a result; of a node without any, one row for all."""
    reported = {(row.node, row.check) for row in rows}
    labels = [check_label(check) for check in checks]
    found = []
    for node in nodes:
        missing = [label for label in labels if (node, label) not in reported]
        has_finished = node in finished
        if not has_finished and (len(missing) == len(labels) or why.startswith("srun")):
            missing = ["answers"]
        seen = "no answer" if has_finished else why
        found += [Row(node, label, "bad", seen, "an answer") for label in missing]
    return found


def check_label(check: str) -> str:
    """The name of a check in the table, with its folder: `space=10:/fsx` is `space /fsx`."""
    name, _, wanted = check.partition("=")
    if name in ("mount", "lustre", "folder"):
        return f"{name} {wanted}"
    return f"{name} {wanted.partition(':')[2]}" if name == "space" else name


def in_order(nodes: list[str], checks: list[str], rows: list[Row]) -> list[Row]:
    """In the order of the checks and the nodes, whichever node was fastest."""
    names = [check.partition("=")[0] for check in checks]

    def position(row: Row) -> tuple[int, str, str, int]:
        name = row.check.partition(" ")[0]
        number = names.index(name) if name in names else len(names)
        node = nodes.index(row.node) if row.node in nodes else len(nodes)
        return (number, row.check, row.verdict, node)

    return sorted(rows, key=position)


def print_table(nodes: list[str], rows: list[Row]) -> None:
    """A line per check and result; nodes with the same result share one."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        seen = row.seen if row.verdict != "ok" else ""  # numbers of good nodes may differ
        groups.setdefault((row.verdict, row.check, seen), []).append(row)
    lines = [("", "check", "seen", "wanted", "nodes")]
    for (verdict, check, _), group in groups.items():
        mark = verdict.upper() if verdict == "bad" else verdict
        where = [row.node for row in group]
        who = f"all {len(nodes)}" if len(nodes) == len(set(where)) > 1 else hostlist(where)
        lines.append((mark, check, _range([row.seen for row in group]), group[0].wanted, who))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print("  ".join(["", *map(str.ljust, line, widths), line[4]]))


def _range(values: list[str]) -> str:
    """`8.1 GiB to 12 GiB`: the smallest and the largest."""
    different = sorted(set(values), key=lambda text: (_number(text), text))
    return different[0] if len(different) == 1 else f"{different[0]} to {different[-1]}"


def _number(text: str) -> float:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def hostlist(nodes: list[str]) -> str:
    """Slurm's short form, `train-dy-p4d-[1-3,7]`."""
    unique = ",".join(dict.fromkeys(nodes))
    if "," not in unique:
        return unique
    try:
        command = ["scontrol", "show", "hostlist", unique]
        return subprocess.check_output(command, timeout=10).decode().strip()
    except (OSError, subprocess.SubprocessError):
        return unique


def root_causes(batch_host: str, rows: list[Row]) -> list[Row]:
    """The bad rows without those that follow from a missing mount.

    What is below a mount that the batch host lacks fails on every node.
    """
    bad = [(row, *row.check.partition(" ")[::2]) for row in rows if row.verdict == "bad"]
    lost = [(row.node, f"{path}/") for row, kind, path in bad if kind in ("mount", "lustre")]
    return [
        row
        for row, kind, path in bad
        if kind not in ("folder", "space")
        or not any(node in (row.node, batch_host) and path.startswith(at) for node, at in lost)
    ]


def print_verdict(nodes: list[str], rows: list[Row], bad: list[Row], seconds: float) -> None:
    """One line per fault with its nodes, or one line that says that all is well."""
    if any(row.verdict == "absent" for row in rows):
        print("clusterjobs: this is a lab: absent hardware is no fault")
    if not bad:
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        print(f"clusterjobs: preflight passed on {count} in {seconds:.1f} s")
    _print_faults("warns of", [row for row in rows if row.verdict == "warn"])
    _print_faults("failed on", bad)


def _print_faults(verb: str, rows: list[Row]) -> None:
    faults: dict[tuple[str, str, str], list[str]] = {}
    for row in rows:
        faults.setdefault((row.check, row.seen, row.wanted), []).append(row.node)
    for (check, seen, wanted), where in faults.items():
        who = f"{'node' if len(where) == 1 else 'nodes'} {hostlist(where)}"
        print(f"clusterjobs: preflight {verb} {who}: {check}: {seen}; wanted: {wanted}")
