"""DeepSpeed's config: its own class, and the optimizer and schedule that it names.

Source: DeepSpeed 0.19, runtime/config.py and runtime/engine.py.
"""

from __future__ import annotations

import importlib
import inspect
import json
import types
from typing import Any, Dict, List

from argument_request import Request, imported


def check(request: Request, file: Any, data_parallel: int) -> None:
    """Report what DeepSpeed refuses of a config: a file, or its keys."""
    config_module = imported("deepspeed.runtime.config", "DeepSpeed")
    comm = importlib.import_module("deepspeed.comm")
    comm.get_rank = lambda *_, **__: 0  # type: ignore[attr-defined]
    ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: data_parallel)
    title = "DeepSpeed's config"
    refused = config_module.DeepSpeedConfigError
    with request.refusals(refused, config=title):
        keys = file if isinstance(file, dict) else read(file)
        config = config_module.DeepSpeedConfig(json.loads(json.dumps(keys)), ranks)
        plain = config_module.DeepSpeedConfig({"train_batch_size": data_parallel}, ranks)
        check_types(keys, vars(plain))
    with request.refusals(config=title, key="optimizer"):
        check_optimizer(keys.get("optimizer") or {}, config_module.DEEPSPEED_OPTIMIZERS)
    with request.refusals(config=title, key="scheduler"):
        check_schedule(keys.get("scheduler") or {})
    with request.refusals(config=title, key="grad_accum_dtype"):
        if (keys.get("data_types") or {}).get("grad_accum_dtype"):
            check_precision(config)


def without_auto(keys: Any) -> Any:
    """The keys without those that follow from the script or the model."""
    if not isinstance(keys, dict):
        return keys
    return {name: without_auto(value) for name, value in keys.items() if value != "auto"}


def check_types(keys: Dict[str, Any], defaults: Dict[str, Any]) -> None:
    """A text where DeepSpeed's default is a number: many sections are read as they are."""
    for section, given in keys.items():
        default = defaults.get(f"{section}_config", defaults.get(section))
        default = default if isinstance(default, dict) else getattr(default, "__dict__", {})
        for key, value in given.items() if isinstance(given, dict) else ():
            known = default.get(key)
            if isinstance(value, str) and isinstance(known, (int, float)):
                message = f"'{section}.{key}' is {value!r}, and DeepSpeed's default {known!r}"
                raise TypeError(message)


def check_precision(config: Any) -> None:
    """Without ZeRO, the engine has no optimizer that adds up gradients in another type."""
    if config.zero_enabled:
        return
    engine = importlib.import_module("deepspeed.runtime.engine").DeepSpeedEngine
    stand_in = types.SimpleNamespace(
        _config=config,
        fp16_enabled=lambda: config.float16_config.enabled,
        bfloat16_enabled=lambda: config.bfloat16_config.enabled,
        zero_optimization=lambda: False,
        pipeline_parallelism=False,
    )
    stand_in.get_data_types = lambda: engine.get_data_types(stand_in)
    engine._do_optimizer_sanity_check(stand_in, None)


def read(file: str) -> Dict[str, Any]:
    """The keys of a file, read as DeepSpeed does: none may stand there twice."""
    tools = importlib.import_module("deepspeed.runtime.config_utils")
    hook = tools.dict_raise_error_on_duplicate_keys
    with open(file, encoding="utf-8") as opened:
        return json.load(opened, object_pairs_hook=hook)  # type: ignore[no-any-return]


def check_optimizer(optimizer: Dict[str, Any], known: List[str]) -> None:
    """DeepSpeed's own optimizers by their parameters, since they need a GPU; torch's are made."""
    name, given = optimizer.get("type"), optimizer.get("params") or {}
    if not name:
        return
    if "max_grad_norm" in given:
        raise ValueError("max_grad_norm is no parameter of an optimizer; write gradient_clipping")
    torch = importlib.import_module("torch")
    if name.lower() in known:
        accepted = parameters_of(name.lower())
        for key, value in given.items() if accepted else ():
            if key not in accepted:
                raise TypeError(f"optimizer {name} has no parameter '{key}'")
            if isinstance(value, str) and isinstance(accepted[key], (int, float)):
                raise TypeError(f"'{key}' of {name} is {value!r}, and its default {accepted[key]}")
    elif hasattr(torch.optim, name):
        getattr(torch.optim, name)(torch.nn.Linear(2, 2).parameters(), **given)
    else:
        names = ", ".join(known)
        raise ValueError(f"'optimizer.type': neither DeepSpeed ({names}) nor torch has {name}")


# Read by DeepSpeed itself, and not passed on.
_OF_THE_ENGINE = {"torch_adam", "adam_w_mode", "fp32_optimizer_states"}
_CLASSES = {
    "adam": (("deepspeed.ops.adam", "FusedAdam"), ("deepspeed.ops.adam", "DeepSpeedCPUAdam")),
    "adamw": (("deepspeed.ops.adam", "FusedAdam"), ("deepspeed.ops.adam", "DeepSpeedCPUAdam")),
    "lamb": (("deepspeed.ops.lamb", "FusedLamb"),),
    "lion": (("deepspeed.ops.lion", "FusedLion"), ("deepspeed.ops.lion", "DeepSpeedCPULion")),
}


def parameters_of(name: str) -> Dict[str, Any]:
    """The parameters of its classes, on GPUs, on CPUs and of torch, with their defaults; none if
    they are unknown."""
    classes = [getattr(importlib.import_module(one), kind) for one, kind in _CLASSES.get(name, ())]
    if classes and name.startswith("adam"):
        classes.append(importlib.import_module("torch").optim.AdamW)
    found: Dict[str, Any] = dict.fromkeys(_OF_THE_ENGINE) if classes else {}
    for made in classes:
        for key, one in inspect.signature(made.__init__).parameters.items():
            found.setdefault(key, one.default)
    return found


def check_schedule(schedule: Dict[str, Any]) -> None:
    """The schedule, made by the engine's own method for an optimizer of torch."""
    if not schedule.get("type"):
        return
    torch = importlib.import_module("torch")
    engine = importlib.import_module("deepspeed.runtime.engine").DeepSpeedEngine
    stand_in = types.SimpleNamespace(
        scheduler_name=lambda: schedule["type"],
        scheduler_params=lambda: schedule.get("params") or {},
    )
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    engine._scheduler_from_config(stand_in, optimizer)
