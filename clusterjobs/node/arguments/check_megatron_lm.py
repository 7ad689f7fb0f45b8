"""Megatron-LM: its parser, its validation, its model's config and its learning rate's schedule.

Source: NVIDIA/Megatron-LM, megatron/training/arguments.py and training.py.
"""

from __future__ import annotations

import importlib
import typing
from typing import Any

import megatron_script
from argument_request import NotCheckedError, Request, imported, stand_in_if_missing


def check(request: Request) -> None:
    """Report what Megatron-LM refuses."""
    stand_in(request)
    arguments = imported("megatron.training.arguments", request.title)
    core = imported("megatron.core", request.title)
    request.version = f"Megatron-LM (core {getattr(core, '__version__', 'unknown')})"
    with request.refusals():
        args, defaults = megatron_script.parsed(request, arguments.parse_args)
        if args.use_checkpoint_args or getattr(args, "yaml_cfg", None) is not None:
            raise NotCheckedError("arguments come from a checkpoint or a YAML file, too")
        arguments.validate_args(args, defaults)
        prepare_training(args)
        make_configs(args, arguments)


def stand_in(request: Request) -> None:
    """A GPU of the job's kind, Triton, and torch.compile, which needs it."""
    torch: Any = imported("torch", request.title)
    major, minor = request.capability

    class Properties:
        name, total_memory, multi_processor_count = "GPU", 80 << 30, 128

    Properties.major, Properties.minor = major, minor  # type: ignore[attr-defined]
    torch.cuda.get_device_capability = lambda *_: (major, minor)
    torch.cuda.get_device_properties = lambda *_: Properties
    torch.compile = lambda model=None, **_: model or (lambda function: function)
    stand_in_if_missing("triton")
    if not hasattr(typing, "override"):  # Python 3.12's, which main imports
        typing.override = lambda method: method  # type: ignore[attr-defined]


def prepare_training(args: Any) -> None:
    """The number of microbatches, and the schedule."""
    variables = importlib.import_module("megatron.training.global_vars")
    for name in list(vars(variables)):
        if name.startswith("_set_"):  # writers of logs, which make folders
            setattr(variables, name, lambda *_: None)
    for name in ("destroy_global_vars", "unset_num_microbatches_calculator"):
        getattr(variables, name, lambda: None)()  # the check may be a repeated one
    variables.set_global_variables(args, build_tokenizer=False)
    megatron_script.check_schedule("megatron.training.training")


def make_configs(args: Any, arguments: Any) -> None:
    """The configs of the model, of data parallelism and of the optimizer have their own checks."""
    make = getattr(arguments, "core_transformer_config_from_args", None)
    if make is None:
        module = importlib.import_module("megatron.training.argument_utils")
        make = module.core_transformer_config_from_args
    make(args)
    training = importlib.import_module("megatron.training.training")
    for name in ("get_megatron_ddp_config", "get_megatron_optimizer_config"):
        getattr(training, name, lambda _: None)(args)  # not all releases have both
