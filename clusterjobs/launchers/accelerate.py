"""Hugging Face Accelerate's launcher, one per node. Source: accelerate 1.15, commands/launch.py."""

from __future__ import annotations

from clusterjobs.launchers import Launcher

CONFIG_NAME = "accelerate.json"  # in the job's folder, a config file of every framework it starts

ACCELERATE = Launcher(
    "accelerate",
    "one accelerate launch per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no_python",
    shares_nodes=True,
    sets_node_rank=True,
    argument_check="check_accelerate",
    program_options={
        "num_processes": "world_size",
        "num_machines": "nodes",
        "machine_rank": "",
        "main_process_ip": "",
        "main_process_port": "",
        "multi_gpu": "",
        "deepspeed_hostfile": "",
        "deepspeed_multinode_launcher": "",
        "use_deepspeed": "zero: {stage: 2}",
        "use_fsdp": "fsdp: {}",
    },
)
