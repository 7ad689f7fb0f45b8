"""Each fabric's environment, and what containers, the preflight and messages know of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from clusterjobs.clusters.described.read import read_description
from clusterjobs.clusters.described.source import cluster_facts
from clusterjobs.frameworks import option_models
from clusterjobs.sections.fabrics import FABRICS, fabric_variables, ucx_devices
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import load_spec
from clusterjobs.text import show

NODE = {"cpus": 96, "gpus": 8, "gpu_type": "a100", "memory_mib": 900000, "fabric_interfaces": 4}


def plan_on(fabric: str, node: Mapping[str, object] = {}, **keys: object) -> Plan:
    """A job on two nodes with that fabric."""
    cluster = {
        "kind": "slurm",
        "node_types": {"n": {**NODE, "fabric": fabric, **node}},
        "partitions": {"batch": {"nodes": {"n": 8}}},
        "shared": {"/home": "nfs"},
    }
    job = {"name": "a", "cluster": "c", "framework": "torchrun", "script": "t.py", "nodes": 2}
    spec = load_spec(json.dumps({**job, **keys}), "exp.yaml", option_models())
    return resolve(
        spec, cluster_facts(read_description(json.dumps(cluster), "c.yaml")[0], "c.yaml")
    )


def variables(plan: Plan) -> dict[str, str]:
    return {one.name: one.value for one in plan.environment.variables}


COMMON = {
    "CLUSTERJOBS_RESULT",
    *("OMP_NUM_THREADS", "PYTHONUNBUFFERED", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME"),
    *("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"),
}


@pytest.mark.parametrize("fabric", ["infiniband", "gvnic", "ethernet"])
def test_what_nccl_finds_by_itself_needs_no_variable(fabric: str) -> None:
    plan = plan_on(fabric)
    assert set(variables(plan)) == COMMON
    assert variables(plan)["NCCL_SOCKET_IFNAME"] == "^lo,docker,veth"


@pytest.mark.parametrize("fabric", [*FABRICS])
@pytest.mark.parametrize("nodes", [1, 2])
def test_every_variable_has_a_reason_and_a_source(fabric: str, nodes: int) -> None:
    for one in fabric_variables(fabric, nodes, True, 4):
        assert one.reason
        assert one.source


def test_slingshot_keeps_what_the_site_has_set() -> None:
    plan = plan_on("slingshot")
    defaults = [one.name for one in plan.environment.variables if one.default]
    assert defaults == [
        "FI_CXI_DISABLE_HOST_REGISTER",
        "FI_MR_CACHE_MONITOR",
        "FI_CXI_DEFAULT_CQ_SIZE",
        "NCCL_NET_GDR_LEVEL",
        "NCCL_CROSS_NIC",
    ]
    assert variables(plan)["NCCL_SOCKET_IFNAME"] == "hsn"
    assert "NCCL_NET" not in variables(plan)  # the plugin's name depends on its version


def test_a_spec_replaces_a_variable_of_the_fabric() -> None:
    plan = plan_on("slingshot", env={"FI_MR_CACHE_MONITOR": "kdreg2"})
    found = [one.value for one in plan.environment.variables if one.name == "FI_MR_CACHE_MONITOR"]
    assert found == ["kdreg2"]


@pytest.mark.parametrize("fabric", ["slingshot", "tcpx", "tcpxo"])
def test_within_one_node_no_fabric_is_set_up(fabric: str) -> None:
    plan = plan_on(fabric, nodes=1)
    assert set(variables(plan)) == COMMON
    assert plan.environment.profile == ""


@pytest.mark.parametrize("cards", [4, 8])
def test_tcpxo_reads_the_plugins_profile_and_names_the_cards(cards: int) -> None:
    plan = plan_on("tcpxo", {"fabric_interfaces": cards})
    assert plan.environment.profile == "/var/lib/tcpxo/lib64/nccl-env-profile.sh"
    assert variables(plan)["NCCL_FASTRAK_IFNAME"].count(",") == cards - 1


def test_containers_get_the_plugin_of_the_node() -> None:
    container = {"runtime": "pyxis", "image": "nvcr.io#nvidia/pytorch:24.04-py3"}
    plan = plan_on("tcpx", software={"container": container})
    assert plan.container is not None
    mounts = [show(one.source) for one in plan.container.mounts]
    assert mounts[-2:] == ["/var/lib/tcpx/lib64", "/run/tcpx-$SLURM_JOB_ID"]
    assert plan.container.host_fabric_libraries == "/var/lib/tcpx/lib64"
    plan = plan_on("infiniband", software={"container": container})
    assert plan.container is not None
    assert plan.container.mounts[-1].source == "/dev/infiniband"
    assert plan.container.host_fabric_libraries is None


@pytest.mark.parametrize(
    ("nccl", "ucx"),
    [
        ("mlx5_0", "mlx5_0:1"),
        ("=mlx5_0:1,mlx5_3", "mlx5_0:1,mlx5_3:1"),
        ("mlx5", ""),  # a prefix: any device
        ("^mlx5_2", ""),
        ("", ""),
    ],
)
def test_mpi_uses_the_infiniband_ports_of_nccl(nccl: str, ucx: str) -> None:
    assert ucx_devices(nccl) == ucx


def test_ucx_is_set_only_for_mpi() -> None:
    env = {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}
    assert "UCX_NET_DEVICES" not in variables(plan_on("infiniband", env=env))
    plan = plan_on("infiniband", env=env, srun={"mpi": "pmix"}, launcher="srun")
    assert variables(plan)["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"


def test_the_ports_of_the_clusters_description_are_those_of_mpi_too() -> None:
    node = {"env": {"NCCL_IB_HCA": {"value": "=mlx5_0:1", "reason": "mlx5_1 is for storage"}}}
    plan = plan_on("infiniband", node, srun={"mpi": "pmix"}, launcher="srun")
    assert variables(plan)["NCCL_IB_HCA"] == "=mlx5_0:1"
    assert variables(plan)["UCX_NET_DEVICES"] == "mlx5_0:1"


def test_the_clusters_description_replaces_a_variable_of_the_fabric() -> None:
    node = {"env": {"FI_MR_CACHE_MONITOR": {"value": "kdreg2", "reason": "the site's libfabric"}}}
    plan = plan_on("slingshot", node)
    found = [one for one in plan.environment.variables if one.name == "FI_MR_CACHE_MONITOR"]
    assert [(one.value, one.default) for one in found] == [("kdreg2", False)]


@pytest.mark.parametrize(
    ("fabric", "checks"),
    [
        ("infiniband", ["infiniband=4", "memlock"]),
        ("slingshot", ["cxi=4"]),
        ("gvnic", ["gvnic"]),
        ("tcpx", ["plugin=/var/lib/tcpx/lib64"]),
        ("tcpxo", ["plugin=/var/lib/tcpxo/lib64"]),
        ("ethernet", []),
    ],
)
def test_the_preflight_checks_the_fabric(fabric: str, checks: list[str]) -> None:
    plan = plan_on(fabric, preflight=["fabric", "memlock", "nccl"])
    assert plan.preflight is not None
    assert [one.word for one in plan.preflight.checks[1:]] == checks
    assert plan.preflight.reads_nccl is (fabric not in ("gvnic", "ethernet"))


@pytest.mark.parametrize(
    ("fabric", "env", "what"),
    [
        ("infiniband", {"NCCL_IB_DISABLE": 1}, "turns InfiniBand off: NCCL would use TCP"),
        ("slingshot", {"NCCL_NET": "Socket"}, "Socket: Slingshot is not used"),
        ("slingshot", {"NCCL_SOCKET_IFNAME": "eth0"}, "eth0 is not the name on every"),
    ],
)
def test_variables_that_turn_the_fabric_off_are_a_warning(fabric, env, what) -> None:
    (warning,) = plan_on(fabric, env=env).warnings
    assert what in warning.what
