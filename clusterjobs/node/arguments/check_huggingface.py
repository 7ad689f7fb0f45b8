"""Hugging Face's Trainer: the script's own parser and dataclasses, else TrainingArguments.

Source: transformers 5, hf_argparser.py and training_args.py; trl 1, scripts/utils.py.
"""

from __future__ import annotations

import importlib
import json
from typing import Any, Sequence

import deepspeed_config
import script_names
from argument_request import NotCheckedError, Request, imported

PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")


def check(request: Request) -> None:
    """Report what the dataclasses refuse."""
    transformers = imported("transformers", request.title)
    request.version = f"transformers {transformers.__version__}"
    stand_in()
    parser, is_whole = parser_of(request, transformers)
    words = request.arguments

    def parse(given: Sequence[str]) -> Any:
        if len(given) == 1 and given[0].endswith(".json"):
            return parser.parse_json_file(given[0])
        if len(given) == 1 and given[0].endswith((".yaml", ".yml")):
            return parser.parse_yaml_file(given[0])
        if hasattr(parser, "parse_args_and_config"):
            return parser.parse_args_and_config(args=list(given))
        return parser.parse_args_into_dataclasses(
            args=list(given), return_remaining_strings=not is_whole
        )

    with request.refusals():
        parsed = request.parse(parse, words)
        for one in parsed:
            if isinstance(one, transformers.TrainingArguments):
                check_parts(one)
                check_deepspeed(request, one)


def stand_in() -> None:
    """GPUs with bfloat16 and TF32, which the login node has not."""
    module = importlib.import_module("transformers.training_args")
    for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
        if hasattr(module, name):
            setattr(module, name, lambda: True)
    if hasattr(module, "enable_tf32"):
        module.enable_tf32 = lambda *_: None  # type: ignore[attr-defined]
    arguments = module.TrainingArguments
    # The device would be a GPU, and the process group would wait for the other ranks.
    torch = importlib.import_module("torch")
    device = torch.device("cpu")
    arguments._setup_devices = property(lambda _: device)
    arguments.device = property(lambda _: device)
    arguments.n_gpu = property(lambda _: 1)
    arguments.distributed_state = None


def parser_of(request: Request, transformers: Any) -> Any:
    """The script's own parser, and True; else one of TrainingArguments alone, and False."""
    tree = script_names.tree_of(request.script)
    if tree is None:
        raise NotCheckedError(f"the script {request.script} cannot be read")
    for call in script_names.calls_of(tree, PARSERS):
        try:
            return script_names.value_of(tree, request.script, call), True
        except Exception:  # its imports may be missing here
            continue
    return transformers.HfArgumentParser((transformers.TrainingArguments,)), False


def check_parts(arguments: Any) -> None:
    """What the Trainer makes of them before the first step."""
    integrations = importlib.import_module("transformers.integrations")
    integrations.get_reporting_integration_callbacks(arguments.report_to)
    torch = importlib.import_module("torch")
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    importlib.import_module("transformers.optimization").get_scheduler(
        arguments.lr_scheduler_type,
        optimizer,
        num_warmup_steps=0,
        num_training_steps=100,
        scheduler_specific_kwargs=arguments.lr_scheduler_kwargs,
    )
    torch.utils.data.DataLoader(
        [0],
        num_workers=arguments.dataloader_num_workers,
        persistent_workers=arguments.dataloader_persistent_workers,
    )
    if arguments.torch_compile:
        backend, mode = arguments.torch_compile_backend, arguments.torch_compile_mode
        torch.compile(model, backend=backend, mode=mode)
    if not getattr(arguments, "optim_target_modules", None):  # layers of the job's model
        trainer = importlib.import_module("transformers.trainer").Trainer
        trainer.get_optimizer_cls_and_kwargs(arguments, model)


def check_deepspeed(request: Request, arguments: Any) -> None:
    """The config of DeepSpeed that the Trainer gets, with its `auto` filled in."""
    if not getattr(arguments, "deepspeed", None):
        return
    integration = importlib.import_module("transformers.integrations.deepspeed")
    config = integration.HfTrainerDeepSpeedConfig(arguments.deepspeed)
    config.trainer_config_process(arguments)
    keys = json.loads(json.dumps(config.config))
    deepspeed_config.check(request, deepspeed_config.without_auto(keys), request.world_size)
