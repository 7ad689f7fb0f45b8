"""Slurm's own configuration files for a lab, as text.

Pure functions. This module knows slurm.conf; it must not know the lab's path on this machine. In
the lab its folder is always `LAB`, a short path without spaces, because slurm.conf has no quoting
and the path of a step's socket must be shorter than 108 characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterjobs.clusters.source import SlurmNodes, SlurmPartition
from clusterjobs.lab.shape import HEAD_NODE, LabSpec
from clusterjobs.slurm.options import slurm_time

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
        *([f"GresTypes={names}"] if (names := ",".join(_gres_names(spec))) else []),
        *_node_lines(spec),
        *(_partition_line(partition) for partition in spec.partitions),
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: LabSpec) -> str:
    """gres.conf: GPUs are numbered by their files; a symlink to /dev/null is enough."""
    lines = [_gres_line(group) for group in spec.groups if group.gres]
    return "".join(f"{line}\n" for line in lines)


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
    named = [(node.address, _host_names(node.name, spec.address_suffix)) for node in spec.nodes]
    lines = ["127.0.0.1 localhost", "::1 localhost", f"{spec.head_address} {HEAD_NODE}"]
    lines += [f"{address} {names}" for address, names in named]
    # The peer addresses of a socket that listens on [::]; without a name, torch warns of each.
    lines += [f"::ffff:{address} {names}" for address, names in named]
    return "\n".join(lines) + "\n"


def _host_names(name: str, suffix: str) -> str:
    return f"{name} {name}{suffix}" if suffix else name


def gpu_count(spec: LabSpec) -> int:
    """The largest number of GPUs of any node."""
    return max((_gres_parts(group.gres)[2] for group in spec.groups), default=0)


def _gres_names(spec: LabSpec) -> list[str]:
    return sorted({_gres_parts(group.gres)[0] for group in spec.groups if group.gres})


def _node_lines(spec: LabSpec) -> Iterator[str]:
    addresses = {node.name: node.address for node in spec.nodes}
    for group in spec.groups:
        where = "State=CLOUD"
        if not spec.controller_only:
            listed = ",".join(addresses[name] for name in group.names)
            where = f"NodeAddr={listed} State=UNKNOWN"
        gres = f" Gres={group.gres}" if group.gres else ""
        feature = f" Feature={','.join(group.features)}" if group.features else ""
        yield (
            f"NodeName={group.hostlist} {where} CPUs={group.cpus} RealMemory={group.real_memory}"
            f"{_cores(group)}{gres}{feature} Weight={group.weight}"
        )


def _cores(group: SlurmNodes) -> str:
    """Left out with one thread per core: Slurm then takes each CPU for a core."""
    threads = group.threads_per_core
    if threads == 1:
        return ""
    return f" Sockets=1 CoresPerSocket={group.cpus // threads} ThreadsPerCore={threads}"


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


def _gres_line(group: SlurmNodes) -> str:
    name, kind, count = _gres_parts(group.gres)
    typed = f" Type={kind}" if kind else ""
    files = f"[0-{count - 1}]" if count > 1 else "0"
    return f"NodeName={group.hostlist} Name={name}{typed} File={LAB}/dev/nvidia{files}"


def _gres_parts(gres: str) -> tuple[str, str, int]:
    """`gpu:a100:8` or `gpu:8` -> name, type or "", count."""
    match = re.fullmatch(r"(\w+)(?::([^:]+))?:(\d+)", gres)
    return (match[1], match[2] or "", int(match[3])) if match else ("", "", 0)
