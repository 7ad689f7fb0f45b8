"""Check every node with one srun, print the results, and list the bad nodes.

    python3 -BEsS preflight.py NODE... -- CHECK=WANTED... -- SRUN OPTION...

Runs on the batch host. srun runs `preflight_node.sh` on every node; a node that has not reported
within `seconds=` is bad. Exits with 0 or `FAILED`. The bad nodes are written to the file
`bad_nodes` beside this program, unless they are so many that the nodes are probably not at fault.

-E, -s and -S keep the job's PYTHONPATH and all site-packages out, which may be on a dead mount.
"""

from __future__ import annotations

import collections
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import IO, Any, Iterator

import preflight_table as table
from preflight_table import Row

FAILED = 69  # EX_UNAVAILABLE of sysexits.h: not a usual exit code of a training or a shell
FOLDER = os.path.dirname(os.path.abspath(__file__))
NODE_PROGRAM = ("preflight_hardware.sh", "preflight_software.sh", "preflight_node.sh")
BASH = ("/bin/bash", "-p", "-c")  # -p: neither BASH_ENV nor functions of the job's environment

# Create a token, and delete it and the files of the nodes when stdin ends, which it does however
# preflight.py ends.
KEEP_TOKEN = """
trap '' TERM
cd -- "$1" || exit
: > "$2"
echo done
read -r
rm -f -- "${@:2}"
"""


def main(words: list[str]) -> int:
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # also stops srun
    first, second = (i for i, word in enumerate(words) if word == "--")
    nodes, checks, srun = words[:first], words[first + 1 : second], words[second + 1 :]
    folders = [check.partition("=")[2] for check in checks if check.startswith("folder=")]
    tokens = Tokens(folders, nodes)
    try:
        rows = table.in_order(nodes, checks, run_checks(nodes, checks, srun, tokens))
    finally:
        tokens.remove()
    table.print_table(nodes, rows)
    bad = table.root_causes(nodes[0], rows)
    table.print_verdict(nodes, rows, bad, time.monotonic() - start)
    bad_nodes = [node for node in nodes if any(row.node == node for row in bad)]
    if bad_nodes and 2 * len(bad_nodes) <= len(nodes):
        with open(os.path.join(FOLDER, "bad_nodes"), "w") as file:
            file.write(table.hostlist(bad_nodes) + "\n")
    return FAILED if bad else 0


def run_checks(nodes: list[str], checks: list[str], srun: list[str], tokens: Tokens) -> list[Row]:
    """The checks of the batch host first, then those of all nodes."""
    wanted = dict(check.partition("=")[::2] for check in checks)
    seconds = float(wanted.get("seconds", 60))
    checks = [check for check in checks if check.partition("=")[0] not in ("seconds", "clock")]
    rows = []
    hanging = tokens.wait(seconds / 3)
    for folder in hanging:  # no node could compare it with the batch host's
        checks.remove(f"folder={folder}")
        seen = f"no answer in {seconds / 3:.3g} s: it hangs"
        rows.append(Row(nodes[0], f"folder {folder}", "bad", seen, "an answer"))
    if hanging:
        seconds *= 2 / 3
    listener, port = None, os.environ.get("MASTER_PORT", "")
    if "port" in wanted:
        try:
            listener = listen(int(port))
        except OSError as error:
            checks.remove("port")
            rows.append(Row(nodes[0], "port", "bad", f"{port}: {error.strerror}", "a free port"))
    step = Step(len(nodes), seconds, float(wanted.get("clock", "inf")), listener)
    program = "".join(map(read_text, NODE_PROGRAM))
    command = [*srun, *BASH, program, "preflight", tokens.name, f"{seconds:.0f}", *checks]
    rows += step.run(command)
    rows += table.missing_rows(nodes, checks, rows, step.finished, step.why)
    return rows


def read_text(name: str) -> str:
    with open(os.path.join(FOLDER, name)) as file:
        return file.read()


def listen(port: int) -> socket.socket:
    """Listen on MASTER_PORT: this shows that it is free, and the nodes connect to it."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(1024)
    return listener


class Tokens:
    """A file in each folder that the nodes look for, to see that they share the folder.

    A process per folder creates and deletes it: on a dead mount it hangs and cannot be killed.
    """

    def __init__(self, folders: list[str], nodes: list[str]) -> None:
        self.name = f".clusterjobs-{os.urandom(8).hex()}"
        names = (self.name, *(f"{self.name}.{node}" for node in nodes))
        self.keepers = {
            folder: subprocess.Popen(
                [*BASH, KEEP_TOKEN, "keep_token", folder, *names],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            for folder in folders
        }

    def wait(self, seconds: float) -> list[str]:
        """Wait for the tokens, and return the folders that hang.

        A folder that is missing or full does not hang: the nodes report it.
        """
        deadline = time.monotonic() + seconds
        waiting: dict[Any, str] = {keeper.stdout: path for path, keeper in self.keepers.items()}
        while waiting:
            left = max(0.0, deadline - time.monotonic())
            ready = select.select(list(waiting), [], [], left)[0]
            if not ready:
                break
            for output in ready:
                del waiting[output]
        for folder in waiting.values():
            del self.keepers[folder]
        return list(waiting.values())

    def remove(self) -> None:
        deadline = time.monotonic() + 5
        for keeper in self.keepers.values():
            if keeper.stdin:
                keeper.stdin.close()
        for keeper in self.keepers.values():
            try:
                keeper.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass


class Step:
    """One srun and its output. `finished`: nodes that have reported all their checks.

    `why`: for which reason the others have not.
    """

    def __init__(
        self, nodes: int, seconds: float, tolerance: float, listener: socket.socket | None
    ) -> None:
        self.nodes, self.seconds, self.tolerance = nodes, seconds, tolerance
        self.listener = listener
        # A caller hangs up first, so that no TIME_WAIT is left on this port. The oldest of more
        # than a hundred is closed.
        self.callers: collections.deque[socket.socket] = collections.deque(maxlen=100)
        self.finished: list[str] = []
        self.why = f"no answer in {seconds:g} s"

    def run(self, command: list[str]) -> list[Row]:
        """The results that came in time; later ones are discarded."""
        self.started = time.time()
        environment = {**os.environ, "LC_ALL": "C"}  # the messages of programs are parsed
        srun = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
        )
        assert srun.stdout
        try:
            return [row for line in self.lines(srun.stdout) for row in self.rows(line)]
        finally:
            if len(self.finished) < self.nodes:  # else srun ends by itself: do not wait for it
                stop(srun)

    def lines(self, output: IO[bytes]) -> Iterator[str]:
        """srun's output until all nodes have finished, srun has ended or the time is over."""
        deadline, pending = time.monotonic() + self.seconds, b""
        while len(self.finished) < self.nodes:
            sources: list[Any] = [output, *filter(None, [self.listener])]
            ready = select.select(sources, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return
            if self.listener and self.listener in ready:
                self.callers.append(self.listener.accept()[0])
            if output in ready:
                data = os.read(output.fileno(), 65536)
                if not data:
                    self.why = "srun ended without its answer"
                    return
                *whole, pending = (pending + data).split(b"\n")
                for line in whole:
                    yield line.decode("utf-8", "replace")

    def rows(self, line: str) -> list[Row]:
        """The result in a line; other lines are printed."""
        fields = line.split("\t")
        if fields[0] != "preflight" or len(fields) != 6:
            print(line)
            return []
        row = Row(*fields[1:])
        if row.verdict == "end":
            self.finished.append(row.node)
            return []
        if row.check == "clock":
            return [self.clock_row(row)] if self.tolerance < float("inf") else []
        return [row]

    def clock_row(self, row: Row) -> Row:
        """The node read its clock after srun started and before its line arrived: no estimate."""
        ahead, behind = float(row.seen) - time.time(), self.started - float(row.seen)
        wanted = f"within {self.tolerance:g} s"
        if max(ahead, behind) <= self.tolerance:
            return row._replace(verdict="ok", seen=wanted, wanted=wanted)
        seen = f"{ahead:.0f} s ahead" if ahead > 0 else f"{behind:.0f} s behind"
        return row._replace(verdict="bad", seen=seen, wanted=wanted)


def stop(srun: subprocess.Popen[bytes]) -> None:
    """Give srun 5 s to end its tasks; one on a dead mount may never end."""
    srun.terminate()
    try:
        srun.wait(5)
    except subprocess.TimeoutExpired:
        srun.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
