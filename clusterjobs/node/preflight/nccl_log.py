"""Read NCCL's log: does it use the fabric, or has it silently fallen back to TCP?

    nccl_log.py watch JOB FOLDER RANKS [FABRIC]    during the training: stops it if NCCL uses TCP
    nccl_log.py FOLDER RANKS [FABRIC]              after it: exits with FAILED in that case

FABRIC is its name for messages, a part of NCCL's name for it, and the provider if it is one of
libfabric: `Slingshot Libfabric cxi`, `InfiniBand IB`. By default, EFA. JOB is the job's id, 123_4
for a task of an array (SLURM_JOB_ID may be that of the whole array).

NCCL writes one file per rank to FOLDER (NCCL_DEBUG=INFO, NCCL_DEBUG_FILE). `NET/OFI` alone proves
nothing, because the plugin also logs there why it failed; the final choice is in `Using network
...`. Warnings are printed, as NCCL itself would do without a file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

FAILED = 69  # as in preflight.py
POLL_SECONDS = 5
MAX_WARNINGS = 20

# NCCL's src/plugin/net.cc and src/transport/net.cc; aws-ofi-nccl names the provider of libfabric.
_NETWORK = re.compile(r"NCCL INFO Using network (.+)")
_CHANNEL = re.compile(r"NCCL INFO Channel .* via NET/([^/]+)/")
_PROVIDER = re.compile(r"NET/OFI Selected [Pp]rovider is ([^\s,]+)")


class Fabric:
    """The fabric that NCCL has to use."""

    def __init__(self, title: str = "EFA", network: str = "Libfabric", provider: str = "") -> None:
        self.title = title
        self.network = network
        self.provider = "efa" if title == "EFA" else provider

    def is_used(self, network: str) -> bool:
        """The plugin's name is `AWS Libfabric` or `Libfabric`, depending on its version."""
        return self.network in network


class Logs:
    """The log files of all ranks, and what has been found in them so far."""

    def __init__(self, folder: str, fabric: Fabric) -> None:
        self.folder = folder
        self.fabric = fabric
        self.offsets: dict[str, int] = {}
        self.networks: dict[str, str] = {}
        self.warnings = 0

    def read(self) -> None:
        """Read the new complete lines."""
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), "rb") as file:
                file.seek(self.offsets.get(name, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self.offsets[name] = self.offsets.get(name, 0) + len(whole)
            for line in whole.decode("utf-8", "replace").splitlines():
                self.read_line(name, line)

    def read_line(self, name: str, line: str) -> None:
        fabric = self.fabric
        found = network_of(line, fabric.provider)
        if found:
            if fabric.is_used(
                self.networks.get(name, fabric.network)
            ):  # once it is not, that stays
                self.networks[name] = found
        elif "NCCL WARN" in line and self.warnings < MAX_WARNINGS:
            self.warnings += 1
            print(line)

    def complaint(self) -> str:
        """What is wrong; empty if nothing is."""
        fabric = self.fabric
        slow = {name: one for name, one in self.networks.items() if not fabric.is_used(one)}
        if not slow:
            return ""
        hosts = sorted({name.rpartition(".")[0] for name in slow})
        network = sorted(set(slow.values()))[0]
        ranks = "1 rank" if len(slow) == 1 else f"{len(slow)} ranks"
        return (
            f"clusterjobs: NCCL does not use {fabric.title} but {network} on {ranks} "
            f"({', '.join(hosts[:8])}{', ...' if len(hosts) > 8 else ''}): see {self.folder}"
        )


def network_of(line: str, wanted_provider: str) -> str:
    """The network that a line of NCCL's log says it uses; empty if it says nothing of it."""
    found = _NETWORK.search(line) or _CHANNEL.search(line)
    if found:
        return found.group(1).strip()
    provider = _PROVIDER.search(line)
    if provider and provider.group(1) != wanted_provider:
        return f"the provider {provider.group(1)} of libfabric"
    return ""


def watch(job_id: str, logs: Logs, ranks: int) -> None:
    """Runs until the job stops it; stops the training when a rank uses another network."""
    is_reported = False
    while True:
        logs.read()
        complaint = logs.complaint()
        if complaint:
            print(f"{complaint}; stopping the training")
            sys.stdout.flush()
            subprocess.call(["scancel", "--signal=TERM", job_id])
            return
        if len(logs.networks) >= ranks and not is_reported:
            is_reported = True
            print(f"clusterjobs: NCCL uses {logs.fabric.title} on all {ranks} ranks")
        sys.stdout.flush()
        time.sleep(POLL_SECONDS)


def judge(logs: Logs) -> int:
    logs.read()
    complaint = logs.complaint()
    if complaint:
        print(complaint)
        return FAILED
    if not logs.networks:
        title = logs.fabric.title
        print(f"clusterjobs: NCCL wrote no log: {title} use could not be verified")
    return 0


def main(words: list[str]) -> int:
    if words[0] == "watch":
        watch(words[1], Logs(words[2], Fabric(*words[4:])), int(words[3]))
        return 0
    return judge(Logs(words[0], Fabric(*words[2:])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
