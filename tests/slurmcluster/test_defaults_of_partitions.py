"""What a job gets without asking for it, and the most CPUs of a node: imported, and used."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest

CONF = """\
ClusterName=x
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
NodeName=n[1-4] CPUs=64 RealMemory=512000 Gres=gpu:8
PartitionName=a Nodes=n[1-4] Default=YES DefaultTime=1:00:00 MaxTime=2-0
PartitionName=b Nodes=n[1-4] Default=YES MaxCPUsPerNode=48 DefMemPerGPU=2000 DefaultTime=NONE
PartitionName=all Nodes=n[1-4] MaxCPUsPerNode=64
PartitionName=more Nodes=n[1-4] MaxCPUsPerNode=128
PartitionName=both Nodes=n[1-4] MaxCPUsPerNode=48 OverSubscribe=EXCLUSIVE
PartitionName=list Nodes=n[1-4] DefCpuPerGPU=6 DefMemPerGPU=9000 DefMemPerNode=4000
PartitionName=many Nodes=n[1-4] DefCpuPerGPU=17
PartitionName=ours Nodes=n[1-4] AllowAccounts=chem,bio AllowQos=long AllowGroups=ALL
PartitionName=not Nodes=n[1-4] DenyAccounts=guest,old DenyQos=debug
PartitionName=two Nodes=n[1-4] AllowAccounts=chem,old DenyAccounts=old
"""
OF_SCONTROL = """\
PartitionName=gpu
   MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=n[1-4]
   JobDefaults=DefCpuPerGPU=14,DefMemPerGPU=94000
   DefMemPerCPU=8000 MaxMemPerNode=UNLIMITED State=UP TotalCPUs=256 TotalNodes=4
   TRES=cpu=256,mem=2048000M,node=4,billing=256,gres/gpu=32
"""
Plan = Callable[..., tuple[int, str]]


@pytest.fixture
def plan(clusterjobs, folder: pathlib.Path) -> Plan:
    """Plan a job on the imported cluster; returns the exit code, and all that was printed."""
    (folder / "slurm.conf").write_text(CONF)
    imported = clusterjobs("clusters", "import", "--from-files", "slurm.conf")
    (folder / "c.yaml").write_text(imported.out)

    def call(queue: str, keys: str = "gpus_per_node: 4", **sbatch: str) -> tuple[int, str]:
        own = ", ".join(f"{name}: {value}" for name, value in sbatch.items())
        spec = f"name: j\ncluster: ./c.yaml\nframework: command\ncommand: ./run\nqueue: {queue}\n"
        (folder / "e.yaml").write_text(f"{spec}{keys}\nsbatch: {{{own}}}\n")
        outcome = clusterjobs("plan", "e.yaml")
        return outcome.code, outcome.out + outcome.err

    return call


def test_an_import_writes_what_jobs_get_without_asking(plan: Plan, folder: pathlib.Path) -> None:
    text = (folder / "c.yaml").read_text()
    assert "default_partition: b\n" in text
    a, _, b = text.partition("\n  a:\n")[2].partition("\n  b:\n")
    assert '    default_time: "01:00:00"' in a
    assert "    def_mem_per_cpu: 100  # MiB" in a
    assert "    max_cpus_per_node: 48\n" in b
    b, _, rest = b.partition("\n  all:\n")
    assert "    def_mem_per_gpu: 2000  # MiB" in b
    assert "    def_mem_per_cpu: 100  # MiB" in b
    of_list = rest.partition("\n  list:\n")[2].partition("\n  many:\n")[0]
    assert "    def_cpu_per_gpu: 6  # DefCpuPerGPU: of a job that asks for no CPUs" in of_list
    assert "    def_mem_per_gpu: 9000  # MiB" in of_list
    assert "    def_mem_per_node: 4000  # MiB" in of_list
    assert "def_mem_per_cpu" not in of_list
    assert "default_time" not in b


def test_a_job_without_a_limit_is_told_the_default_time(plan: Plan) -> None:
    assert "Slurm ends the job after 01:00:00: the DefaultTime of queue a" in plan("a")[1]
    assert "DefaultTime" not in plan("a", time="10")[1]
    assert "DefaultTime" not in plan("b")[1]


def test_a_job_on_a_part_of_a_node_is_told_its_default_memory(plan: Plan) -> None:
    said = plan("a", exclusive="false")[1]
    assert "the job gets 3,200 MiB of a node's 512,000 (DefMemPerCPU=100)" in said
    assert "sbatch: {mem: 256000M}" in said
    assert "DefMemPer" not in plan("a", exclusive="false", mem="100G")[1]
    assert "DefMemPer" not in plan("a")[1]
    assert "the job gets 8,000 MiB of a node's 512,000 (DefMemPerGPU=2,000)" in plan("b")[1]


def test_scontrol_lists_the_defaults_of_gpus(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "partitions").write_text(OF_SCONTROL)
    said = clusterjobs("clusters", "import", "--from-files", "partitions").out
    for line in ("def_cpu_per_gpu: 14", "def_mem_per_gpu: 94000", "def_mem_per_cpu: 8000"):
        assert f"    {line}  #" in said


def test_memory_for_each_gpu_is_for_jobs_with_gpus(plan: Plan) -> None:
    assert (
        "gets 36,000 MiB of a node's 512,000 (DefMemPerGPU=9" in plan("list", exclusive="false")[1]
    )
    keys = "gpus_per_node: 0\ncpus_per_task: 4"
    said = plan("list", keys, exclusive="false")[1]
    assert "the job gets 4,000 MiB of a node's 512,000 (DefMemPerNode=4,000)" in said
    said = plan("b", keys)[1]
    assert "the job gets 400 MiB of a node's 512,000 (DefMemPerCPU=100)" in said


def test_a_job_on_a_part_of_a_node_gets_the_cpus_of_its_gpus(plan: Plan) -> None:
    one, four = "gpus_per_node: 1", "gpus_per_node: 4\nranks_per_node: 4"
    said = plan("list", one, exclusive="false")[1]
    assert "DefCpuPerGPU=6 of queue list" in said
    assert cpus(said) == "6"
    assert cpus(plan("list", four, exclusive="false")[1]) == "6"
    assert "DefCpu" not in plan("list", f"{one}\ncpus_per_task: 3", exclusive="false")[1]
    assert cpus(plan("list", one)[1]) == "64"  # the whole node
    assert cpus(plan("a", one, exclusive="false")[1]) == "8"  # the share of its GPU
    assert cpus(plan("many", "gpus_per_node: 3", exclusive="false")[1]) == "17"
    assert cpus(plan("many", exclusive="false")[1]) == "8"  # 4 x 17 would be more than a node has


def cpus(said: str) -> str:
    """The CPUs of a task, as the plan says."""
    return re.findall(r"(?m)^\s*cpus_per_task\s+(\d+)", said)[0]


def test_a_partition_that_divides_nodes_gets_no_exclusive_jobs(plan: Plan) -> None:
    code, said = plan("b")
    assert (code, "--exclusive" in said) == (0, False)
    assert "share of 4 of 8 GPUs in 48 CPUs" in said
    code, said = plan("b", exclusive="true")
    assert code == 1
    assert "Slurm refuses whole nodes in queue b: a job gets 48 CPUs of each at most" in said


@pytest.mark.parametrize("queue", ["all", "more"])
def test_a_limit_that_no_node_exceeds_divides_none(plan: Plan, queue: str) -> None:
    code, said = plan(queue)
    assert (code, "--exclusive" in said) == (0, True), said


def test_a_key_that_the_spec_does_not_have_is_not_to_be_removed(plan: Plan) -> None:
    assert "sbatch.exclusive" not in plan("both")[1]
    assert "sbatch.exclusive" in plan("both", exclusive="false")[1]


def test_files_of_slurm_that_are_not_needed_may_be_there(clusterjobs, folder: pathlib.Path) -> None:
    others = {
        "cgroup.conf": "ConstrainCores=yes\n",
        "topology.conf": "SwitchName=s0 Nodes=n[1-4]\n",
        "plugstack.conf": "required spank_pyxis.so\n",
        "slurmdbd.conf": "DbdHost=db\n",
        "gres.conf": "AutoDetect=nvml\n",
        "slurm.conf": CONF,
    }
    for name, text in others.items():
        (folder / name).write_text(text)
    outcome = clusterjobs("clusters", "import", "--from-files", *sorted(others))
    assert (outcome.code, "default_partition: b" in outcome.out) == (0, True), outcome.err


@pytest.mark.parametrize(
    ("queue", "sbatch", "wrong"),
    [
        (
            "ours",
            {"account": "ml"},
            "sbatch.account: ml is not in the description of partition ours",
        ),
        ("ours", {"qos": "short"}, "sbatch.qos: short is not in the description of partition ours"),
        ("ours", {"account": "bio", "qos": "long"}, ""),
        ("a", {"account": "ml"}, ""),
        ("not", {"account": "chem", "qos": "long"}, ""),
        ("two", {"account": "old"}, ""),  # Slurm ignores DenyAccounts beside AllowAccounts
    ],
)
def test_an_account_that_the_partition_does_not_take_is_a_warning(
    plan: Plan, queue: str, sbatch: dict[str, str], wrong: str
) -> None:
    code, said = plan(queue, **sbatch)
    assert code == 0
    assert wrong in said
    assert ("is not in the description" in said) == bool(wrong)


@pytest.mark.parametrize("option", [{"account": "old"}, {"qos": "debug"}])
def test_an_account_that_the_partition_denies_is_refused(
    plan: Plan, option: dict[str, str]
) -> None:
    ((name, value),) = option.items()
    code, said = plan("not", **option)
    assert code == 1
    assert f"sbatch.{name}: partition not of x refuses {value}" in said
