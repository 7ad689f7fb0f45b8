"""The probe of a node, with stand-ins for what a node has.

Folders in place of /sys and /proc have the files that Linux documents (ABI/stable:
sysfs-class-infiniband; ABI/testing: sysfs-class-net), with texts as their documentation shows them.
nvidia-smi prints what NVIDIA's manual describes, fi_info what libfabric's fi_info(1) shows.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs import resources
from clusterjobs.importing.probe import MARK

NVIDIA_SMI = """\
#!/bin/bash
if [[ $* == '--query-gpu=name,memory.total --format=csv,noheader,nounits' ]]; then
  for ((i = 0; i < 8; i++)); do echo 'NVIDIA A100-SXM4-40GB, 40960'; done
elif (( ! $# )); then
  echo '| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |'
else
  exit 2
fi
"""
FI_INFO = """\
#!/bin/bash
[[ "$*" == "-p {0}" ]] || {{ echo 'fi_getinfo: -61 (No data available)'; exit 61; }}
printf 'provider: {0}\\n    fabric: {0}\\n    domain: {0}0\\n    version: 119.0\\n'
"""


class Machine:
    """A node: `root` has its files, `bin` its programs."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root, self.bin = folder / "root", folder / "bin"
        self.bin.mkdir()
        self.put("proc/mounts", "sysfs /sys sysfs rw 0 0\n")

    def put(self, path: str, text: str = "") -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def driver(self, device: str, name: str) -> None:
        folder = self.root / device / "device"
        folder.mkdir(parents=True)
        (folder / "driver").symlink_to(f"/sys/bus/pci/drivers/{name}")

    def port(
        self, device: str, rate: str, layer: str = "InfiniBand", state: str = "4: ACTIVE"
    ) -> None:
        folder = f"sys/class/infiniband/{device}/ports/1"
        self.put(f"{folder}/state", f"{state}\n")
        self.put(f"{folder}/rate", f"{rate}\n")
        self.put(f"{folder}/link_layer", f"{layer}\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def probe(self) -> dict[str, Any]:
        """As srun runs it: the program comes as input."""
        done = subprocess.run(
            [sys.executable, "-BEs", "-", str(self.root)],
            input=resources.node_program("probe.py"),
            capture_output=True,
            text=True,
            timeout=120,
            env={"PATH": f"{self.bin}:/usr/bin:/bin", "SLURMD_NODENAME": "n1"},
        )
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        (line,) = done.stdout.splitlines()
        found: dict[str, Any] = json.loads(line.removeprefix(MARK))
        assert found["node"] == "n1"
        return found


@pytest.fixture
def machine(tmp_path: pathlib.Path) -> Machine:
    return Machine(tmp_path)


def network(found: dict[str, Any]) -> tuple[object, ...]:
    return found.get("fabric"), found.get("fabric_interfaces"), found.get("network_gbps")


def p4d(machine: Machine) -> None:
    machine.program("fi_info", FI_INFO.format("efa"))
    for card in range(4):
        machine.port(f"rdmap{card}s27", "100 Gb/sec (4X EDR)", "Unspecified")
        machine.driver(f"sys/class/infiniband/rdmap{card}s27", "efa")


def slingshot(machine: Machine) -> None:
    machine.program("fi_info", FI_INFO.format("cxi"))
    for card in range(4):
        machine.put(f"sys/class/cxi/cxi{card}/device/uevent")
        machine.put(f"sys/class/net/hsn{card}/speed", "200000\n")


def infiniband(machine: Machine) -> None:
    for card in range(4):
        machine.port(f"mlx5_{card}", "200 Gb/sec (4X HDR)")
    machine.port("mlx5_4", "200 Gb/sec (4X HDR)", state="1: DOWN")


def gvnic(machine: Machine) -> None:
    machine.driver("sys/class/net/ens4", "gve")
    machine.put("sys/class/net/ens4/speed", "-1\n")  # a virtual card has none


def a3_mega(machine: Machine) -> None:
    for card in range(9):
        machine.driver(f"sys/class/net/enp{card}s0", "gve")


def a3_high(machine: Machine) -> None:
    for card in range(5):
        machine.driver(f"sys/class/net/enp{card}s0", "gve")
    machine.put("var/lib/tcpx/lib64/libnccl-net.so")


def ethernet(machine: Machine) -> None:
    machine.driver("sys/class/net/eno1", "ixgbe")
    machine.put("sys/class/net/eno1/operstate", "up\n")
    machine.put("sys/class/net/eno1/speed", "10000\n")
    machine.driver("sys/class/net/eno2", "ixgbe")
    machine.put("sys/class/net/eno2/operstate", "down\n")
    machine.put("sys/class/net/docker0/operstate", "up\n")  # no device


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (p4d, ("efa", 4, 400.0)),
        (slingshot, ("slingshot", 4, 800.0)),
        (infiniband, ("infiniband", 4, 800.0)),
        (gvnic, ("gvnic", 1, None)),
        (a3_mega, ("tcpxo", 8, None)),
        (a3_high, ("tcpx", 4, None)),
        (ethernet, ("ethernet", 1, 10.0)),
    ],
)
def test_each_fabric_is_recognized(
    machine: Machine, make: Callable[[Machine], None], wanted: tuple[object, ...]
) -> None:
    make(machine)
    found = machine.probe()
    assert network(found) == wanted
    assert "env" not in found
    assert not [note for note in found["notes"] if "provider" in note]


def test_infiniband_ports_that_differ_are_named_for_nccl(machine: Machine) -> None:
    infiniband(machine)
    machine.port("mlx5_5", "100 Gb/sec (2X HDR)")
    machine.port("mlx5_6", "25 Gb/sec (1X EDR)", "Ethernet")
    found = machine.probe()
    assert network(found) == ("infiniband", 4, 800.0)
    assert found["env"] == {
        "NCCL_IB_HCA": {
            "value": "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1",
            "reason": "not mlx5_5:1 (100 Gb/s InfiniBand), mlx5_6:1 (25 Gb/s Ethernet)",
        }
    }


def test_a_libfabric_without_the_provider_is_a_note(machine: Machine) -> None:
    slingshot(machine)
    machine.program("fi_info", FI_INFO.format("tcp"))
    assert "libfabric's fi_info lists no provider cxi" in machine.probe()["notes"]
    (machine.bin / "fi_info").unlink()
    assert any("fi_info is not on PATH" in one for one in machine.probe()["notes"])


def test_gpus_of_nvidia_are_those_of_nvidia_smi(machine: Machine) -> None:
    machine.program("nvidia-smi", NVIDIA_SMI)
    found = machine.probe()
    assert (found["gpus"], found["gpu_memory"]) == (8, 40)
    assert found["gpu_model"] == "NVIDIA A100-SXM4-40GB"
    assert "the driver supports CUDA 12.4" in found["notes"]


def test_a_broken_nvidia_smi_is_a_note(machine: Machine) -> None:
    machine.program("nvidia-smi", "#!/bin/bash\necho 'No devices were found'\nexit 6\n")
    found = machine.probe()
    assert "gpus" not in found
    assert "nvidia-smi found no GPU" in found["notes"]


def test_gpus_of_amd_are_those_of_linux(machine: Machine) -> None:
    for card in range(8):
        machine.put(f"sys/class/drm/card{card}/device/mem_info_vram_total", f"{64 << 30}\n")
        machine.put(f"sys/class/drm/card{card}/device/product_name", "AMD INSTINCT MI250X\n")
    found = machine.probe()
    assert (found["gpus"], found["gpu_memory"]) == (8, 64)
    assert found["gpu_model"] == "AMD INSTINCT MI250X"


def test_the_largest_local_disk_that_users_may_write_to_is_the_scratch(machine: Machine) -> None:
    (machine.root / "local").mkdir()
    mounts = (
        "/dev/sda1 / ext4 rw 0 0\n/dev/sda2 /var/log xfs rw 0 0\n/dev/nvme0n1 /local xfs rw 0 0\n"
        "10.0.0.1@tcp:/fsx /fsx lustre rw 0 0\n/dev/nvme1n1 /gone xfs rw 0 0\n"
    )
    machine.put("proc/mounts", mounts)
    found = machine.probe()
    assert found["scratch"] == "/local"
    assert (
        found["local_disk_gb"]
        == os.statvfs(machine.root).f_blocks * os.statvfs(machine.root).f_frsize // 10**9
    )
    assert found["mounts"] == mounts


def test_programs_and_the_folders_of_hyperpod_are_found(machine: Machine) -> None:
    for name in ("apptainer", "enroot", "srun"):
        machine.program(name, "#!/bin/bash\n")
    machine.put("opt/sagemaker_cluster/config.json")
    found = machine.probe()
    assert found["programs"] == ["apptainer", "enroot"]
    assert found["slurm_commands"] == str(machine.bin)
    assert found["auto_resume"] is True


def test_a_node_that_shows_nothing_is_still_reported(machine: Machine) -> None:
    found = machine.probe()
    assert found["gpus"] == 0
    assert "fabric" not in found


def test_a_program_that_hangs_ends_the_search_for_it_alone(machine: Machine) -> None:
    p4d(machine)
    machine.program("nvidia-smi", "#!/bin/bash\nexec sleep 600\n")
    program = resources.node_program("probe.py").replace("_SECONDS = 20", "_SECONDS = 1")
    assert program != resources.node_program("probe.py")
    done = subprocess.run(
        [sys.executable, "-BEs", "-", str(machine.root)],
        input=program,
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": f"{machine.bin}:/usr/bin:/bin"},
    )
    found = json.loads(done.stdout.removeprefix(MARK))
    assert found["fabric"] == "efa"
    assert "nvidia-smi found no GPU" in found["notes"]
