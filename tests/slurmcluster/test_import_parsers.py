"""The readers of Slurm's texts, value by value."""

from __future__ import annotations

import pytest

from clusterjobs.errors import InputError
from clusterjobs.importing.collect import kind_of
from clusterjobs.importing.node_types import machine_facts
from clusterjobs.importing.nodes import Node, Seen, node_of
from clusterjobs.importing.probe import exported_folders, shared_folders
from clusterjobs.importing.records import (
    Gpus,
    HostlistError,
    Text,
    expand,
    gpus_of,
    scontrol_records,
)
from clusterjobs.importing.slurm_conf import read_associations
from clusterjobs.importing.yaml_lines import scalar


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n1,n2,", ["n1", "n2"]),
        ("a[01-03,12]", ["a01", "a02", "a03", "a12"]),
        ("a[1-2]b[08-09]", ["a1b08", "a1b09", "a2b08", "a2b09"]),
        ("x[9-11]", ["x9", "x10", "x11"]),
        ("n[1-2]-ib,m3", ["n1-ib", "n2-ib", "m3"]),
        ("", []),
    ],
)
def test_hostlists(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize("text", ["a[1-2", "a]1[", "a[2-1]", "a[]", "a[1-300000]", "a[[1]]"])
def test_wrong_hostlists(text: str) -> None:
    with pytest.raises(HostlistError):
        expand(text)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:a100:8(S:0-1)", (Gpus("a100", 8),)),
        ("gpu:a100:8(S:0-1,3),lscratch:3200", (Gpus("a100", 8),)),
        ("gpu:8", (Gpus("", 8),)),
        ("gpu", (Gpus("", 1),)),
        ("gpu:tesla", (Gpus("tesla", 1),)),
        ("gpu:gh200:no_consume:4", (Gpus("gh200", 4),)),
        ("gpu:1g.5gb:7,gpu:a100:1", (Gpus("a100", 1), Gpus("1g.5gb", 7))),
        ("gpu:a100:2(S:0),gpu:a100:2(S:1)", (Gpus("a100", 4),)),
        ("gpu:a100:0", ()),
        ("mps:400,shard:8,pfsdir:scratch:1", ()),
        ("", ()),
    ],
)
def test_gpus(gres: str, gpus: tuple[Gpus, ...]) -> None:
    assert gpus_of(gres) == gpus


REASON = "Reason=NHC: CPUTot=1 Gres=gpu:h100:99 State=IDLE opt=x [root@2026-08-27T10:00:00]"


@pytest.mark.parametrize("before", ["", "OS=Linux 5.15 #1 SMP Tue Nov 14 KEY=VALUE "])
def test_reasons_and_kernels_are_no_keys(before: str) -> None:
    line = f"NodeName=n1 {before}CPUTot=8 RealMemory=9 Gres=(null) State=DOWN* {REASON}"
    if before:  # what follows the kernel in scontrol's output
        line = f"NodeName=n1 CPUTot=8 Gres=(null) {before}RealMemory=9 State=DOWN* {REASON}"
    (record,) = scontrol_records(Text("nodes.txt", line), "nodename")
    node = node_of(record)
    assert (node.cpus, node.memory_mib, node.gpus, node.is_down) == (8, 9, (), True)
    assert record.get("OS") == (before.removeprefix("OS=").strip() or None)


@pytest.mark.parametrize(
    ("states", "real", "down", "cloud"),
    [
        (("IDLE", "CLOUD", "POWERED_DOWN"), True, False, True),
        (("DOWN", "CLOUD"), True, True, True),
        (("IDLE", "DRAIN"), True, True, False),
        (("FUTURE",), False, False, False),
        (("IDLE", "EXTERNAL"), False, False, False),
    ],
)
def test_states(states: tuple[str, ...], real: bool, down: bool, cloud: bool) -> None:
    node = Node("n1", states=states)
    assert (node.is_real, node.is_down, node.is_cloud) == (real, down, cloud)


def test_shared_folders_of_proc_mounts() -> None:
    text = """/dev/sda1 / ext4 rw 0 0
nfs:/e /home/my\\040home nfs4 rw,vers=4.2 0 0
fs-1.efs.us-east-1.amazonaws.com:/ /efs nfs4 rw 0 0
127.0.0.1:/ /efs-tls nfs4 rw,port=20049 0 0
10.0.0.1@tcp:/abc /fsx lustre rw,flock 0 0
beegfs_nodev /bee beegfs rw 0 0
gpfs0 /gpfs gpfs rw 0 0
b/default /weka wekafs rw 0 0
mountpoint-s3 /s3 fuse rw,nosuid,user_id=0 0 0
vast:/v /vast nfs rw,nconnect=8 0 0
tmpfs /dev/shm tmpfs rw 0 0
"""
    assert shared_folders(Text("mounts", text)) == {
        "/bee": "beegfs",
        "/efs": "efs",
        "/efs-tls": "efs",
        "/fsx": "lustre",
        "/gpfs": "gpfs",
        "/home/my home": "nfs",
        "/s3": "s3",
        "/vast": "nfs",
        "/weka": "weka",
    }


def test_homes_of_many_users_are_one_folder() -> None:
    text = "".join(f"h:/{n} /home/u{n} nfs rw 0 0\n" for n in range(9))
    assert shared_folders(Text("mounts", text)) == {"/home": "nfs"}


def test_folders_that_a_head_node_exports() -> None:
    text = "# comment\n/home 10.0.0.0/16(rw,sync)\n/opt/slurm 10.0.0.0/16(ro)\n"
    assert exported_folders(Text("exports", text)) == {"/home": "nfs", "/opt/slurm": "nfs"}


@pytest.mark.parametrize(
    "text",
    [
        "Account|Partition|QOS|Def QOS\na||normal,long|normal\nb|gpu|long|\n",
        "   Account  Partition                  QOS   Def QOS \n"
        "---------- ---------- -------------------- --------- \n"
        "         a                     normal,long    normal \n"
        "         b        gpu                 long           \n",
    ],
)
def test_accounts_and_qos(text: str) -> None:
    seen = Seen()
    read_associations(Text("assoc.txt", text), seen)
    assert seen.accounts == ("a", "b")
    assert set(seen.qos or ()) == {"normal", "long"}


@pytest.mark.parametrize(
    ("name", "model", "memory", "fabric"),
    [
        ("p4d.24xlarge", "A100", 40, "efa"),
        ("ml.p5.48xlarge", "H100", 80, "efa"),
        ("c5.xlarge", "", None, "ethernet"),
        ("a2-highgpu-8g", "A100", 40, "gvnic"),
        ("a3-highgpu-8g", "H100", 80, "tcpx"),
        ("a3-megagpu-8g", "H100", 80, "tcpxo"),
    ],
)
def test_facts_of_machine_types(name: str, model: str, memory: float | None, fabric: str) -> None:
    facts = machine_facts(name)
    assert facts is not None
    assert (facts.gpu_model, facts.gpu_memory, facts.fabric) == (model, memory, fabric)


def test_a_word_that_is_no_machine_type_has_no_facts() -> None:
    assert machine_facts("gpu") is None


@pytest.mark.parametrize("text", ["on", "1e3", "23.02", "a: b", "#x", "", "-", "no", "ä", "a\nb"])
def test_texts_stay_texts_in_yaml(text: str) -> None:
    from clusterjobs.yaml import document

    assert document.load(f"key: {scalar(text)}\n", "x.yaml").value == {"key": text}


@pytest.mark.parametrize(
    "text", ["\n" * 5000 + "x", "# a\n" * 3000 + "/", "a b " * 3000, "|" * 9000]
)
def test_unknown_texts_are_refused_at_once(text: str) -> None:
    with pytest.raises(InputError):
        kind_of(Text("x.txt", text))
