"""Reads NCCL's own log: did it take EFA, or TCP without a word?

    nccl_log.py watch JOB FOLDER RANKS    beside the training: ends it where NCCL has taken TCP
    nccl_log.py FOLDER RANKS              after it: exits with FAILED in that case

JOB is the job's id, of a task of an array 123_4: Slurm's own for it may be that of the array.

NCCL writes one file for each rank into FOLDER (NCCL_DEBUG=INFO, NCCL_DEBUG_FILE). `NET/OFI` alone
proves nothing, since the plugin also says there why it failed; what NCCL took in the end is in
`Using network ...`. Warnings are passed on to the job's log, where they would be without a file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

FAILED = 69  # as the preflight's own
POLL_SECONDS = 5
MAX_WARNINGS = 20

# NCCL's src/plugin/net.cc and src/transport/net.cc; aws-ofi-nccl names the provider of libfabric.
_NETWORK = re.compile(r"NCCL INFO Using network (.+)")
_CHANNEL = re.compile(r"NCCL INFO Channel .* via NET/([^/]+)/")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)")


class Logs:
    """What the files of all ranks have said so far."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.offsets: dict[str, int] = {}
        self.networks: dict[str, str] = {}
        self.warnings = 0

    def read(self) -> None:
        """Take in what is new: whole lines alone."""
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.offsets.get(name, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self.offsets[name] = self.offsets.get(name, 0) + len(whole)
            for line in whole.decode("utf-8", "replace").splitlines():
                self.take(name, line)

    def take(self, name: str, line: str) -> None:
        found = network_of(line)
        if found:
            if is_efa(self.networks.get(name, "Libfabric")):  # once wrong, it stays wrong
                self.networks[name] = found
        elif "NCCL WARN" in line and self.warnings < MAX_WARNINGS:
            self.warnings += 1
            print(line)

    def complaint(self) -> str:
        """What is wrong, or nothing."""
        slow = {name: network for name, network in self.networks.items() if not is_efa(network)}
        if not slow:
            return ""
        hosts = sorted({name.rpartition(".")[0] for name in slow})
        network = sorted(set(slow.values()))[0]
        ranks = "1 rank" if len(slow) == 1 else f"{len(slow)} ranks"
        return (
            f"clusterjobs: NCCL does not use EFA but {network} on {ranks} "
            f"({', '.join(hosts[:8])}{', ...' if len(hosts) > 8 else ''}): see {self.folder}"
        )


def network_of(line: str) -> str:
    """The network that a line of NCCL's says it takes; nothing where it says none."""
    found = _NETWORK.search(line) or _CHANNEL.search(line)
    if found:
        return found.group(1).strip()
    provider = _PROVIDER.search(line)
    if provider and provider.group(1) != "efa":
        return f"the provider {provider.group(1)} of libfabric"
    return ""


def is_efa(network: str) -> bool:
    """`AWS Libfabric` or `Libfabric`, as the plugin's versions call it."""
    return "Libfabric" in network


def watch(job_id: str, logs: Logs, ranks: int) -> None:
    """Until the job ends it; the first rank on another network ends the training."""
    is_told = False
    while True:
        logs.read()
        complaint = logs.complaint()
        if complaint:
            print(f"{complaint}; the training is ended")
            sys.stdout.flush()
            subprocess.call(["scancel", "--signal=TERM", job_id])
            return
        if len(logs.networks) >= ranks and not is_told:
            is_told = True
            print(f"clusterjobs: NCCL uses EFA on all {ranks} ranks")
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)


def judge(logs: Logs) -> int:
    logs.read()
    complaint = logs.complaint()
    if complaint:
        print(complaint)
        return FAILED
    if not logs.networks:
        print("clusterjobs: NCCL left no log, so that nothing proves that it used EFA")
    return 0


def main(words: list[str]) -> int:
    if words[0] == "watch":
        watch(words[1], Logs(words[2]), int(words[3]))
        return 0
    return judge(Logs(words[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
