"""clusters import --from-slurm asks Slurm's commands: some are missing, refused, or hang."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.importing import texts as cluster_texts
from clusterjobs.importing import texts as import_texts

NODE = (
    "NodeName=n{number} Arch=x86_64 CPUAlloc=0 CPUEfctv=96 CPUTot=96 AvailableFeatures=gpu "
    "Gres=gpu:a100:4(S:0-1) RealMemory=512000 State=IDLE ThreadsPerCore=2 TmpDisk=0 "
    "Partitions=batch CfgTRES=cpu=96 AllocTRES="
)
PARTITION = "PartitionName=batch Default=YES MaxTime=1-00:00:00 Nodes=n[1-2] State=UP TotalNodes=2"
ANSWERS = {
    "scontrol --oneliner show node": "\n".join(NODE.format(number=n) for n in (1, 2)),
    "scontrol --oneliner show partition": PARTITION,
    "scontrol show config": "Configuration data as of now\nClusterName = booster\n"
    "SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\n"
    "SLURM_CONF = {conf}\nSLURM_VERSION = 23.02.7",
    "scontrol --version": "slurm 23.02.7",
    "sacctmgr": "Account|Partition|QOS|Def QOS\nproj1||normal,long|normal",
    "srun --help": "Usage: srun [OPTIONS]\n      --container-image=IMAGE",
}
_PROGRAM = """#!/bin/bash
line="$(basename "$0") $*"
[ "$LC_ALL" = C ] || exit 9
for known in "${0%/*}"/answers/*; do
    if [[ "$line" == "$(basename "$known")"* ]]; then cat "$known"; exit 0; fi
done
echo "${line%% *}: error: Access/permission denied" >&2
exit 1
"""


class Slurm:
    """Stand-ins for Slurm's commands, which print what `answers` has for a command line."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.conf = folder / "etc" / "slurm.conf"
        self._folder = folder
        (folder / "answers").mkdir()
        self.conf.parent.mkdir()
        for name in ("scontrol", "sacctmgr", "srun"):
            self.program(name, _PROGRAM)
        for command, text in ANSWERS.items():
            self.answers(command, text.format(conf=self.conf))

    def program(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text(text)
        path.chmod(0o755)

    def answers(self, command: str, text: str) -> None:
        (self._folder / "answers" / command).write_text(text + "\n")

    def refuses(self, command: str) -> None:
        (self._folder / "answers" / command).unlink()


@pytest.fixture
def slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    folder = tmp_path / "slurm"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(import_texts, "_FILES", {})
    return Slurm(folder)


Run = Callable[..., Any]


def imported(clusterjobs: Run, *options: str) -> Any:
    return clusterjobs("clusters", "import", "--from-slurm", "--timeout", "120", *options)


def test_import_describes_the_running_cluster(slurm: Slurm, clusterjobs: Run) -> None:
    outcome = imported(clusterjobs)
    assert outcome.code == 0
    description = DescriptionSource(outcome.out, "cluster.yaml").description
    assert description.name == "booster"
    assert description.slurm_version == "23.02.7"
    assert description.container_program == "pyxis"
    assert (description.accounts, description.qos) == (("proj1",), ("normal", "long"))
    assert description.memory_scheduling
    assert description.partitions["batch"].nodes == {"a100": 2}
    assert "warning" not in outcome.err
    assert outcome.err.count("asking ") == len(cluster_texts.COMMANDS)


def test_import_keeps_one_partition(slurm: Slurm, clusterjobs: Run) -> None:
    slurm.answers(
        "scontrol --oneliner show partition",
        f"{PARTITION}\n{PARTITION.replace('batch', 'other')}",
    )
    outcome = imported(clusterjobs, "--partition", "other")
    assert list(DescriptionSource(outcome.out, "cluster.yaml").description.partitions) == ["other"]


def test_refused_commands_are_warnings(slurm: Slurm, clusterjobs: Run) -> None:
    for command in ("sacctmgr", "srun --help", "scontrol show config"):
        slurm.refuses(command)
    outcome = imported(clusterjobs)
    assert outcome.code == 0
    assert "# accounts: [myproject]" in outcome.out
    assert "# container_program: " in outcome.out
    assert "# memory_scheduling: true" in outcome.out
    warnings = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    assert warnings[0] == (
        "warning: scontrol show config: scontrol: error: Access/permission denied"
    )
    assert "   hint: accounts and qos are left out" in outcome.err


def test_without_slurm_the_message_says_what_to_do(
    clusterjobs: Run, monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("SLURM_CONF", "/nowhere/slurm.conf")
    outcome = imported(clusterjobs)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.splitlines()[-2:] == [
        "scontrol --oneliner show node: there is no scontrol on the PATH",
        "   hint: run this on a login node; or save the output of scontrol --oneliner show node "
        "there, and use --from-files (/nowhere/slurm.conf cannot be read either)",
    ]


CONF = """ClusterName=booster
include {include}
NodeName=n[1-2] CPUs=96 ThreadsPerCore=2 RealMemory=512000 Gres=gpu:4 Feature=hidden State=CLOUD
"""


def test_hidden_nodes_come_from_slurm_conf(slurm: Slurm, clusterjobs: Run) -> None:
    slurm.answers("scontrol --oneliner show node", "No nodes in the system")
    (slurm.conf.parent / "more.conf").write_text("SelectType=select/cons_tres\n")
    slurm.conf.write_text(CONF.format(include="more.conf"))
    (slurm.conf.parent / "gres.conf").write_text("NodeName=n[1-2] Name=gpu Type=h100\n")
    outcome = imported(clusterjobs)
    (kind,) = DescriptionSource(outcome.out, "cluster.yaml").description.node_types.values()
    assert (kind.cpus, kind.gpus, kind.features) == (96, 4, ("hidden",))
    assert (kind.gpu_type, kind.gpu_model) == (None, "H100")
    assert "need PrivateData=cloud in slurm.conf" in outcome.err


def test_some_hidden_nodes_come_from_slurm_conf(slurm: Slurm, clusterjobs: Run) -> None:
    slurm.answers("scontrol --oneliner show node", NODE.format(number=1))
    slurm.conf.write_text(CONF.format(include="none.conf").replace("include none.conf\n", ""))
    outcome = imported(clusterjobs)
    description = DescriptionSource(outcome.out, "cluster.yaml").description
    assert sum(description.partitions["batch"].nodes.values()) == 2


def test_slurm_conf_that_cannot_be_read_is_a_warning(slurm: Slurm, clusterjobs: Run) -> None:
    slurm.answers("scontrol --oneliner show node", NODE.format(number=1))
    slurm.conf.write_text(CONF.format(include="secret.conf"))
    outcome = imported(clusterjobs)
    assert outcome.code == 0
    assert "warning: there is no file secret.conf" in outcome.err
    assert "left out: 1 node of the partition batch described by no text" in outcome.out


def test_command_that_hangs_is_killed_with_its_children(
    slurm: Slurm, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    slurm.program(
        "scontrol",
        f"#!/bin/bash\ntrap '' TERM\nsleep 600 &\necho $! $$ > {pids}.new\n"
        f"mv {pids}.new {pids}\nsleep 600\n",
    )
    monkeypatch.setattr(cluster_texts, "COMMANDS", {"config": ("scontrol", "show", "config")})
    asked: list[str] = []
    answers = cluster_texts.ask_slurm(0.2, lambda line: asked.append(line) or wait_for(pids))
    assert next(answers).failure == "it has not answered in 0.2 s"
    assert asked == ["scontrol show config"]
    for pid in pids.read_text().split():
        end = time.monotonic() + 120
        while is_running(int(pid)) and time.monotonic() < end:
            time.sleep(0.01)
        assert not is_running(int(pid))


def wait_for(path: pathlib.Path) -> None:
    end = time.monotonic() + 120
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether it runs: one that has been killed may remain as a zombie of its parent."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
