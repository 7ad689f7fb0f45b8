"""The preflight's checks of InfiniBand, Slingshot and Google's networks.

They read Linux' /sys: a test gives each node a folder in its place, with the files that the
kernel's documentation names (ABI/stable/sysfs-class-infiniband).
"""

from __future__ import annotations

import pathlib

import pytest
from preflight_nodes import FAILED, Preflight


def put(file: pathlib.Path, text: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def port(sys: pathlib.Path, device: str, state: str, layer: str = "InfiniBand") -> None:
    folder = sys / "class/infiniband" / device / "ports/1"
    put(folder / "state", f"{state}\n")
    put(folder / "link_layer", f"{layer}\n")


def use(preflight: Preflight, node: str, folder: pathlib.Path, sign: str = "/sys/") -> None:
    """The node's programs look into `folder` instead of /sys/ or another folder."""
    preflight.fault(node, f'old={sign} new={folder}/; set -- "${{@//"$old"/"$new"}}"')


@pytest.fixture
def sys_of(preflight: Preflight, tmp_path: pathlib.Path) -> dict[str, pathlib.Path]:
    nodes = {node: tmp_path / f"sys-{node}" for node in ("node-1", "node-2")}
    for node, folder in nodes.items():
        use(preflight, node, folder)
    return nodes


def test_active_infiniband_ports_are_counted_and_a_lost_one_is_seen(preflight, sys_of) -> None:
    for sys in sys_of.values():
        port(sys, "mlx5_0", "4: ACTIVE")
        port(sys, "mlx5_1", "4: ACTIVE")
        port(sys, "mlx5_2", "4: ACTIVE", "Ethernet")  # RoCE, or the management network
    code, said = preflight.run("infiniband=2")
    assert code == 0, said
    assert "  ok  infiniband  2 active ports  2 active ports  all 2" in said
    port(sys_of["node-2"], "mlx5_1", "1: DOWN")
    code, said = preflight.run("infiniband=2")
    assert code == FAILED
    assert "node node-2: infiniband: 1 active ports; wanted: 2 active ports" in said


def test_slingshot_cards_are_counted(preflight, sys_of) -> None:
    for sys in sys_of.values():
        for card in range(4):
            put(sys / f"class/cxi/cxi{card}/device/uevent")
    assert preflight.run("cxi=4")[0] == 0
    code, said = preflight.run("cxi=5")
    assert code == FAILED
    assert "cxi: 4 cards; wanted: 5 cards" in said


def test_a_node_without_the_fabric_fails(preflight, sys_of) -> None:
    code, said = preflight.run("infiniband=1", "cxi=1", "gvnic")
    assert code == FAILED
    assert "infiniband: no active ports; wanted: 1 active ports" in said
    assert "cxi: no cards; wanted: 1 cards" in said
    assert "gvnic: no interface with the driver gve; wanted: gVNIC and Fast Socket" in said


def test_gvnic_without_fast_socket_is_a_warning(preflight, sys_of) -> None:
    for sys in sys_of.values():
        folder = sys / "class/net/ens4/device"
        folder.mkdir(parents=True)
        (folder / "driver").symlink_to("../../../../bus/pci/drivers/gve")
    code, said = preflight.run("gvnic")
    assert code == 0, said
    assert "gVNIC, no Fast Socket (libnccl-net.so)" in said


def test_a_missing_plugin_of_nccl_is_named(preflight, tmp_path) -> None:
    folder = tmp_path / "tcpxo/lib64"
    code, said = preflight.run(f"plugin={folder}")
    assert code == FAILED
    assert f"plugin: not there; wanted: libnccl-net.so in {folder}" in said
    put(folder / "libnccl-net.so")
    code, said = preflight.run(f"plugin={folder}")
    assert code == 0, said
