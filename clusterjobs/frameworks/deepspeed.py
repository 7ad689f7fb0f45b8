"""A script that calls deepspeed.initialize: its arguments and its ds_config.json.

Both come from the spec's `batch`, `precision` and `zero`, so that they cannot disagree.
Source of the rules: DeepSpeed 0.19.8, runtime/config.py and runtime/pipe/engine.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field

from clusterjobs.frameworks.contract import (
    JOB_DIR,
    ConfigFile,
    Program,
    Task,
    argument_words,
    refuse_arguments,
    script_of,
)
from clusterjobs.ledger import Ledger
from clusterjobs.spec.experiment import Part
from clusterjobs.spec.references import has_variable
from clusterjobs.spec.words import Stage
from clusterjobs.yaml_source import Path, dotted

CONFIG_NAME = "ds_config.json"


class Zero(Part):
    """ZeRO's stage. The other keys of zero_optimization go into ds_config."""

    stage: Stage


class Options(Part):
    """`zero`, and `ds_config` for all of DeepSpeed's config that is not derived."""

    zero: Zero | None = None
    ds_config: dict[str, Any] = Field(default_factory=dict)


class DeepSpeed:
    """`framework: deepspeed`."""

    name = "deepspeed"
    launchers: tuple[str, ...] = ("srun", "torchrun", "deepspeed")
    options: type[BaseModel] | None = Options

    def program(self, task: Task, ledger: Ledger) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.experiment, ledger)
        refuse_arguments(
            task.experiment,
            ledger,
            {
                "deepspeed": "framework: deepspeed",
                "deepspeed_config": "batch, precision, zero and ds_config",
                "local_rank": "the launcher, which sets LOCAL_RANK",
            },
        )
        _check_zero(task, options, ledger)
        config = _config(task, options, ledger)
        if script is None:
            return None
        words = (
            script,
            *argument_words(task.experiment),
            "--deepspeed",
            "--deepspeed_config",
            f"{JOB_DIR}/{CONFIG_NAME}",
        )
        return Program(words, is_python=True, files=(ConfigFile(CONFIG_NAME, config),))


def _check_zero(task: Task, options: Options, ledger: Ledger) -> None:
    pipeline = task.experiment.parallel.pipeline
    if options.zero and options.zero.stage >= 2 and pipeline > 1:
        ledger.problem(
            ("zero", "stage"),
            f"ZeRO stage {options.zero.stage} cannot be combined with pipeline: {pipeline}",
            "stage 1 at most: DeepSpeed's pipeline engine asserts it (runtime/pipe/engine.py)",
        )


def _config(task: Task, options: Options, ledger: Ledger) -> str:
    """The text of ds_config.json: what is derived first, then the spec's own keys."""
    derived = _derived_config(task, options)
    _check_own_config(options.ds_config, ledger)
    if task.experiment.batch is None:
        ledger.missing(
            "batch",
            "batch is missing: DeepSpeed needs the batch size in its config",
            "add `batch: {micro: 8, global: 128}`",
        )
    if task.samples is not None:
        ledger.derive(
            "ds_config.train_batch_size",
            task.samples.global_,
            f"micro {task.samples.micro} x accumulation {task.samples.accumulation} "
            f"x data parallel {task.shape.data_parallel}",
            "DeepSpeed runtime/config.py asserts it",
        )
    return json.dumps(_merged(derived, options.ds_config), indent=2, ensure_ascii=False) + "\n"


def _derived_config(task: Task, options: Options) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if samples := task.samples:
        config["train_batch_size"] = samples.global_
        config["train_micro_batch_size_per_gpu"] = samples.micro
        config["gradient_accumulation_steps"] = samples.accumulation
    if (precision := task.experiment.precision) in ("fp16", "bf16"):
        config[str(precision)] = {"enabled": True}
    if options.zero:
        config["zero_optimization"] = {"stage": options.zero.stage}
    return config


_SAID_BY = {
    "train_batch_size": "batch: {global: ...}",
    "train_micro_batch_size_per_gpu": "batch: {micro: ...}",
    "gradient_accumulation_steps": "batch: {accumulation: ...}",
    "fp16.enabled": "precision: fp16",
    "bf16.enabled": "precision: bf16",
    "zero_optimization.stage": "zero: {stage: ...}",
}


def _check_own_config(own: Mapping[str, Any], ledger: Ledger) -> None:
    """What the plan derives is said in one place only, and the rest must be JSON."""
    for path, value in _leaves(own, ()):
        key = dotted(path)
        if key in _SAID_BY:
            ledger.problem(
                ("ds_config", *path),
                f"{key} is derived",
                f"write {_SAID_BY[key]} instead, so that the plan can check it",
            )
        elif isinstance(value, float) and not math.isfinite(value):
            ledger.problem(
                ("ds_config", *path), f"{value} is not a number in JSON", "write a finite number"
            )
        elif isinstance(value, str) and has_variable(value):
            ledger.problem(
                ("ds_config", *path),
                "a parameter cannot be in a config file: it is fixed when the job is rendered",
                "pass it through args, or change the spec with --set",
            )


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in more.items():
        inner = result.get(key)
        is_both = isinstance(inner, dict) and isinstance(value, dict)
        result[key] = _merged(inner or {}, value) if is_both else value
    return result
