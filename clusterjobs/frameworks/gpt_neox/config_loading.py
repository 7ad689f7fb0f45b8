"""GPT-NeoX's own YAML files, merged and checked as deepy.py does on the cluster.

Source: GPT-NeoX 2.0, megatron/neox_arguments/arguments.py (from_ymls, calculate_derived).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.frameworks.gpt_neox.config import Config, Given, Givens
from clusterjobs.spec.experiment import Batch, Experiment, Parallel
from clusterjobs.spec.model_keys import Model
from clusterjobs.yaml import document as yaml_document


def composed(texts: Mapping[str, str]) -> tuple[dict[str, Given], list[Problem]]:
    """All keys of the files, dashes as underscores; files and keys that deepy.py refuses."""
    found: dict[str, Given] = {}
    problems: list[Problem] = []
    for file, text in texts.items():
        for key, given in _keys(file, text, problems):
            if key in found:
                problems.append(_duplicate(key, given, found[key]))
            found.setdefault(key, given)
    return found, problems


def _keys(file: str, text: str, problems: list[Problem]) -> Iterator[tuple[str, Given]]:
    try:
        document = yaml_document.load(text, file, "1.1")
    except InputError as error:
        problems += error.problems
        return
    if not isinstance(document.value, dict):
        what = "a config of GPT-NeoX is a map of keys"
        problems.append(Problem(what, Location(file, 1, 1), hint="write `key: value` lines"))
        return
    for key, value in document.value.items():
        name = str(key).replace("-", "_")
        yield name, Given(value, document.locate_key((key,)), (key,), document)


def _duplicate(key: str, given: Given, first: Given) -> Problem:
    """deepy.py stops at the second, or silently uses it if only one is written with dashes."""
    there = f"{first.where.file}:{first.where.line}"
    what = f"{key} is already in {there}: deepy.py refuses a key that is in two files"
    return Problem(what, given.where, key, "remove one of the two")


def refuse_keys(
    given: Givens, origins: Mapping[str, str], hint: str, diagnostics: Diagnostics
) -> None:
    """Refuse keys in the files: {key: where its value comes from}."""
    for key in given:
        if key in origins:
            what = f"{key} comes from {origins[key]}"
            diagnostics.problems.append(Problem(what, given[key].where, key, hint))


# ------------------------------------------------------------------ the plan's numbers

_MODEL = {
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "sequence": "seq_length",
}
_BATCH = {
    "micro": "train_micro_batch_size_per_gpu",
    "global": "train_batch_size",
    "accumulation": "gradient_accumulation_steps",
}
_PARALLEL = {"tensor": "model_parallel_size", "pipeline": "pipe_parallel_size"}


def with_their_numbers(
    experiment: Experiment, given: Givens, is_complete: bool, diagnostics: Diagnostics
) -> Experiment:
    """The experiment, with model, parallel and batch of the files where the spec has none.

    `is_complete`: all files have been read.
    """
    update: dict[str, Any] = {}
    if experiment.precision is None and (precision := Config(given, is_complete, {}).precision):
        key = next(key for key in ("precision", "fp16", "bf16") if key in given)
        diagnostics.relocate(("precision",), given[key].where)
        update["precision"] = {"bfloat16": "bf16"}.get(precision, precision)
    if experiment.model is None:
        model = _counts("model", _MODEL, given, diagnostics)
        update["model"] = Model.model_validate(model) if len(model) == len(_MODEL) else None
    if experiment.batch is None:
        batch = _counts("batch", _BATCH, given, diagnostics)
        has_size = batch.keys() & {"micro", "global"}
        if is_complete and batch.keys() == {"micro", "global"}:
            diagnostics.relocate(("batch", "accumulation"), given["train_batch_size"].where)
            batch["accumulation"] = 1  # GPT-NeoX's default
        update["batch"] = Batch.model_validate(batch) if has_size else None
    if "parallel" not in experiment.model_fields_set:
        update["parallel"] = Parallel.model_validate(
            _counts("parallel", _PARALLEL, given, diagnostics)
        )
    return experiment.model_copy(update=update)


def has_batch(given: Givens) -> bool:
    """Whether the files have a batch size, right or wrong."""
    return bool(given.keys() & set(_BATCH.values()))


def _counts(
    part: str, keys: Mapping[str, str], given: Givens, diagnostics: Diagnostics
) -> dict[str, int]:
    """The integers among them; GPT-NeoX uses 0 to switch a parallel size off."""
    found: dict[str, int] = {}
    for name, key in keys.items():
        if key in given:
            diagnostics.relocate((part, name), given[key].where)
            diagnostics.relocate((part,), given[key].where)
        value = given[key].value if key in given else None
        if value is None or value == "auto" or (value == 0 and keys is _PARALLEL):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            what, where = f"{value!r} is not a count", given[key].where
            diagnostics.problems.append(Problem(what, where, key, "expected an integer, 1 or more"))
        else:
            found[name] = int(value)
    return found


# ------------------------------------------------------------------ the launch file

_BARE_EXPONENT = re.compile(r'^(\s*(?:"(?:[^"\\]|\\.)*": )?-?\d+)(e[-+]\d+,?)$', re.MULTILINE)


def yaml_text(config: Mapping[str, Any]) -> str:
    """JSON that YAML 1.1 reads the same way: 1e-05 would be text, 1.0e-05 is a number."""
    text = json.dumps(config, indent=2, ensure_ascii=False)
    return _BARE_EXPONENT.sub(r"\1.0\2", text) + "\n"
