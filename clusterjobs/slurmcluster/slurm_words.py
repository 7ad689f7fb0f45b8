"""Slurm's own names for what a description has, for hints: `RealMemory` is memory_mib here.

It knows names alone.
"""

from __future__ import annotations

_KEYS = {
    "cpus: ...": ("cpus", "cputot", "procs", "ncpus", "vcpus"),
    "memory_mib: ..., in MiB": ("realmemory", "memory", "mem", "memory_gib", "memory_gb", "ram"),
    "threads_per_core: ...": ("threadspercore", "threads"),
    "gpus: ... and gpu_type: ...": ("gres", "gpu", "gpus_per_node", "ngpus"),
    "features: [...]": ("features", "feature", "activefeatures", "availablefeatures", "constraint"),
    "network_gbps: ...": ("bandwidth", "network", "network_gbit"),
    "local_disk_gb: ..., and scratch: ... for its folder": ("tmpdisk", "tmp_disk", "local_disk"),
    "max_time: ...": ("maxtime", "timelimit", "time_limit", "time"),
    "max_nodes: ...": ("maxnodes",),
    "exclusive: true": ("oversubscribe", "shared_nodes"),
    "nodes: {TYPE: COUNT}": ("totalnodes", "count", "node_count", "num_nodes", "nodename"),
    "partitions: {NAME: {nodes: {TYPE: COUNT}}}": ("queues", "queue", "partitionname"),
    "node_types: {NAME: {...}}": ("instance_types", "nodes"),
    "shared: {/FOLDER: KIND}": ("mounts", "filesystems", "storage", "shared_folders"),
    "name: ...": ("clustername", "cluster_name", "cluster"),
    "slurm_version: ...": ("slurmversion", "version", "slurm"),
    "qos: [...]": ("qoses", "allowqos", "qos_list"),
    "accounts: [...]": ("account", "allowaccounts"),
    "master_addr_suffix: ...": ("hostname_suffix", "node_suffix", "address_suffix"),
    "memory_scheduling: true": ("selecttypeparameters",),
    "default_partition: ...": ("default", "default_queue"),
    "source: [/FILE]": ("profile", "bashrc"),
    "setup: [...], lines of bash, for example module load NAME": ("modules", "module"),
}
_OURS = {word: ours for ours, words in _KEYS.items() for word in words}


def key_of_slurm(word: str) -> str:
    """What a description has in place of an unknown key; "" if nothing is known."""
    return _OURS.get(word.lower(), "")


_FABRICS = {
    "infiniband": ("ib", "edr", "hdr", "hdr100", "hdr200", "ndr", "ndr200", "ndr400", "mlx5"),
    "slingshot": ("hsn", "cxi", "ss10", "ss11", "slingshot11", "slingshot-11", "cassini"),
    "ethernet": ("tcp", "eth", "gige", "10gbe", "25gbe", "100gbe", "none"),
    "gvnic": ("gve", "fastsocket", "fast-socket"),
    "tcpx": ("gpudirect-tcpx", "gpudirecttcpx"),
    "tcpxo": ("gpudirect-tcpxo", "fastrak"),
}


def fabric_of(word: str) -> str:
    """The fabric that another word means; "" if nothing is known."""
    return next((ours for ours, words in _FABRICS.items() if word.lower() in words), "")
