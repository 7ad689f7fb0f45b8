"""The environment that each fabric needs: every variable with its reason and source.

A variable is here only if the fabric's documentation asks for it: NCCL and its plugins choose the
rest, and a value that the site has set stays. What is special about one cluster (which InfiniBand
ports to use) is in the cluster's own `env`. docs/fabrics.md has the whole table.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clusterjobs.frameworks.base import Variable
from clusterjobs.text import Value, joined, variable

EFA_LIBRARIES = ":".join(
    (
        "/opt/amazon/efa/lib",
        "/opt/amazon/efa/lib64",
        "/opt/amazon/ofi-nccl/lib",
        "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
        "/opt/aws-ofi-nccl/lib",
    )
)
TCPX_FOLDER = "/var/lib/tcpx/lib64"
TCPXO_FOLDER = "/var/lib/tcpxo/lib64"
_FIRST_CARD = "enp0s12"
_APERTURES = "/dev/aperture_devices"
TCPX_SOCKETS = joined("/run/tcpx-", variable("SLURM_JOB_ID"))


class Fabric(NamedTuple):
    """What the other sections know about a fabric.

    `title`: its name in messages. `network`: part of NCCL's name for it; "" if NCCL may use another
    network. `provider`: of libfabric, if it uses that. `pins_memory`: it needs an unlimited
    `ulimit -l`. `verbs`: its devices are in /dev/infiniband. `libraries`: folders of the node with
    its NCCL plugin. `folders`: what a container needs of the node. `profile`: a file of bash with
    the variables of the installed version of the plugin. `interfaces`: NCCL_SOCKET_IFNAME.
    """

    title: str
    network: str = ""
    provider: str = ""
    pins_memory: bool = False
    verbs: bool = False
    libraries: str = ""
    folders: tuple[Value, ...] = ()
    profile: str = ""
    interfaces: str = "^lo,docker,veth"


# The names of networks: NCCL's src/transport/net_ib.cc (IB), aws-ofi-nccl (Libfabric), Google's
# Cluster Toolkit (GPUDirectTCPX, FasTrak). On gVNIC, Fast Socket is faster than NCCL's own sockets:
# NCCL finds its libnccl-net.so in /usr/lib, so that no variable is needed.
FABRICS: Mapping[str, Fabric] = {
    "efa": Fabric("EFA", "Libfabric", "efa", pins_memory=True, verbs=True),
    "infiniband": Fabric("InfiniBand", "IB", pins_memory=True, verbs=True),
    "slingshot": Fabric("Slingshot", "Libfabric", "cxi", interfaces="hsn"),
    "gvnic": Fabric("gVNIC"),
    "tcpx": Fabric(
        "GPUDirect-TCPX",
        "GPUDirectTCPX",
        libraries=TCPX_FOLDER,
        folders=(TCPX_FOLDER, TCPX_SOCKETS),
        interfaces=_FIRST_CARD,
    ),
    "tcpxo": Fabric(
        "GPUDirect-TCPXO",
        "FasTrak",
        libraries=TCPXO_FOLDER,
        folders=(TCPXO_FOLDER, _APERTURES),
        profile=f"{TCPXO_FOLDER}/nccl-env-profile.sh",
        interfaces=_FIRST_CARD,
    ),
    "ethernet": Fabric("Ethernet"),
}
_UNKNOWN = Fabric("")


def fabric_of(name: str) -> Fabric:
    """The fabric of that name; an empty one if it is not known."""
    return FABRICS.get(name, _UNKNOWN)


def fabric_variables(
    name: str, nodes: int, has_gpus: bool, interfaces: int | None
) -> Iterator[Variable]:
    """The fabric's variables. `interfaces`: of a node, if their number is known."""
    if name == "efa":
        yield from _efa()
    elif not has_gpus or nodes == 1:
        return  # what follows is about NCCL between nodes
    elif name == "slingshot":
        yield from _slingshot()
    elif name == "tcpx":
        yield from _tcpx()
    elif name == "tcpxo":
        yield from _tcpxo(interfaces)


_AWS_SAMPLES = "AWS: awsome-distributed-training samples"


def _efa() -> Iterator[Variable]:
    plugin = "aws-ofi-nccl release notes"
    yield Variable("FI_PROVIDER", "efa", "plugins before 1.6 do not select it", plugin)
    reason = "with huge pages a fork runs out of memory"
    source = "aws-ofi-nccl issue 69; libfabric: fi_efa(7)"
    yield Variable("FI_EFA_USE_HUGE_PAGE", "0", reason, source)
    yield Variable(
        "LD_LIBRARY_PATH",
        EFA_LIBRARIES,
        "libfabric and its NCCL plugin, wherever the AMI has them",
        _AWS_SAMPLES,
        append=True,
    )


def neuron_efa_variables() -> Iterator[Variable]:
    """Neuron has collectives of its own, which use libfabric without NCCL."""
    guide = "AWS Neuron: multi-node execution on trn1"
    yield Variable("FI_PROVIDER", "efa", "Neuron's collectives between nodes use EFA", guide)
    reason = "device memory without a copy; libfabric before 1.18 has it off"
    yield Variable("FI_EFA_USE_DEVICE_RDMA", "1", reason, guide)
    reason = "data loaders fork; needed by kernels before 5.13"
    yield Variable("FI_EFA_FORK_SAFE", "1", reason, f"{guide}; libfabric: fi_efa(7)")
    reason = "libfabric, wherever the AMI has it"
    folders = "/opt/amazon/efa/lib:/opt/amazon/efa/lib64"
    yield Variable("LD_LIBRARY_PATH", folders, reason, _AWS_SAMPLES, append=True)


_CENTRES = "CSCS and Isambard: NCCL on Slingshot"


def _slingshot() -> Iterator[Variable]:
    """What the centres agree on. A module or container hook of the site may have set them.

    NCCL_NET is not set: the plugin was "AWS Libfabric" and is "Libfabric" in newer versions. The
    preflight reads in NCCL's log whether it is used.
    """
    reason = "Slingshot's interfaces, for NCCL's first contact"
    yield Variable(
        "NCCL_SOCKET_IFNAME", FABRICS["slingshot"].interfaces, reason, "Isambard: NCCL on Slingshot"
    )
    reason = "registering buffers of the host with the GPU locks memory, and can block CUDA"
    yield _default("FI_CXI_DISABLE_HOST_REGISTER", "1", reason, "libfabric: fi_cxi(7)")
    reason = "how libfabric notices memory that was freed"
    yield _default("FI_MR_CACHE_MONITOR", "userfaultfd", reason)
    reason = "room for NCCL's messages; a full queue slows all of them"
    yield _default("FI_CXI_DEFAULT_CQ_SIZE", "131072", reason, "libfabric: fi_cxi(7)")
    reason = "RDMA to GPUs on the NUMA node of the card"
    yield _default("NCCL_NET_GDR_LEVEL", "PHB", reason)
    yield _default("NCCL_CROSS_NIC", "1", "the cards of a node share one network")


def _default(name: str, value: str, reason: str, source: str = "") -> Variable:
    sources = f"{source}; {_CENTRES}" if source else _CENTRES
    return Variable(name, value, reason, sources, default=True)


_TOOLKIT = "Google Cluster Toolkit: NCCL tests for A3"


def _tcpx() -> Iterator[Variable]:
    """A3 High. The names of interfaces are those of the Cluster Toolkit's images."""
    plugin = "GPUDirect-TCPX moves data from the cards to the GPUs"
    yield _google("NCCL_NET", "GPUDirectTCPX_v7", f"{plugin}; NCCL fails without it")
    yield _google("NCCL_SOCKET_IFNAME", _FIRST_CARD, "the first card: NCCL's first contact")
    yield _google(
        "NCCL_GPUDIRECTTCPX_CTRL_DEV", _FIRST_CARD, "the first card: the plugin's control"
    )
    cards = "enp6s0,enp12s0,enp134s0,enp140s0"
    yield _google("NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", cards, "the four cards beside the GPUs")
    reason = "the sockets of the receive manager, which the prolog starts for each job"
    yield _google("NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX", TCPX_SOCKETS, reason)
    wait = "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS"
    yield _google(wait, "1000000", "time to steer a flow to its GPU")
    yield _google("NCCL_GPUDIRECTTCPX_FORCE_ACK", "0", "no acknowledgement of each message")
    yield _google("NCCL_GPUDIRECTTCPX_TX_COMPLETION_NANOSLEEP", "1000", "threads that send sleep")
    yield _google("NCCL_ALGO", "Ring", "the plugin supports rings alone")
    yield _google("NCCL_PROTO", "Simple", "the plugin supports this protocol alone")
    yield _google("NCCL_CROSS_NIC", "0", "each card has a network of its own")
    yield _google("NCCL_NET_GDR_LEVEL", "PIX", "a GPU uses the card on its own PCI switch")
    yield _google("NCCL_P2P_PXN_LEVEL", "0", "likewise, without a detour through another GPU")
    yield _google("NCCL_NSOCKS_PERTHREAD", "4", "sockets of a connection")
    yield _google("NCCL_SOCKET_NTHREADS", "1", "threads of a connection")
    yield _google("NCCL_MIN_NCHANNELS", "12", "channels of the plugin")
    yield _google("NCCL_MAX_NCHANNELS", "12", "likewise")
    yield _google("NCCL_BUFFSIZE", "4194304", "sizes that the plugin is tuned for")
    for name in ("NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE"):
        yield _google(name, "524288", "likewise")
    yield _google("NCCL_P2P_NVL_CHUNKSIZE", "1048576", "likewise")
    yield _plugin_folder(TCPX_FOLDER)


_TCPXO_CARDS = {
    # A3 Mega has a card for each GPU, A3 High one for two.
    4: "enp6s0f0,enp12s0f0,enp134s0f0,enp140s0f0",
    8: "enp6s0,enp7s0,enp13s0,enp14s0,enp134s0,enp135s0,enp141s0,enp142s0",
}


def _tcpxo(interfaces: int | None) -> Iterator[Variable]:
    """The profile of the plugin has set the others; these name the interfaces of a VM."""
    yield _google("NCCL_FASTRAK_CTRL_DEV", _FIRST_CARD, "the first card: the plugin's control")
    yield _google("NCCL_SOCKET_IFNAME", _FIRST_CARD, "the first card: NCCL's first contact")
    cards = _TCPXO_CARDS.get(interfaces or 8, _TCPXO_CARDS[8])
    yield _google("NCCL_FASTRAK_IFNAME", cards, "the cards beside the GPUs")
    reason = "where the node has the apertures of the cards"
    yield _google("NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY", _APERTURES, reason)
    yield _plugin_folder(TCPXO_FOLDER)


def _google(name: str, value: Value, reason: str) -> Variable:
    return Variable(name, value, reason, _TOOLKIT)


def _plugin_folder(folder: str) -> Variable:
    reason = "NCCL's plugin, which the prolog installs"
    return Variable("LD_LIBRARY_PATH", folder, reason, _TOOLKIT, append=True)


_DEVICE = re.compile(r"[A-Za-z][A-Za-z0-9]*_\d+(?::\d+)?")


def ucx_devices(nccl_devices: str) -> str:
    """NCCL_IB_HCA as UCX_NET_DEVICES; "" if it has prefixes or excludes devices.

    NCCL: `mlx5_0` may lack the port, and `=` asks for whole names. UCX: `mlx5_0:1`, whole names.
    Sources: NCCL user guide; Open MPI: InfiniBand and RoCE support.
    """
    devices = nccl_devices.removeprefix("=").split(",")
    if not all(map(_DEVICE.fullmatch, devices)):
        return ""
    return ",".join(one if ":" in one else f"{one}:1" for one in devices)
