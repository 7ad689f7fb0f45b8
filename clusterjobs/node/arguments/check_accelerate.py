"""A script that Accelerate starts: the options and the config file of `accelerate launch`.

Source: accelerate 1.15, commands/launch.py, utils/launch.py and utils/dataclasses.py.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Dict

import deepspeed_config
from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what `accelerate launch` refuses."""
    accelerate = imported("accelerate", "Accelerate")
    launch = imported("accelerate.commands.launch", "Accelerate")
    request.version = request.version or f"Accelerate {accelerate.__version__}"
    file = request.files.get("accelerate.json", "")
    shape = [f"--num_machines={request.nodes}", f"--num_processes={request.world_size}"]
    place = ["--machine_rank=0", "--main_process_ip=localhost", "--main_process_port=12345"]
    rdzv = ["--same_network", "--rdzv_backend=static"] if request.nodes > 1 else []
    words = [*([f"--config_file={file}"] if file else []), *shape, *place, *rdzv]
    torch = importlib.import_module("torch")
    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: request.ranks_per_node
    with request.refusals():
        parser = launch.launch_command_parser()
        args = request.parse(parser.parse_args, [*words, *request.launcher_words, *request.words])
    with request.refusals(config="accelerate.json"):
        args, defaults, has_precision = launch._validate_launch_command(args)
        variables = variables_of(args, defaults, has_precision)
        check_plugins(request, args, variables)


def variables_of(args: Any, defaults: Any, has_precision: bool) -> Dict[str, str]:
    """What the ranks get: a wrong value is often refused here."""
    tools = importlib.import_module("accelerate.utils.launch")
    if args.use_deepspeed:
        keys = [
            *(defaults.deepspeed_config if defaults else []),
            *["mixed_precision"] * has_precision,
        ]
        args.deepspeed_fields_from_accelerate_config = ",".join(keys)
        return tools.prepare_deepspeed_cmd_env(args)[1]  # type: ignore[no-any-return]
    return tools.prepare_multi_gpu_env(args)  # type: ignore[no-any-return]


def check_plugins(request: Request, args: Any, variables: Dict[str, str]) -> None:
    """The plugins that the ranks make of these variables."""
    kinds = importlib.import_module("accelerate.utils.dataclasses")
    os.environ.update({name: str(value) for name, value in variables.items()})
    os.environ["WORLD_SIZE"] = str(request.world_size)
    if args.use_fsdp:
        kinds.FullyShardedDataParallelPlugin()
    if args.use_deepspeed:
        plugin = kinds.DeepSpeedPlugin()
        keys = plugin.deepspeed_config
        if args.deepspeed_config_file:
            deepspeed_config.check(request, deepspeed_config.without_auto(keys), request.world_size)
