"""The preflight: asks every node once, prints what they answer, and says which nodes are bad.

    preflight.py NODE... -- CHECK=WANTED... -- SRUN OPTION...

Runs on the batch host. It starts srun with `preflight_node.py`, which lies beside it, as standard
input, reads the answers from srun's output, and waits for no node longer than `seconds=` says.
The exit code is 0, or `FAILED`; then the file `bad_nodes` beside this program names those nodes,
unless they are so many that the fault is hardly theirs.
"""

from __future__ import annotations

import _socket
import os
import select
import sys
import time
from collections import namedtuple

# Until srun has started, the launch waits for this program: of the standard library it takes the
# halves that are written in C, and forks by itself (subprocess alone takes as long as the rest).
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, Iterator
else:
    import _signal as signal

FAILED = 69  # EX_UNAVAILABLE of sysexits.h: not a training's usual code, nor a shell's
HERE = os.path.dirname(os.path.abspath(__file__))


# One answer. `verdict`: ok, bad, absent (what a lab lacks, and no fault there).
Row = namedtuple("Row", "node check verdict seen wanted")


def main(words: list[str]) -> int:
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + 15))  # and srun ends, too
    first, second = (i for i, word in enumerate(words) if word == "--")
    nodes, checks, srun = words[:first], words[first + 1 : second], words[second + 1 :]
    wanted = dict(check.partition("=")[::2] for check in checks)
    seconds = float(wanted.get("seconds", 60))
    token = f".clusterjobs-{os.urandom(8).hex()}"
    # A node ends by itself before it is given up here, and says which check has hung.
    own = [f"token={token}", f"seconds={seconds * 2 / 3:g}"]
    asked = [one for one in checks if one.partition("=")[0] not in ("seconds", "clock")]
    listener, rows = listen(nodes[0]) if "port" in wanted else (None, [])
    if listener is None and "port" in wanted:
        asked.remove("port")
    asking = Asking(len(nodes), seconds, float(wanted.get("clock", "inf")), listener)
    folders = [check.partition("=")[2] for check in checks if check.startswith("folder=")]
    try:
        put_tokens(folders, token)
        rows += asking.ask([*srun, sys.executable, "-IS", "-", *own, *asked])
    finally:
        remove_tokens(folders, token)
    rows = in_order(nodes, checks, rows + asking.silent(nodes))
    print_table(nodes, rows)
    return print_verdict(nodes, rows, time.monotonic() - start)


def listen(master: str) -> tuple[_socket.socket | None, list[Row]]:
    """On MASTER_PORT, as the training will: is it free? And the nodes are to call it."""
    port = int(os.environ["MASTER_PORT"])
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("0.0.0.0", port))
        listener.listen(1024)
    except OSError as error:
        return None, [Row(master, "port", "bad", f"{port}: {error.strerror}", "a free port")]
    return listener, []


def put_tokens(folders: list[str], token: str) -> None:
    """A file in each folder, for the nodes to see. Where it cannot be, this node says so too."""
    for folder in folders:
        try:
            os.close(os.open(os.path.join(folder, token), os.O_CREAT | os.O_WRONLY, 0o666))
        except OSError:
            pass


def remove_tokens(folders: list[str], token: str) -> None:
    for folder in folders:
        try:
            os.remove(os.path.join(folder, token))
        except OSError:
            pass


# ------------------------------------------------------------------ asking


class Asking:
    """One srun and what it printed: `ended` are the nodes that have answered everything."""

    def __init__(
        self, count: int, seconds: float, tolerance: float, listener: _socket.socket | None
    ) -> None:
        self.count, self.seconds, self.tolerance = count, seconds, tolerance
        self.listener = listener
        self.callers: list[int] = []
        self.ended: list[str] = []
        self.why = f"no answer in {seconds:g} s"

    def ask(self, command: list[str]) -> list[Row]:
        """The answers that came in time."""
        self.began = time.time()
        srun, output = started(command)
        try:
            return [row for line in self.lines(output) for row in self.rows(line)]
        finally:  # a step whose tasks have ended goes by itself: nobody has to wait for it
            if len(self.ended) < self.count:
                stop(srun)

    def lines(self, output: int) -> Iterator[str]:
        """What srun prints, until all nodes have answered, it ends, or the time is over."""
        deadline, pending = time.monotonic() + self.seconds, b""
        while len(self.ended) < self.count:
            sources: list[Any] = [output, self.listener] if self.listener else [output]
            ready = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))[0]
            if self.listener in ready and self.listener is not None:
                self.hold(self.listener._accept()[0])  # type: ignore[attr-defined]
            if output in ready:
                data = os.read(output, 65536)
                if not data:
                    self.why = "srun ended without its answer"
                    return
                *whole, pending = (pending + data).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")
            if not ready:
                return

    def hold(self, caller: int) -> None:
        """The caller hangs up first, so that no TIME_WAIT is left on this port."""
        self.callers.append(caller)
        for old in self.callers[:-100]:
            os.close(old)
        self.callers[:-100] = []

    def rows(self, line: str) -> list[Row]:
        """A node's line as a row; what else a node printed is passed on."""
        fields = line.split("\t")
        if fields[0] != "preflight" or len(fields) != 6:
            print(line)
            return []
        row = Row(*fields[1:])
        if row.verdict == "end":
            self.ended.append(row.node)
            return []
        if row.verdict == "at":
            return [self.clock(row)] if self.tolerance < float("inf") else []
        return [row]

    def clock(self, row: Row) -> Row:
        """The node read its clock after srun began and before its line came: no guess in it."""
        ahead, behind = float(row.seen) - time.time(), self.began - float(row.seen)
        wanted = f"within {self.tolerance:g} s"
        if max(ahead, behind) <= self.tolerance:
            return row._replace(verdict="ok", seen=wanted, wanted=wanted)
        seen = f"{ahead:.0f} s ahead" if ahead > 0 else f"{behind:.0f} s behind"
        return row._replace(verdict="bad", seen=seen, wanted=wanted)

    def silent(self, nodes: list[str]) -> list[Row]:
        """A row for each node that has not answered to the end."""
        quiet = [node for node in nodes if node not in self.ended]
        return [Row(node, "answers", "bad", self.why, "an answer") for node in quiet]


def started(command: list[str]) -> tuple[int, int]:
    """srun's process, with the node's program as its input, and where its output can be read."""
    output, into = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            os.dup2(os.open(os.path.join(HERE, "preflight_node.py"), os.O_RDONLY), 0)
            os.dup2(into, 1)
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"clusterjobs: {command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    os.close(into)
    return process, output


def stop(srun: int) -> None:
    """With SIGTERM if it obeys: a task in a dead mount may never end."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 5
        try:
            os.kill(srun, end)
            while time.monotonic() < deadline:
                if os.waitpid(srun, os.WNOHANG)[0]:
                    return
                time.sleep(0.02)
        except OSError:  # it has ended
            return


# ------------------------------------------------------------------ telling


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


def print_verdict(nodes: list[str], rows: list[Row], seconds: float) -> int:
    bad = causes(nodes[0], [row for row in rows if row.verdict == "bad"])
    if any(row.verdict == "absent" for row in rows):
        print("clusterjobs: this is a lab: what is absent here is no fault")
    if not bad:
        count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
        print(f"clusterjobs: preflight passed on {count} in {seconds:.1f} s")
        return 0
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
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
