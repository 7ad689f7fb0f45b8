"""The shape of a lab: its nodes, addresses and folders, and Slurm's configuration files for it.

Pure functions. In the lab its folder is always `LAB`, a short path without spaces, because
slurm.conf has no quoting and the path of a step's socket must be shorter than 108 characters.
"""

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clusterjobs.clusters.source import SlurmNodes, SlurmPartition, SlurmShape
from clusterjobs.errors import did_you_mean, one_problem
from clusterjobs.slurm.options import slurm_time

HEAD_NODE = "head-node"
NETWORK = ipaddress.ip_network("10.77.0.0/16")

# Jobs find this machine's programs and users' files there, on all nodes.
_SYSTEM_FOLDERS = re.compile(r"/(home|root|tmp)|/(usr|bin|sbin|lib|etc|dev|proc|sys)(/.*)?")


@dataclass(frozen=True)
class LabNode:
    """One node of the lab. Its name in Slurm is its host name; `scratch` is its own disk."""

    name: str
    address: str
    scratch: str


@dataclass(frozen=True)
class LabSpec:
    """The cluster to imitate. With `controller_only` its nodes exist only in Slurm's config."""

    cluster: str
    partitions: tuple[SlurmPartition, ...]
    shared: tuple[str, ...] = ()
    memory_scheduling: bool = False
    controller_only: bool = False
    slurm_version: str | None = None  # the cluster's; the lab may run another one
    commands: str = "/opt/slurm/bin"
    size_setting: str = "nodes"
    address_suffix: str = ""

    @property
    def groups(self) -> tuple[SlurmNodes, ...]:
        """All nodes, each once: partitions may share them, and then one of them has the most."""
        largest: dict[str, SlurmNodes] = {}
        for partition in self.partitions:
            for group in partition.groups:
                known = largest.get(group.prefix, group)
                largest[group.prefix] = max(known, group, key=lambda one: one.count)
        return tuple(largest.values())

    @property
    def nodes(self) -> tuple[LabNode, ...]:
        """The nodes to start, with ascending addresses from the first of the network."""
        if self.controller_only:
            return ()
        names = ((name, group.scratch) for group in self.groups for name in group.names)
        return tuple(
            LabNode(name, str(address), _own_disk(scratch, self.shared))
            for (name, scratch), address in zip(names, NETWORK.hosts(), strict=False)
        )

    @property
    def head_address(self) -> str:
        return str(NETWORK.broadcast_address - 1)


def _own_disk(folder: str, shared: tuple[str, ...]) -> str:
    """The node's own disk: `folder` if the lab can have it, else one that hides nothing shared."""
    if folder and not _SYSTEM_FOLDERS.fullmatch(folder):
        return folder
    name = "/scratch"
    while any(f"{each}/".startswith(f"{name}/") for each in shared):
        name += "-local"
    return name


def lab_spec(
    cluster: SlurmShape,
    nodes_per_queue: int = 2,
    queue: str | None = None,
    controller_only: bool = False,
) -> LabSpec:
    """The lab for a cluster, or for one of its queues.

    Each queue has at most `nodes_per_queue` nodes of each type. With `controller_only` it keeps
    its full size, because no node is started.
    """
    chosen = _chosen(cluster.partitions, queue)
    if not controller_only:
        chosen = tuple(_smaller(partition, nodes_per_queue) for partition in chosen)
    return LabSpec(
        cluster=cluster.name,
        partitions=chosen,
        shared=tuple(folder for folder in cluster.shared if not _SYSTEM_FOLDERS.fullmatch(folder)),
        memory_scheduling=cluster.memory_scheduling,
        controller_only=controller_only,
        slurm_version=cluster.slurm_version,
        commands=cluster.commands,
        size_setting=cluster.size_setting,
        address_suffix=cluster.address_suffix,
    )


def _chosen(
    partitions: tuple[SlurmPartition, ...], queue: str | None
) -> tuple[SlurmPartition, ...]:
    if queue is None:
        return partitions
    chosen = tuple(partition for partition in partitions if partition.name == queue)
    if not chosen:
        names = [partition.name for partition in partitions]
        raise one_problem(f"no queue {queue} in this cluster", hint=did_you_mean(queue, names))
    return tuple(partition._replace(default=True) for partition in chosen)


def _smaller(partition: SlurmPartition, nodes: int) -> SlurmPartition:
    """The nodes of each type that Slurm would allocate first: groups by weight, else in order."""
    groups: list[SlurmNodes] = []
    for group in sorted(partition.groups, key=lambda group: group.weight):
        alike = [kept.count for kept in groups if _type(kept) == _type(group)]
        count = min(group.count, nodes - sum(alike))
        if count > 0:
            groups.append(replace(group, count=count))
    return partition._replace(groups=tuple(groups))


def _type(group: SlurmNodes) -> tuple[object, ...]:
    """What jobs can tell apart: the same nodes may be two groups, which always run or do not."""
    features = frozenset(group.features) - {"static", "dynamic"}
    return group.cpus, group.real_memory, group.gres, features


# ------------------------------------------------------------------ Slurm's configuration files

LAB = "/.lab"

Version = tuple[int, int, int]

# EnforcePartLimits refuses a job with more nodes than the partition has; it would wait forever.
# Timeouts are short, so that a lost node is detected, and its job requeued, within seconds. But
# MessageTimeout is longer than KillWait. slurmd acknowledges a request to end a step when the step
# has ended, and slurmctld repeats a request without acknowledgement after a minute. By then the job
# may have been requeued, and the request would end its new ranks. On a cluster, cred_expire (120 s)
# prevents that.
# AuthType=auth/none needs no munge daemon; the lab's network is only reachable from inside.
# config_overrides lets a node have 96 CPUs in Slurm even if the machine has two.
_FIXED = f"""\
SlurmctldPort=6817
SlurmdPort=6818
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation={LAB}/state
SlurmdSpoolDir={LAB}/spool
SlurmctldPidFile={LAB}/state/slurmctld.pid
SlurmdPidFile={LAB}/spool/slurmd.pid
SlurmctldLogFile={LAB}/log/slurmctld.log
SlurmdLogFile={LAB}/log/slurmd.%n.log
SlurmdParameters=config_overrides
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0,batch_sched_delay=0
JobCompType=jobcomp/filetxt
JobCompLoc={LAB}/log/jobs.txt
ReturnToService=1
EnforcePartLimits=ALL
SlurmctldTimeout=10
TCPTimeout=2
MessageTimeout=40
BatchStartTimeout=5
InactiveLimit=0
MinJobAge=86400
MaxJobCount=10000
KillWait=30
WaitTime=0
UnkillableStepTimeout=10
TreeWidth=64
"""

# Nodes that are not started are CLOUD; otherwise sbatch --test-only would treat them as down.
_CLOUD = """\
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=300
PrivateData=cloud
"""


def slurm_conf(
    spec: LabSpec, user: str, plugin_dir: str | None, first_job_id: int, version: Version
) -> str:
    """slurm.conf; `plugin_dir` is None if Slurm is installed in its default folder."""
    gres = {_gres_parts(group.gres)[0] for group in spec.groups if group.gres}
    select = "CR_CPU_Memory" if spec.memory_scheduling else "CR_CPU"
    lines = [
        "ClusterName=lab",
        f"SlurmctldHost={HEAD_NODE}({spec.head_address})",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        *([f"PluginDir={plugin_dir}"] if plugin_dir else []),
        _FIXED.rstrip(),
        f"SlurmdTimeout={_slurmd_timeout(version)}",
        f"FirstJobId={first_job_id}",
        f"SelectTypeParameters={select}",
        *([_CLOUD.rstrip()] if spec.controller_only else []),
        *([f"GresTypes={','.join(sorted(gres))}"] if gres else []),
        *_node_lines(spec),
        *(_partition_line(partition) for partition in spec.partitions),
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: LabSpec) -> str:
    """gres.conf: GPUs are numbered by their files; a symlink to /dev/null is enough."""
    lines = []
    for group in spec.groups:
        name, kind, count = _gres_parts(group.gres)
        typed = f" Type={kind}" if kind else ""
        files = f"[0-{count - 1}]" if count > 1 else "0"
        if group.gres:
            lines.append(
                f"NodeName={group.hostlist} Name={name}{typed} File={LAB}/dev/nvidia{files}\n"
            )
    return "".join(lines)


def _slurmd_timeout(version: Version) -> int:
    """Seconds. Slurm 23.11.0 to 24.11.5 notes up to two seconds late that a node responded.

    With 3 s healthy nodes become DOWN there; with 60 nodes on a busy machine also with 20 s.
    """
    return 40 if (23, 11, 0) <= version < (24, 11, 6) else 3


def cgroup_conf(version: Version) -> str:
    """cgroup.conf: slurmd always loads a cgroup plugin.

    `disabled` is documented since 24.05; cgroup/v1 starts without any cgroup mounted.
    """
    return f"CgroupPlugin={'disabled' if version >= (24, 5, 0) else 'cgroup/v1'}\n"


def hosts(spec: LabSpec) -> str:
    """/etc/hosts of every machine of the lab."""
    suffix = spec.address_suffix
    named = [
        (node.address, f"{node.name} {node.name}{suffix}" if suffix else node.name)
        for node in spec.nodes
    ]
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{spec.head_address} {HEAD_NODE}"]
    lines += [f"{address} {names}" for address, names in named]
    # The peer addresses of a socket that listens on [::]; without a name, torch warns of each.
    lines += [f"::ffff:{address} {names}" for address, names in named]
    return "\n".join(lines) + "\n"


def gpu_count(spec: LabSpec) -> int:
    """The largest number of GPUs of any node."""
    return max((_gres_parts(group.gres)[2] for group in spec.groups), default=0)


def _node_lines(spec: LabSpec) -> Iterator[str]:
    addresses = {node.name: node.address for node in spec.nodes}
    for group in spec.groups:
        where = "State=CLOUD"
        if not spec.controller_only:
            listed = ",".join(addresses[name] for name in group.names)
            where = f"NodeAddr={listed} State=UNKNOWN"
        cores = ""  # with one thread per core: Slurm then takes each CPU for a core
        if (threads := group.threads_per_core) != 1:
            per_socket = group.cpus // threads
            cores = f" Sockets=1 CoresPerSocket={per_socket} ThreadsPerCore={threads}"
        gres = f" Gres={group.gres}" if group.gres else ""
        feature = f" Feature={','.join(group.features)}" if group.features else ""
        yield (
            f"NodeName={group.hostlist} {where} CPUs={group.cpus} RealMemory={group.real_memory}"
            f"{cores}{gres}{feature} Weight={group.weight}"
        )


def _partition_line(partition: SlurmPartition) -> str:
    nodes = ",".join(group.hostlist for group in partition.groups)
    default = "YES" if partition.default else "NO"
    exclusive = " OverSubscribe=EXCLUSIVE" if partition.exclusive else ""
    most = "" if partition.max_nodes is None else f" MaxNodes={partition.max_nodes}"
    longest = "INFINITE" if partition.max_time is None else slurm_time(partition.max_time)
    return (
        f"PartitionName={partition.name} Nodes={nodes} Default={default} "
        f"MaxTime={longest}{most} State=UP{exclusive}"
    )


def _gres_parts(gres: str) -> tuple[str, str, int]:
    """`gpu:a100:8` or `gpu:8` -> name, type or "", count."""
    match = re.fullmatch(r"(\w+)(?::([^:]+))?:(\d+)", gres)
    return (match[1], match[2] or "", int(match[3])) if match else ("", "", 0)
