"""The preflight: asks every node once, prints what they answer, and says which nodes are bad.

    preflight.py NODE... -- CHECK=WANTED... -- SRUN OPTION...

Runs on the batch host. It lets srun run `preflight_node.sh`, which lies beside it, on each node,
reads the answers from srun's output, and waits for no node longer than `seconds=` says.
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
    from typing import Any, Callable, Iterator
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
    folders = [check.partition("=")[2] for check in checks if check.startswith("folder=")]
    tokens = Tokens(folders, nodes)
    try:
        rows = ask_all(nodes, checks, srun, tokens)
    finally:
        tokens.remove()
    told = table()
    rows = told.in_order(nodes, checks, rows)
    told.print_table(nodes, rows)
    return 0 if told.print_verdict(nodes, rows, time.monotonic() - start) else FAILED


def ask_all(nodes: list[str], checks: list[str], srun: list[str], tokens: Tokens) -> list[Row]:
    """What this node finds out by itself, and what all of them answer."""
    wanted = dict(check.partition("=")[::2] for check in checks)
    seconds = float(wanted.get("seconds", 60))
    asked = [one for one in checks if one.partition("=")[0] not in ("seconds", "clock")]
    rows = []
    hanging = tokens.hanging(seconds / 3)
    for folder in hanging:  # nobody could compare it with this node's
        asked.remove(f"folder={folder}")
        why = f"no answer in {seconds / 3:.3g} s: it hangs"
        rows.append(Row(nodes[0], f"folder {folder}", "bad", why, "an answer"))
    if hanging:
        seconds *= 2 / 3
    listener = None
    if "port" in wanted:
        listener, taken = listen(nodes[0])
        if taken:
            asked.remove("port")
        rows += taken
    asking = Asking(len(nodes), seconds, float(wanted.get("clock", "inf")), listener)
    node = ["/bin/bash", "-p", "-c", node_program(), "preflight"]  # -p: no BASH_ENV, no functions
    rows += asking.ask([*srun, *node, tokens.name, f"{seconds:.0f}", *asked])
    missing = table().unanswered(nodes, asked, rows, asking)
    return rows + [Row(node, check, "bad", why, "an answer") for node, check, why in missing]


def node_program() -> str:
    """Of its parts those that are here; it is run by the last."""
    text = ""
    for part in ("hardware", "software", "node"):
        path = os.path.join(HERE, f"preflight_{part}.sh")
        if os.path.exists(path):
            with open(path) as file:
                text += file.read()
    return text


def table() -> Any:
    """The program's other half, from beside it: isolated (-I), Python does not look there."""
    if HERE not in sys.path:
        sys.path.insert(0, HERE)
        sys.dont_write_bytecode = True
    import preflight_table

    return preflight_table


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


class Tokens:
    """A file in each folder, for the nodes to see; in one that is not there or full, there is none.

    A process for each puts it, and removes it and what the nodes have written when this one ends,
    however it ends: whoever asks a dead mount may wait for ever, and cannot even be killed.
    """

    def __init__(self, folders: list[str], nodes: list[str]) -> None:
        self.folders = folders
        self.name = f".clusterjobs-{os.urandom(8).hex()}"
        self.answered: list[int] = []
        self.said, says = os.pipe()
        gone, self.stay = os.pipe()
        for number, folder in enumerate(folders):
            if os.fork() == 0:
                os.close(self.stay)
                keep_token(os.path.join(folder, self.name), nodes, says, gone, bytes([number]))
        os.close(says)
        os.close(gone)

    def hanging(self, seconds: float) -> list[str]:
        """The folders that do not answer within this time."""
        self.answered = self.answers(len(self.folders), seconds)
        return [path for i, path in enumerate(self.folders) if i not in self.answered]

    def remove(self) -> None:
        os.close(self.stay)
        self.answers(len(self.answered), 5)

    def answers(self, count: int, seconds: float) -> list[int]:
        deadline, answered = time.monotonic() + seconds, b""
        while len(answered) < count:
            left = max(0.0, deadline - time.monotonic())
            data = os.read(self.said, 256) if select.select([self.said], [], [], left)[0] else b""
            if not data:
                break
            answered += data
        return list(answered)


def keep_token(file: str, nodes: list[str], says: int, gone: int, answer: bytes) -> None:
    """In a process of its own, which holds nothing open that others wait for."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1)
        os.close(2)
        without_error(make, file)
        os.write(says, answer)
        os.read(gone, 1)
        for name in (file, *(f"{file}.{node}" for node in nodes)):
            without_error(os.remove, name)
        os.write(says, answer)
    finally:
        os._exit(0)


def without_error(act: Callable[[str], object], file: str) -> None:
    try:
        act(file)
    except OSError:  # a node that is asked for it says so, too
        pass


def make(file: str) -> None:
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o666))


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
        self.over = self.why = f"no answer in {seconds:g} s"

    def ask(self, command: list[str]) -> list[Row]:
        """The answers that came in time."""
        self.began = time.time()
        srun, output = started(command)
        try:
            table()  # while srun starts: the launch does not wait for it
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


def started(command: list[str]) -> tuple[int, int]:
    """srun's process, and where its output can be read."""
    output, into = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(into, 1)
            os.execvpe(command[0], command, {**os.environ, "LC_ALL": "C"})  # what it says, is read
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
