"""A script with Accelerate: `accelerate launch` up to the ranks, then the ranks' Accelerator.

Source: accelerate 1.15, commands/launch.py, utils/launch.py, utils/dataclasses.py, accelerator.py.
"""

from __future__ import annotations

import importlib
import os
import types
from typing import Any

import check_torchrun
import deepspeed_config
from argument_request import Request, imported

TITLE = "Accelerate's settings"


def check(request: Request) -> None:
    """Report what `accelerate launch` refuses, or a rank's Accelerator."""
    accelerate = imported("accelerate", "Accelerate")
    request.version = request.version or f"Accelerate {accelerate.__version__}"
    torch = importlib.import_module("torch")
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: request.ranks_per_node
    torch.cuda.current_device = lambda: 0
    if request.launcher == "accelerate":
        check_launch(request)
    else:
        with request.refusals(config=TITLE):
            check_rank(request)


def check_launch(request: Request) -> None:
    """The options and the config file, then the ranks with the variables that follow from both."""
    launch = imported("accelerate.commands.launch", "Accelerate")
    tools = imported("accelerate.utils.launch", "Accelerate")
    run = imported("torch.distributed.run", "torchrun")
    file = request.files.get("accelerate.json", "")
    shape = [f"--num_machines={request.nodes}", f"--num_processes={request.world_size}"]
    place = ["--machine_rank=0", "--main_process_ip=localhost", "--main_process_port=12345"]
    rdzv = ["--same_network", "--rdzv_backend=static"] if request.nodes > 1 else []
    words = [*([f"--config_file={file}"] if file else []), *shape, *place, *rdzv]
    tools.is_port_in_use = lambda *_: False

    def simple_launcher(args: Any) -> None:
        os.environ.update(tools.prepare_simple_launcher_cmd_env(args)[1])
        check_rank(request)

    launch.simple_launcher = simple_launcher
    with request.refusals():
        parser = launch.launch_command_parser()
        args = request.parse(parser.parse_args, [*words, *request.launcher_words, *request.words])
    with request.refusals(config=TITLE):
        check_torchrun.started(
            request, run, lambda: launch.launch_command(args), lambda: check_rank(request)
        )


def check_rank(request: Request) -> None:
    """What a rank's Accelerator makes of its variables."""
    kinds = importlib.import_module("accelerate.utils.dataclasses")
    int(os.environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS") or 1)
    kinds.PrecisionType(os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower())
    compiled = kinds.TorchDynamoPlugin()
    if compiled.backend != kinds.DynamoBackend.NO:
        torch = importlib.import_module("torch")
        torch.compile(torch.nn.Identity(), **compiled.to_kwargs())
    fsdp = kinds.FullyShardedDataParallelPlugin() if uses("FSDP") else None
    deepspeed = kinds.DeepSpeedPlugin() if uses("DEEPSPEED") else None
    if uses("PARALLELISM_CONFIG"):
        accelerator = types.SimpleNamespace(
            num_processes=request.world_size,
            multi_device=not fsdp and not deepspeed,
            is_fsdp2=fsdp and fsdp.fsdp_version == 2,
            distributed_type=kinds.DistributedType.DEEPSPEED if deepspeed else "",
            is_main_process=False,
        )
        parallel = importlib.import_module("accelerate.parallelism_config")
        parallel.ParallelismConfig()._validate_accelerator(accelerator)
    if deepspeed:
        keys = deepspeed_config.without_auto(deepspeed.deepspeed_config)
        if "train_batch_size" not in keys:  # Accelerate takes it from the script's DataLoader
            keys.setdefault("train_micro_batch_size_per_gpu", 1)
        deepspeed_config.check(request, keys, request.world_size)


def uses(name: str) -> bool:
    """Whether the rank's variables say that it uses FSDP, or the like."""
    return os.environ.get(f"ACCELERATE_USE_{name}", "false").lower() == "true"
