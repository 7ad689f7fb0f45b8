"""Says what a node has, for the description of its cluster: one line of JSON after MARK.

    python3 - [ROOT] < probe.py        ROOT: the folder whose proc, sys, ... are read; by default /

It reads what Linux shows in /sys and /proc, and runs programs that only print. A key is missing if
nothing is known. The keys are those of a node type, and `mounts` (the text of /proc/mounts),
`programs`, `slurm_commands`, `auto_resume` and `notes`. One file: srun passes it on as its input.

Sources: Linux, Documentation/ABI (sysfs-class-infiniband, sysfs-class-net) and the guide of amdgpu;
NVIDIA's nvidia-smi manual, --query-gpu; libfabric's fi_info(1); Google's Cluster Toolkit.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, Optional

MARK = "clusterjobs probe: "
_SECONDS = 20  # for one program
_MOST = 1 << 20  # bytes that it may print
_PROGRAMS = ("apptainer", "singularity", "shifter", "enroot", "docker", "podman")
_PLAIN_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin")


class Node:
    """The node's files below `root`, and what has been found."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.found: Dict[str, Any] = {}
        self.notes: List[str] = []

    def paths(self, pattern: str) -> List[str]:
        return sorted(glob.glob(self.root + pattern))

    def driver(self, device: str) -> str:
        """The driver of a device of /sys."""
        try:
            return os.path.basename(os.readlink(os.path.join(device, "device", "driver")))
        except OSError:
            return ""


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # also of files that exist: `speed` of an interface that is down
        return ""


def line_of(path: str) -> str:
    return text_of(path).strip()


def output_of(*command: str) -> Optional[str]:
    """What the program prints; None if it is missing, fails, hangs or floods."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return None
    killed = threading.Timer(_SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    killed.start()
    output: Any = process.stdout
    with output:
        text = output.read(_MOST)  # a program that prints more ends as its pipe is closed
    code = process.wait()
    killed.cancel()
    return str(text.decode("utf-8", "replace")) if code == 0 else None


# ------------------------------------------------------------------ fabric


def find_fabric(node: Node) -> None:
    for find in (_efa, _slingshot, _infiniband, _google, _ethernet):
        if find(node):
            return


def _set(node: Node, fabric: str, interfaces: int, gbps: float) -> bool:
    node.found["fabric"] = fabric
    node.found["fabric_interfaces"] = interfaces
    if gbps > 0:
        node.found["network_gbps"] = round(gbps, 1)
    return True


def _gbps(port: str) -> float:
    """`200 Gb/sec (4X HDR)`"""
    found = re.match(r"([\d.]+) Gb/sec", line_of(os.path.join(port, "rate")))
    return float(found.group(1)) if found else 0.0


def _speeds(interfaces: List[str]) -> float:
    """In Gbps; the file has Mbit/s, and -1 if it is unknown."""
    speeds = [line_of(os.path.join(one, "speed")) for one in interfaces]
    return sum(int(one) for one in speeds if one.isdigit()) / 1000.0


def _efa(node: Node) -> bool:
    devices = [one for one in node.paths("/sys/class/infiniband/*") if node.driver(one) == "efa"]
    if not devices:
        return False
    _check_provider(node, "efa")
    return _set(node, "efa", len(devices), sum(_gbps(one + "/ports/1") for one in devices))


def _slingshot(node: Node) -> bool:
    cards = node.paths("/sys/class/cxi/cxi*")
    if not cards:
        return False
    _check_provider(node, "cxi")
    return _set(node, "slingshot", len(cards), _speeds(node.paths("/sys/class/net/hsn*")))


def _check_provider(node: Node, provider: str) -> None:
    """NCCL's plugin needs libfabric with the provider."""
    if shutil.which("fi_info") is None:
        node.notes.append(
            "fi_info is not on PATH: whether libfabric knows {} is unknown".format(provider)
        )
    elif "provider: " + provider not in (output_of("fi_info", "-p", provider) or ""):
        node.notes.append("libfabric's fi_info lists no provider {}".format(provider))


def _infiniband(node: Node) -> bool:
    active = [
        port
        for port in node.paths("/sys/class/infiniband/*/ports/*")
        if line_of(port + "/state").endswith("ACTIVE")
    ]
    ports = [one for one in active if line_of(one + "/link_layer") in ("InfiniBand", "")]
    if not ports:
        return False
    best = max(map(_gbps, ports))
    fast = [one for one in ports if _gbps(one) == best]
    if len(fast) < len(active):
        _name_ports(node, fast, [one for one in active if one not in fast])
    return _set(node, "infiniband", len(fast), best * len(fast))


def _name_ports(node: Node, fast: List[str], others: List[str]) -> None:
    """Without NCCL_IB_HCA, NCCL uses all active ports, also those for management or storage."""
    reason = "not " + ", ".join("{} ({})".format(_port(one), _kind(one)) for one in others)
    value = "=" + ",".join(map(_port, fast))
    node.found["env"] = {"NCCL_IB_HCA": {"value": value, "reason": reason}}


def _port(path: str) -> str:
    """`mlx5_0:1`"""
    parts = path.split("/")
    return "{}:{}".format(parts[-3], parts[-1])


def _kind(path: str) -> str:
    layer = line_of(path + "/link_layer") or "InfiniBand"
    return "{} Gb/s {}".format(format(_gbps(path), "g"), layer)


def _google(node: Node) -> bool:
    cards = [one for one in node.paths("/sys/class/net/*") if node.driver(one) == "gve"]
    if not cards:
        return False
    extra = len(cards) - 1  # the first is the VM's own
    if node.paths("/var/lib/tcpxo/lib64") or node.paths("/dev/aperture_devices") or extra == 8:
        return _set(node, "tcpxo", extra, _speeds(cards[1:]))
    if node.paths("/var/lib/tcpx/lib64"):
        return _set(node, "tcpx", extra, _speeds(cards[1:]))
    if extra == 4:
        node.notes.append("5 gVNIC cards, as A3 High has: write fabric: tcpx, or tcpxo")
    return _set(node, "gvnic", 1, _speeds(cards[:1]))


def _ethernet(node: Node) -> bool:
    cards = [
        one
        for one in node.paths("/sys/class/net/*")
        if os.path.exists(one + "/device") and line_of(one + "/operstate") == "up"
    ]
    return bool(cards) and _set(node, "ethernet", len(cards), _speeds(cards))


# ------------------------------------------------------------------ GPUs


def find_gpus(node: Node) -> None:
    if shutil.which("nvidia-smi"):
        _nvidia(node)
    elif not _amd(node):
        node.found["gpus"] = 0


def _nvidia(node: Node) -> None:
    query = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
    output = output_of(*query)
    rows = [line.rsplit(", ", 1) for line in (output or "").splitlines()]
    gpus = [row for row in rows if len(row) == 2 and row[1].strip().isdigit()]
    if output is None or not gpus:
        node.notes.append("nvidia-smi found no GPU")
        return
    _set_gpus(node, len(gpus), gpus[0][0], min(int(row[1]) for row in gpus))
    if len({row[0] for row in gpus}) > 1:
        node.notes.append("its GPUs differ: " + ", ".join(sorted({row[0] for row in gpus})))
    cuda = re.search(r"CUDA Version: ([\d.]+)", output_of("nvidia-smi") or "")
    if cuda:
        node.notes.append("the driver supports CUDA {}".format(cuda.group(1)))


def _amd(node: Node) -> bool:
    sizes = [line_of(one) for one in node.paths("/sys/class/drm/card*/device/mem_info_vram_total")]
    mib = [int(one) >> 20 for one in sizes if one.isdigit()]
    if not mib:
        return False
    names = [line_of(one) for one in node.paths("/sys/class/drm/card*/device/product_name")]
    _set_gpus(node, len(mib), next(filter(None, names), ""), min(mib))
    return True


def _set_gpus(node: Node, count: int, name: str, mib: int) -> None:
    node.found.update({"gpus": count, "gpu_memory": round(mib / 1024.0)})
    if name:
        node.found["gpu_model"] = name


# ------------------------------------------------------------------ disks, programs, versions


def find_disks(node: Node) -> None:
    """The largest local disk that the user may write to, apart from the system's own."""
    node.found["mounts"] = mounts = text_of(node.root + "/proc/mounts")
    disks = []
    for line in mounts.splitlines():
        device, folder, kind = [*line.split(), "", "", ""][:3]
        is_own = folder == "/" or folder.startswith(("/boot", "/var", "/usr", "/etc", "/home"))
        if device.startswith("/dev/") and kind in ("ext4", "xfs", "btrfs", "ext3") and not is_own:
            path = node.root + folder
            if os.path.isdir(path) and os.access(path, os.W_OK):
                size = os.statvfs(path)
                disks.append((size.f_frsize * size.f_blocks // 10**9, folder))
    if disks and max(disks)[0] > 0:
        node.found["local_disk_gb"], node.found["scratch"] = max(disks)


def find_programs(node: Node) -> None:
    node.found["programs"] = [one for one in _PROGRAMS if shutil.which(one)]
    srun = shutil.which("srun")
    if srun and os.path.dirname(srun) not in _PLAIN_FOLDERS:
        node.found["slurm_commands"] = os.path.dirname(srun)
    if node.paths("/opt/sagemaker_cluster"):  # of SageMaker HyperPod's AMI
        node.found["auto_resume"] = True
    bash = re.search(r"version (\d+)\.(\d+)", output_of("bash", "--version") or "")
    if bash:
        version = (int(bash.group(1)), int(bash.group(2)))
        node.notes.append("bash {}.{}".format(*version))
        if version < (4, 2):
            node.notes.append("this bash is too old: job scripts need 4.2")
    node.notes.append("python3 {}".format(platform.python_version()))


def main(words: List[str]) -> int:
    node = Node(words[0] if words else "/")
    node.found["node"] = os.environ.get("SLURMD_NODENAME") or platform.node()
    for find in (find_fabric, find_gpus, find_disks, find_programs):
        try:
            find(node)
        except Exception as error:  # the other facts are still wanted
            node.notes.append("{} failed: {}".format(find.__name__, error))
    node.found["notes"] = node.notes
    print(MARK + json.dumps(node.found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
