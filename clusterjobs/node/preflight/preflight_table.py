"""What the preflight tells: a table of all answers, and which nodes are bad.

`preflight.py`, which lies beside it, loads it while srun starts: the launch does not wait for it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from preflight import Asking, Row

HERE = os.path.dirname(os.path.abspath(__file__))


def unanswered(
    nodes: list[str], asked: list[str], rows: list[Row], asking: Asking
) -> Iterator[tuple[str, str, str]]:
    """Node, check and why, of what has no answer: a node may have ended without one, too."""
    answered = {(row.node, row.check) for row in rows}
    checks = [label(one) for one in asked]
    for node in nodes:
        missing = [check for check in checks if (node, check) not in answered]
        has_ended = node in asking.ended
        if not has_ended and (len(missing) == len(checks) or asking.why is not asking.over):
            missing = ["answers"]
        for check in missing:
            yield node, check, "no answer" if has_ended else asking.why


def label(asked: str) -> str:
    """The check's name in the table, with the folder that it is about."""
    name, _, wanted = asked.partition("=")
    if name in ("mount", "lustre", "folder"):
        return f"{name} {wanted}"
    return f"{name} {wanted.partition(':')[2]}" if name == "space" else name


def in_order(nodes: list[str], checks: list[str], rows: list[Row]) -> list[Row]:
    """As the checks were asked and the nodes are counted, whoever was quickest."""
    asked = [check.partition("=")[0] for check in checks]

    def place(row: Row) -> tuple[int, str, str, int]:
        name = row.check.partition(" ")[0]
        position = asked.index(name) if name in asked else len(asked)
        number = nodes.index(row.node) if row.node in nodes else len(nodes)
        return (position, row.check, row.verdict, number)

    return sorted(rows, key=place)


def print_table(nodes: list[str], rows: list[Row]) -> None:
    """A line for each check and what was seen; nodes that say the same stand together."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        seen = row.seen if row.verdict != "ok" else ""  # nodes in order may differ in numbers
        groups.setdefault((row.verdict, row.check, seen), []).append(row)
    lines = [("", "check", "seen", "wanted", "nodes")]
    for (verdict, check, _), alike in groups.items():
        mark = verdict.upper() if verdict == "bad" else verdict
        where = [row.node for row in alike]
        who = f"all {len(nodes)}" if len(nodes) == len(set(where)) > 1 else hostlist(where)
        lines.append((mark, check, span([row.seen for row in alike]), alike[0].wanted, who))
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    for line in lines:
        print("  ".join(["", *map(str.ljust, line, widths), line[4]]))


def span(seen: list[str]) -> str:
    """`8.1 GiB to 12 GiB`: the least and the most of what nodes have seen."""
    different = sorted(set(seen), key=lambda text: (number(text), text))
    return different[0] if len(different) == 1 else f"{different[0]} to {different[-1]}"


def number(text: str) -> float:
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return 0.0


def hostlist(nodes: list[str]) -> str:
    """Slurm's short form, `train-dy-p4d-[1-3,7]`."""
    unique = ",".join(dict.fromkeys(nodes))
    if "," not in unique:
        return unique
    import subprocess  # where nodes differ, and nobody waits for the training

    try:
        show = ["scontrol", "show", "hostlist", unique]
        return subprocess.check_output(show, timeout=10).decode().strip()
    except (OSError, subprocess.SubprocessError):
        return unique


def causes(batch_host: str, bad: list[Row]) -> list[Row]:
    """Without what follows from a missing mount: what lies below it, the batch host's to all."""
    kinds = [(row, *row.check.partition(" ")[::2]) for row in bad]
    lost = [(row.node, f"{path}/") for row, kind, path in kinds if kind in ("mount", "lustre")]
    return [
        row
        for row, kind, path in kinds
        if kind not in ("folder", "space")
        or not any(node in (row.node, batch_host) and path.startswith(at) for node, at in lost)
    ]


def print_verdict(nodes: list[str], rows: list[Row], seconds: float) -> bool:
    """Whether the preflight has passed."""
    bad = causes(nodes[0], [row for row in rows if row.verdict == "bad"])
    if any(row.verdict == "absent" for row in rows):
        print("clusterjobs: this is a lab: what is absent here is no fault")
    if not bad:
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        print(f"clusterjobs: preflight passed on {count} in {seconds:.1f} s")
        return True
    for what in dict.fromkeys((row.check, row.seen, row.wanted) for row in bad):
        where = [row.node for row in bad if (row.check, row.seen, row.wanted) == what]
        label = "node" if len(where) == 1 else "nodes"
        check, seen, wanted = what
        place = f"{label} {hostlist(where)}"
        print(f"clusterjobs: preflight failed on {place}: {check}: {seen}; wanted: {wanted}")
    culprits = [node for node in nodes if any(row.node == node for row in bad)]
    if 2 * len(culprits) <= len(nodes):
        with open(os.path.join(HERE, "bad_nodes"), "w") as file:
            file.write(hostlist(culprits) + "\n")
    return False
