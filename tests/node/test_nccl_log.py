"""What NCCL's own log says of its network, in lines as they were published.

No GPU was at hand: the lines are those of logs that users show in NVIDIA/nccl issues 229, 352, 527
and 1597 and in aws/aws-ofi-nccl issue 24, each a few lines of many. `Using network Socket` is of
later versions than the logs of NCCL 2.4, to which it is added here.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from clusterjobs import resources
from clusterjobs.lab.lab import until

# nccl 1597: p5en, NCCL 2.25 with aws-ofi-nccl 1.13
LIBFABRIC = """\
8h200-2:6831:6840 [0] NCCL INFO NET/OFI Selected Provider is efa (found 16 nics)
8h200-2:6831:6840 [0] NCCL INFO NET/OFI NIC group 7 device #0 0000:a3:00.0
8h200-2:6831:6840 [0] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so.
8h200-2:6831:6840 [0] NCCL INFO Using network Libfabric
"""
# nccl 527: p4d, aws-ofi-nccl 1.4
AWS_LIBFABRIC = """\
ip-10-216-179-87:417138:417176 [7] NCCL INFO NET/OFI Selected Provider is efa
ip-10-216-179-87:417138:417176 [7] NCCL INFO Using network AWS Libfabric
"""
# aws-ofi-nccl 24: NCCL 2.4, which did not say `Using network`
CHANNEL = "ip-172-32-38-1:21471:22316 [7] NCCL INFO Channel 00 : 7 -> 8 [send] via NET/{}/0\n"
# nccl 352: NCCL 2.4 without the plugin, and what later versions add
NO_PLUGIN = """\
ds-ml-01-0:17754:17754 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>
ds-ml-01-0:17754:17754 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so).
ds-ml-01-0:17754:17754 [0] NCCL INFO NET/IB : No device found.
ds-ml-01-0:17754:17754 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>
ds-ml-01-0:17754:17754 [0] NCCL INFO Using network Socket
"""
# nccl 229: the plugin is there, speaks of itself, and fails
PLUGIN_FAILS = """\
ip-192-168-22-101:9:9 [0] get_ofi_provider:312 NCCL WARN NET/OFI Could not find any optimal provider
ip-192-168-22-101:9:9 [0] NCCL INFO NET/Socket : Using [0]ens5:192.168.22.101<0>
ip-192-168-22-101:9:9 [0] NCCL INFO Using network Socket
"""
OTHER_PROVIDER = """\
node:1:1 [0] NCCL INFO NET/OFI Selected Provider is tcp;ofi_rxm (found 1 nics)
node:1:1 [0] NCCL INFO Using network Libfabric
"""


@pytest.fixture
def logs(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "nccl_log.py").write_text(resources.node_program("nccl_log.py"))
    (tmp_path / "nccl").mkdir()
    return tmp_path / "nccl"


def command(
    logs: pathlib.Path, *how: str, ranks: int = 2, fabric: tuple[str, ...] = ()
) -> list[str]:
    program = str(logs.parent / "nccl_log.py")
    return [sys.executable, "-BEsS", program, *how, str(logs), str(ranks), *fabric]


def judged(logs: pathlib.Path, *fabric: str) -> tuple[int, str]:
    words = command(logs, fabric=fabric)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text", [LIBFABRIC, AWS_LIBFABRIC, CHANNEL.format("AWS Libfabric")], ids=["2.25", "2.10", "2.4"]
)
def test_efa_is_fine(logs: pathlib.Path, text: str) -> None:
    for rank in "12":
        (logs / f"node-1.{rank}").write_text(text)
    assert judged(logs) == (0, "")


@pytest.mark.parametrize(
    ("text", "network"),
    [
        (NO_PLUGIN, "Socket"),
        (PLUGIN_FAILS, "Socket"),
        (CHANNEL.format("Socket"), "Socket"),
        (OTHER_PROVIDER, "the provider tcp;ofi_rxm of libfabric"),
        (NO_PLUGIN + LIBFABRIC, "Socket"),  # another communicator does not make it good
    ],
)
def test_silent_tcp_is_an_error_that_names_the_node(logs, text: str, network: str) -> None:
    (logs / "node-1.17").write_text(LIBFABRIC)
    (logs / "node-2.18").write_text(text)
    code, said = judged(logs)
    assert code == 69
    complaint = f"clusterjobs: NCCL does not use EFA but {network} on 1 rank (node-2): see {logs}"
    assert said.splitlines()[-1] == complaint


INFINIBAND = "gpu-1:9:9 [0] NCCL INFO Using network IB\n"
SLINGSHOT = """\
nid1:9:9 [0] NCCL INFO NET/OFI Selected Provider is cxi (found 4 nics)
nid1:9:9 [0] NCCL INFO Using network AWS Libfabric
"""
FASTRAK = "a3-0:9:9 [0] NCCL INFO Using network FasTrak\n"


@pytest.mark.parametrize(
    ("fabric", "good"),
    [
        (("InfiniBand", "IB"), INFINIBAND),
        (("InfiniBand", "IB"), INFINIBAND.replace("IB", "IBext_v8")),  # HPC-X's plugin
        (("Slingshot", "Libfabric", "cxi"), SLINGSHOT),
        (("GPUDirect-TCPXO", "FasTrak"), FASTRAK),
    ],
)
def test_other_fabrics_are_told_from_tcp(logs, fabric: tuple[str, ...], good: str) -> None:
    (logs / "node-1.17").write_text(good)
    assert judged(logs, *fabric) == (0, "")
    (logs / "node-2.18").write_text(NO_PLUGIN)
    code, said = judged(logs, *fabric)
    assert code == 69
    assert f"NCCL does not use {fabric[0]} but Socket on 1 rank (node-2)" in said


def test_slingshot_over_another_provider_is_an_error(logs) -> None:
    (logs / "node-1.17").write_text(SLINGSHOT.replace("cxi", "tcp"))
    code, said = judged(logs, "Slingshot", "Libfabric", "cxi")
    assert code == 69
    assert "the provider tcp of libfabric" in said


def test_warnings_reach_the_jobs_log(logs) -> None:
    (logs / "node-2.18").write_text(PLUGIN_FAILS)
    assert "NCCL WARN NET/OFI Could not find any optimal provider" in judged(logs)[1]


def test_no_log_is_no_proof_and_no_fault(logs) -> None:
    code, said = judged(logs)
    assert code == 0
    assert "EFA use could not be verified" in said


def watched(logs: pathlib.Path) -> subprocess.Popen[bytes]:
    bin_ = logs.parent / "bin"
    bin_.mkdir()
    (bin_ / "scancel").write_text(f'#!/bin/bash\necho "$@" > {logs.parent}/cancelled\n')
    (bin_ / "scancel").chmod(0o755)
    path = f"{bin_}:{os.environ['PATH']}"
    program = logs.parent / "nccl_log.py"
    program.write_text(program.read_text().replace("POLL_SECONDS = 5", "POLL_SECONDS = 0.1"))
    with (logs.parent / "said").open("w") as said:
        environment = {"PATH": path, "SLURM_JOB_ID": "42"}  # which is the array's, too
        return subprocess.Popen(command(logs, "watch", "42_1"), env=environment, stdout=said)


def test_the_watcher_ends_the_ranks_as_soon_as_one_is_on_tcp(logs) -> None:
    (logs / "node-1.17").write_text(LIBFABRIC)
    watcher = watched(logs)
    with (logs / "node-2.18").open("w") as file:  # the last line comes in two pieces
        file.write(NO_PLUGIN[:-8])
        file.flush()
        file.write(NO_PLUGIN[-8:])
    assert watcher.wait(60) == 0
    assert (logs.parent / "cancelled").read_text() == "--signal=TERM 42_1\n"
    assert "stopping the training" in (logs.parent / "said").read_text()


def test_the_watcher_says_once_that_all_is_well(logs) -> None:
    watcher = watched(logs)
    said = logs.parent / "said"
    for rank in "12":
        (logs / f"node-1.{rank}").write_text(LIBFABRIC)
    until(lambda: "on all 2 ranks" in said.read_text(), 60, said.read_text)
    watcher.kill()
    watcher.wait()
    assert said.read_text() == "clusterjobs: NCCL uses EFA on all 2 ranks\n"
    assert not (logs.parent / "cancelled").exists()
