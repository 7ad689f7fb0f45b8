"""Megatron-DeepSpeed: its parser and validation, microbatches and schedule, and its ds_config.

Source: deepspeedai/Megatron-DeepSpeed, megatron/arguments.py, microbatches.py and training.py.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import deepspeed_config
import megatron_script
from argument_request import Request, imported


def check(request: Request) -> None:
    """Report what Megatron-DeepSpeed refuses."""
    deepspeed = imported("deepspeed", request.title)
    stand_in()
    arguments = imported("megatron.arguments", request.title)
    request.version = f"Megatron-DeepSpeed (DeepSpeed {deepspeed.__version__})"
    args: Any = None
    with request.refusals():
        args, defaults = megatron_script.parsed(request, arguments.parse_args)
        check_sizes(request, args)
        arguments.validate_args(args, defaults)
        variables = importlib.import_module("megatron.global_vars")
        variables.set_args(args)
        batches = importlib.import_module("megatron.microbatches")
        batches.build_num_microbatches_calculator(args)
        megatron_script.check_schedule("megatron.training")
    if args is not None and args.deepspeed_config:
        sizes = args.tensor_model_parallel_size * args.pipeline_model_parallel_size
        deepspeed_config.check(request, args.deepspeed_config, args.world_size // sizes)


def stand_in() -> None:
    """A module that DeepSpeed 0.19 has no more, and that Megatron-DeepSpeed imports."""
    name = "deepspeed.compression.compress"
    try:
        importlib.import_module(name)
    except ImportError:
        module = types.ModuleType(name)
        module.init_compression = module.redundancy_clean = None  # type: ignore[attr-defined]
        sys.modules[name] = module


def check_sizes(request: Request, args: Any) -> None:
    """Sizes that its validation would lower to the world size without a word."""
    for size in ("tensor_model_parallel_size", "pipeline_model_parallel_size"):
        if getattr(args, size) > args.world_size:
            flag = "--" + size.replace("_", "-")
            what = f"{getattr(args, size)} is lowered to the world size, {args.world_size}"
            request.problem(what, "megatron/arguments.py, validate_args", flag)
