"""What a probe adds to an import, with a stand-in for srun; real jobs are in tests/lab."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
import yaml

from clusterjobs.clusters.described.read import read_description
from clusterjobs.importing import command as probe_nodes
from clusterjobs.importing.collect import collect, given
from clusterjobs.importing.nodes import Seen
from clusterjobs.importing.probe import MARK, Probed, complete_cluster, read_probe
from clusterjobs.importing.records import Text
from clusterjobs.importing.write import description_text, nodes_to_probe
from clusterjobs.lab.lab import until

NODES = """\
NodeName=gpu-1 Arch=x86_64 CPUTot=96 RealMemory=512000 ThreadsPerCore=2 Gres=gpu:a100:4 \
State=MIXED Partitions=batch AvailableFeatures=(null)
NodeName=gpu-2 Arch=x86_64 CPUTot=96 RealMemory=512000 ThreadsPerCore=2 Gres=gpu:a100:4 \
State=IDLE Partitions=batch AvailableFeatures=(null)
NodeName=gpu-3 Arch=x86_64 CPUTot=96 RealMemory=512000 ThreadsPerCore=2 Gres=gpu:a100:4 \
State=DOWN Partitions=batch AvailableFeatures=(null)
NodeName=cpu-1 Arch=x86_64 CPUTot=64 RealMemory=256000 ThreadsPerCore=1 Gres=(null) \
State=IDLE+CLOUD+POWERED_DOWN Partitions=cpu AvailableFeatures=(null)
"""
PARTITIONS = """\
PartitionName=batch Default=YES MaxTime=1-00:00:00 Nodes=gpu-[1-3] State=UP OverSubscribe=NO
PartitionName=cpu Default=NO MaxTime=1-00:00:00 Nodes=cpu-1 State=UP OverSubscribe=NO
"""
FOUND = {
    "fabric": "infiniband",
    "fabric_interfaces": 4,
    "network_gbps": 800.0,
    "env": {"NCCL_IB_HCA": {"value": "=mlx5_0:1", "reason": "not mlx5_1:1 (25 Gb/s Ethernet)"}},
    "gpus": 4,
    "gpu_model": "NVIDIA A100-SXM4-80GB",
    "gpu_memory": 80,
    "scratch": "/local",
    "local_disk_gb": 1600,
    "mounts": "gpfs0 /p gpfs rw 0 0\nserver:/home /home nfs4 rw 0 0\n",
    "programs": ["apptainer"],
    "notes": ["bash 5.1"],
}


def seen(partitions: str = PARTITIONS) -> Seen:
    def include(name: str, line: object) -> Text:
        raise AssertionError(name)

    texts = [given(Text("nodes.txt", NODES)), given(Text("partitions.txt", partitions))]
    return collect(texts, include)


def probed(node: str, **changed: object) -> Probed:
    found = read_probe(MARK + json.dumps({**FOUND, **changed}), node)
    assert found is not None
    return found


def described(*probes: Probed) -> tuple[dict[str, dict[str, object]], str]:
    known = seen()
    complete_cluster(known, probes)
    text = description_text(known, (), "a test", "c")
    return yaml.safe_load(text), text


def test_one_free_node_of_each_type_is_probed_and_never_one_that_is_down() -> None:
    gpu, cpu = nodes_to_probe(seen(), ())
    assert (gpu.partition, gpu.nodes, gpu.gres) == ("batch", ("gpu-2", "gpu-1"), "gpu:a100:4")
    assert (cpu.partition, cpu.nodes, cpu.gres) == ("cpu", ("cpu-1",), "")
    assert [one.partition for one in nodes_to_probe(seen(), ["cpu"])] == ["cpu"]


def test_a_partition_for_everyone_is_probed_before_one_that_is_reserved() -> None:
    staff = "PartitionName=admin AllowGroups=staff MaxTime=1 Nodes=gpu-[1-3],cpu-1 State=UP\n"
    known = seen(staff + PARTITIONS)
    assert [one.partition for one in nodes_to_probe(known, ())] == ["batch", "cpu"]
    assert {one.partition for one in nodes_to_probe(known, ["admin"])} == {"admin"}
    text = description_text(known, (), "a test", "c")
    assert "  admin:  # only for AllowGroups=staff\n" in text


def test_what_a_node_says_completes_its_type() -> None:
    data, text = described(probed("gpu-2"))
    (gpu,) = [one for one in data["node_types"].values() if one["gpus"] == 4]  # type: ignore[index]
    for key in ("fabric", "fabric_interfaces", "env", "scratch", "local_disk_gb", "gpu_memory"):
        assert gpu[key] == FOUND[key]  # type: ignore[index]
    assert gpu["gpu_model"] == "A100"  # type: ignore[index]
    assert gpu["gpu_type"] == "a100"  # type: ignore[index]
    assert data["shared"] == {"/home": "nfs", "/p": "gpfs"}
    assert "fabric: infiniband  # seen on gpu-2" in text
    assert "# gpu-2: bash 5.1" in text
    assert "apptainer is on the PATH" in text


def test_gpus_that_slurm_does_not_count_are_written_with_the_request() -> None:
    data, text = described(probed("cpu-1", gpus=2))
    (kind,) = [one for one in data["node_types"].values() if one["cpus"] == 64]  # type: ignore[index]
    assert (kind["gpus"], kind["request_gpus"]) == (2, "none")  # type: ignore[index]
    assert "gpus: 2  # seen on cpu-1; Slurm does not count them" in text


def test_a_folder_is_shared_if_all_probed_nodes_mount_it() -> None:
    only_home = "server:/home /home nfs4 rw 0 0\n"
    data, _ = described(probed("gpu-2"), probed("cpu-1", mounts=only_home, gpus=0))
    assert data["shared"] == {"/home": "nfs"}


def test_hyperpod_is_recognized_on_the_node() -> None:
    data, _ = described(probed("gpu-2", auto_resume=True, slurm_commands="/opt/slurm/bin"))
    assert (data["auto_resume"], data["slurm_commands"]) == (True, "/opt/slurm/bin")


@pytest.mark.parametrize(
    "output",
    [
        "",
        "srun: error: Unable to allocate resources: Invalid account\n",
        MARK,
        MARK + "{",
        MARK + "[1, 2]",
        MARK + "null",
        "bash: python3: command not found\n",
    ],
)
def test_other_output_is_no_answer(output: str) -> None:
    assert read_probe(output, "n") is None


def test_lines_of_a_prolog_are_skipped_and_values_that_make_no_sense_left_out() -> None:
    wrong = {"fabric": "telegraph", "fabric_interfaces": -4, "gpus": "many", "scratch": "local"}
    text = f"Welcome\n{MARK}{json.dumps({**FOUND, **wrong})}\nepilog done\n"
    found = read_probe(text, "n")
    assert found is not None
    assert not {"fabric", "fabric_interfaces", "gpus", "scratch"} & set(found.values)
    assert found.values["local_disk_gb"] == 1600
    odd = read_probe(MARK + json.dumps({"notes": 7, "mounts": 3, "programs": {"a": 1}}), "n")
    assert odd == Probed("n", {})


SCONTROL = """\
#!/bin/bash
case "$*" in
  *node*) cat nodes.txt ;;
  *partition*) cat partitions.txt ;;
  *config*) echo 'ClusterName = c'; echo 'SLURM_VERSION = 23.11.4' ;;
  *) echo 'slurm 23.11.4' ;;
esac
"""


@pytest.fixture
def slurm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts stand-ins on PATH; the argument is what srun does."""
    tools = folder / "tools"
    tools.mkdir()
    (folder / "nodes.txt").write_text(NODES)
    (folder / "partitions.txt").write_text(PARTITIONS)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")

    def put(srun: str) -> None:
        for name, text in (("scontrol", SCONTROL), ("srun", f"#!/bin/bash\n{srun}\n")):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)

    return put


IMPORT = ("clusters", "import", "--from-slurm", "--probe")
HELP = '[[ $1 != --help ]] || exit 0\necho "$@" >> asked\n'


def test_the_command_writes_what_the_nodes_say(folder, slurm, clusterjobs) -> None:
    (folder / "found").write_text(MARK + json.dumps(FOUND) + "\n")
    slurm(f"{HELP}cat > program-$$; cat found")
    done = clusterjobs(*IMPORT, "--partition=batch")
    assert done.code == 0, done.err
    assert "probing " in done.err
    assert ": infiniband, 4 GPUs (A100), 1600 GB in /local" in done.err
    assert yaml.safe_load(done.out)["shared"] == {"/home": "nfs", "/p": "gpfs"}
    assert "--probe." in done.out.splitlines()[0]
    (asked,) = (folder / "asked").read_text().splitlines()
    for word in ("--exclusive", "--partition=batch", "--nodelist=gpu-2", "--gres=gpu:a100:4"):
        assert word in asked.split()
    (program,) = folder.glob("program-*")
    assert MARK in program.read_text()  # the whole program has arrived
    compile(program.read_text(), "probe.py", "exec")


def test_a_job_that_slurm_refuses_is_a_warning_with_slurms_words(
    folder, slurm, clusterjobs
) -> None:
    slurm(f"{HELP}echo 'srun: error: Unable to allocate resources: Invalid account' >&2; exit 1")
    done = clusterjobs(*IMPORT, "--partition=batch")
    assert done.code == 0
    assert (
        "on gpu-2 has found nothing: srun: error: Unable to allocate resources: Invalid account"
        in done.err
    )
    assert "# fabric: infiniband" in done.out


# As srun does when it gets SIGTERM: the job, which waits, is cancelled.
WAITS = f"{HELP}trap 'echo cancelled > ended; kill $!; exit' TERM\nsleep 600 & echo 1 > waits; wait"


def test_a_job_that_does_not_start_in_time_is_a_warning(folder, slurm, clusterjobs) -> None:
    slurm(WAITS)
    done = clusterjobs(*IMPORT, "--partition=batch", "--probe-seconds=3")
    assert done.code == 0
    assert "it did not start within 3 s: try again with --probe-seconds 30" in done.err


def test_ctrl_c_cancels_the_jobs_that_wait(folder, slurm, clusterjobs, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        until(lambda: (folder / "waits").exists(), 120, lambda: "srun was not called")
        raise KeyboardInterrupt

    slurm(WAITS)
    monkeypatch.setattr(probe_nodes, "_outputs", interrupt)
    assert clusterjobs(*IMPORT, "--partition=batch").code == 130
    assert (folder / "ended").exists()


def test_files_cannot_be_probed(folder, clusterjobs) -> None:
    done = clusterjobs("clusters", "import", "--from-files", "nodes.txt", "--probe")
    assert done.code == 2
    assert "--probe runs jobs: it needs --from-slurm" in done.err


@pytest.mark.parametrize("key", ["fabric", "network_gbps", "gpus", "gpu_model", "scratch", "env"])
@pytest.mark.parametrize("value", [None, 7, [[]], {"A": 1}, "x\nkind: y"])
def test_odd_values_of_a_probe_never_break_the_description(key: str, value: object) -> None:
    _, text = described(probed("gpu-1", **{key: value}))
    read_description(text, "c.yaml")


def test_a_container_program_is_suggested_only_if_a_description_can_name_it() -> None:
    _, text = described(probed("gpu-1", programs=["enroot", "x\nkind: y", "docker"]))
    assert "\n# container_program: docker  # docker is on the PATH" in text
    assert "\n# container_program: apptainer" in described(probed("gpu-1", programs=["podman"]))[1]


def test_a_probe_that_prints_deeply_nested_data_has_found_nothing() -> None:
    assert read_probe(MARK + "[" * 100_000, "gpu-1") is None
