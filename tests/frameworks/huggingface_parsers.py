"""A program: what the installed accelerate and transformers make of configs and command lines.

It reads JSON from stdin: {"launches": [files of accelerate launch], "commands": [words of a
Trainer's script]}, and prints for each what they would set.
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env
from transformers import HfArgumentParser, TrainingArguments


def variables_of(config: str) -> dict[str, str]:
    """The variables that `accelerate launch` sets on the second of two machines."""
    shape = ["--num_machines=2", "--num_processes=16", "--machine_rank=1", "--same_network"]
    place = ["--main_process_ip=node-1", "--main_process_port=12345", "--rdzv_backend=static"]
    words = [f"--config_file={config}", *shape, *place, "train.py"]
    args, defaults, has_precision = _validate_launch_command(
        launch_command_parser().parse_args(words)
    )
    if args.use_deepspeed:
        fields = [*defaults.deepspeed_config, *(["mixed_precision"] if has_precision else [])]
        args.deepspeed_fields_from_accelerate_config = ",".join(fields)
        _, variables = prepare_deepspeed_cmd_env(args)
    else:
        variables = prepare_multi_gpu_env(args)
    of_torchrun = {"nnodes": args.nnodes, "nproc_per_node": args.nproc_per_node}
    new = {name: value for name, value in variables.items() if name not in os.environ}
    return {**new, **of_torchrun, "node_rank": str(args.node_rank), "address": args.master_addr}


def arguments_of(words: list[str]) -> dict[str, object]:
    """The Trainer's arguments, and what it tells Accelerate about FSDP."""
    found = HfArgumentParser((TrainingArguments,)).parse_args(words)
    given = SimpleNamespace(
        fsdp=found.fsdp,
        fsdp_config=found.fsdp_config,
        activation_checkpointing=False,
        _apply_legacy_fsdp_to_config=TrainingArguments._apply_legacy_fsdp_to_config,
    )
    plugin = TrainingArguments._process_fsdp_args(given)
    names = ("per_device_train_batch_size", "gradient_accumulation_steps", "bf16", "fp16")
    more = ("output_dir", "deepspeed", "use_cpu", "gradient_checkpointing")
    return {**{name: getattr(found, name) for name in (*names, *more)}, "plugin": plugin}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    answer = {
        "launches": [variables_of(one) for one in asked["launches"]],
        "commands": [arguments_of(one) for one in asked["commands"]],
    }
    print(json.dumps(answer))
