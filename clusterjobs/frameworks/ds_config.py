"""DeepSpeed's config, for all frameworks that use DeepSpeed: derived keys, then the spec's own.

Source of the rules: DeepSpeed 0.19.8, runtime/config.py and runtime/pipe/engine.py.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import InputError
from clusterjobs.frameworks.base import TOKEN, LogLine, Task, Variable
from clusterjobs.frameworks.ds_config_rules import DsConfig, check_keys
from clusterjobs.frameworks.flags import table
from clusterjobs.spec.field_types import Stage
from clusterjobs.spec.field_types import path as checked_path
from clusterjobs.spec.model import Key, SpecModel
from clusterjobs.text import Text, expanding, joined, show, variable
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted

CONFIG_NAME = "ds_config.json"
LATEST = ("latest", r"(global_step\d+)")  # runtime/engine.py: save_checkpoint overwrites it

THROUGHPUT = LogLine(
    r"global_step=(?P<step>\d+), RunningAvgSamplesPerSec=(?P<average_samples_per_second>[\d.]+), "
    r"CurrSamplesPerSec=(?P<samples_per_second>[\d.]+)",
    "[2026-11-21 01:52:10,101] [INFO] [timer.py:264:stop] epoch=0/micro_step=5/global_step=5, "
    "RunningAvgSamplesPerSec=442.37, CurrSamplesPerSec=390.12, MemAllocated=0.38GB, "
    "MaxMemAllocated=0.38GB",
    "DeepSpeed 0.19.8, utils/timer.py; only with log_level: info in ds_config",
)


class Zero(SpecModel):
    """ZeRO's stage. Other keys of zero_optimization are written in ds_config."""

    stage: Annotated[
        Stage,
        Key(
            "what the ranks partition: 0 nothing, 1 the states of the optimizer, 2 also "
            "gradients, 3 also parameters",
            "1",
        ),
    ]


ZERO = Key(
    "ZeRO of DeepSpeed; megatron-deepspeed without DeepSpeed: `false`",
    "{stage: 1}",
    schedules=False,
    belongs_with=("size",),
)
DS_CONFIG = Key(
    "the rest of DeepSpeed's config; also [a file beside the spec]"
    "(frameworks/huggingface.md#deepspeed) (not megatron-deepspeed)",
    "{gradient_clipping: 1.0}",
    schedules=False,
    writes_file=True,
    allows_null=True,
)


def check_zero(zero: Zero | None, pipeline: int, diagnostics: Diagnostics) -> None:
    """ZeRO 2 and 3 partition gradients that a pipeline still accumulates."""
    if zero and zero.stage >= 2 and pipeline > 1:
        diagnostics.problem(
            ("zero", "stage"),
            f"ZeRO stage {zero.stage} cannot be combined with pipeline: {pipeline}",
            "stage 1 at most: DeepSpeed's pipeline engine asserts it (runtime/pipe/engine.py)",
        )


def derived_config(task: Task, zero: Zero | None) -> dict[str, Any]:
    """The keys that follow from the spec's `batch`, `precision` and `zero`."""
    config: dict[str, Any] = {}
    if samples := task.samples:
        config["train_batch_size"] = samples.global_
        config["train_micro_batch_size_per_gpu"] = samples.micro
        config["gradient_accumulation_steps"] = samples.accumulation
    if (precision := task.spec.precision) in ("fp16", "bf16"):
        config[str(precision)] = {"enabled": True}
    if zero:
        config["zero_optimization"] = {"stage": zero.stage}
    return config


class Further(NamedTuple):
    """What a config may contain beside the keys that are not derived.

    `is_file`: values that agree with the derived ones, since the file is used elsewhere, too.
    `keeps_auto`: "auto", which Hugging Face's Trainer and Accelerate replace. `has_own_batch`: the
    program gets the batch sizes elsewhere, too, so that the spec need not have them.
    """

    is_file: bool = False
    keeps_auto: bool = False
    has_own_batch: bool = False


NOTHING_FURTHER = Further()


def config_text(
    task: Task,
    derived: Mapping[str, Any],
    own: Mapping[str, Any],
    diagnostics: Diagnostics,
    provenance: Provenance,
    further: Further = NOTHING_FURTHER,
) -> str:
    """The text of ds_config.json: `derived` first, then the spec's own keys."""
    _check_own_config(own, derived, further, diagnostics)
    merged = _merged(derived, own)
    zero = merged.get("zero_optimization")
    stage = zero.get("stage") if isinstance(zero, dict) else None
    check_keys(
        DsConfig(own, stage if isinstance(stage, int) else None, task.spec.precision),
        table("deepspeed", task.spec),
        diagnostics,
    )
    if not further.has_own_batch:
        check_batch(task, diagnostics)
    record_batch(task, "ds_config.train_batch_size", provenance)
    return json_text(merged)


def json_text(config: Mapping[str, Any]) -> str:
    """The text of a config file, with one key on each line; equal configs give equal texts."""
    # Of values with references, check_json reports a problem.
    texts = {key: json.dumps(config[key], ensure_ascii=False, default=show) for key in config}
    lines = [f"  {json.dumps(key, ensure_ascii=False)}: {text}" for key, text in texts.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n" if lines else "{}\n"


def check_batch(task: Task, diagnostics: Diagnostics) -> None:
    """DeepSpeed does not start without a batch size."""
    if task.spec.batch is None:
        diagnostics.missing(
            "batch",
            "batch is missing: DeepSpeed needs the batch size in its config",
            "add `batch: {micro: 8, global: 128}`",
        )


def record_batch(task: Task, name: str, provenance: Provenance) -> None:
    """Record the global batch size under `name`."""
    if task.samples is not None:
        provenance.record(
            name,
            task.samples.global_,
            f"micro {task.samples.micro} x accumulation {task.samples.accumulation} "
            f"x data parallel {task.parallelism.data}",
            "DeepSpeed runtime/config.py asserts it",
        )


def extensions_folder() -> Variable:
    """The folder in which DeepSpeed compiles kernels; a killed build leaves its lock there."""
    return Variable(
        "TORCH_EXTENSIONS_DIR",
        joined(
            "/tmp/torch-extensions-", variable("SLURM_JOB_ID"), "-", variable("attempt"), "-", TOKEN
        ),
        "else a killed build's lock stays",
        "pytorch 189245",
    )


_WRITE_INSTEAD = {
    "train_batch_size": "batch: {global: ...}",
    "train_micro_batch_size_per_gpu": "batch: {micro: ...}",
    "gradient_accumulation_steps": "batch: {accumulation: ...}",
    "fp16.enabled": "precision: fp16",
    "bf16.enabled": "precision: bf16",
    "bfloat16.enabled": "precision: bf16",
    "zero_optimization.stage": "zero: {stage: ...}",
}


def _check_own_config(
    own: Mapping[str, Any], derived: Mapping[str, Any], further: Further, diagnostics: Diagnostics
) -> None:
    """Refuse keys that the plan derives, and values that JSON cannot hold."""
    known = {dotted(path): value for path, value in leaves(derived, ())}
    for path, value in leaves(own, ()):
        key = dotted(path)
        if value == "auto":
            if not further.keeps_auto:
                diagnostics.problem(
                    ("ds_config", *path),
                    'only Hugging Face\'s Trainer and Accelerate replace "auto": DeepSpeed would '
                    "use its default, or fail",
                    "write a value, or framework: huggingface or accelerate",
                )
        elif key not in _WRITE_INSTEAD:
            check_json("ds_config", path, value, diagnostics)
        elif not (further.is_file and _agrees(key, value, known)):
            what = f"{key} is derived"
            hint = f"write {_WRITE_INSTEAD[key]} instead, so that the plan can check it"
            if further.is_file and key in known:
                what = f"{key} is {value} here, and {known[key]} according to the spec"
                hint = f"remove it, or change {_WRITE_INSTEAD[key].partition(':')[0]} in the spec"
            diagnostics.problem(("ds_config", *path), what, hint)


def _agrees(key: str, value: Any, known: Mapping[str, Any]) -> bool:
    """Whether a derived key has the derived value, or one that the spec leaves open."""
    if key == "zero_optimization.stage" and key not in known:
        return True
    return bool(known.get(key, False if key.endswith(".enabled") else None) == value)


def check_json(key: str, path: Path, value: Any, diagnostics: Diagnostics) -> None:
    """Refuse values that JSON cannot hold, and values known only when the job runs."""
    if isinstance(value, float) and not math.isfinite(value):
        diagnostics.problem(
            (key, *path), f"{value} is not a number in JSON", "write a finite number"
        )
    elif isinstance(value, Text):
        diagnostics.problem(
            (key, *path),
            "a config file cannot contain a value that is known only when the job runs",
            "pass it through args, or change the spec with --set",
        )


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """The single values in maps and lists, each with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The two merged. A key without a value in `more` ("auto", null) keeps that of `base`."""
    result = dict(base)
    for key, value in more.items():
        if key in base and (value is None or value == "auto"):
            continue
        inner = result.get(key)
        is_both = isinstance(inner, dict) and isinstance(value, dict)
        result[key] = _merged(inner or {}, value) if is_both else value
    return result


# ------------------------------------------------------------------ config keys
# Keys of a program's config: in the spec, or in a file beside it.


class OwnConfig(NamedTuple):
    """A key of the spec that has a config; `whose` it is, and an example of its keys."""

    key: str
    whose: str
    example: str


OWN_DS_CONFIG = OwnConfig("ds_config", "DeepSpeed", "{gradient_clipping: 1.0}")


def keys_or_file(example: str) -> BeforeValidator:
    """Accepts a mapping, or the name of a file; `example`: how to write one."""

    def check(value: Any) -> Any:
        if isinstance(value, dict):
            return value
        if isinstance(value, Text):
            raise ValueError(f"{_NOT_YET}: write its path without variables")
        if not isinstance(value, str):
            raise ValueError(f"expected a mapping, or a file: write {example}")
        return checked_path(value)

    return BeforeValidator(check)


DsConfigKeys = Annotated[dict[str, Any] | str, keys_or_file("ds_config: ds_zero2.json")]


def config_file(given: Mapping[str, Any] | str) -> tuple[str, ...]:
    """The file, if the keys are in one."""
    return (given,) if isinstance(given, str) else ()


def own_keys(
    given: Mapping[str, Any] | str,
    texts: Mapping[str, str],
    diagnostics: Diagnostics,
    config: OwnConfig = OWN_DS_CONFIG,
) -> Mapping[str, Any]:
    """The keys, from the spec or from the file's text; {} with a problem if it cannot be read.

    Later problems with a key are reported at its line in the file.
    """
    if not isinstance(given, str):
        return given
    if given not in texts:
        diagnostics.problem((config.key,), *_missing(given, config))
        return {}
    try:
        # In JSON, a tab can only be indentation, which YAML does not allow.
        document = yaml_document.load(texts[given].replace("\t", " "), given)
    except InputError as error:
        diagnostics.add(error.problems)
        return {}
    if not isinstance(document.value, dict):
        what = f"{given} is not a config of {config.whose}, which is a mapping of keys"
        hint = f"write keys into it, or into the spec: {config.key}: {config.example}"
        diagnostics.problem((config.key,), what, hint)
        return {}
    _relocate(document, document.value, (config.key,), diagnostics)
    return document.value


def keys_of(given: Mapping[str, Any] | str, texts: Mapping[str, str]) -> Mapping[str, Any]:
    """The keys of the config; {} where the file cannot be read, without a problem."""
    if not isinstance(given, str):
        return given
    try:
        found = yaml_document.load(texts.get(given, "{}").replace("\t", " "), given).value
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


_NOT_YET = "the file is read when the job is rendered"


def _missing(name: str, config: OwnConfig) -> tuple[str, str]:
    if isinstance(expanding(name), Text):
        return _NOT_YET, "write its path without variables"
    return (
        f"there is no file {name} beside the spec or in workdir",
        f"write its path, or the keys themselves: {config.key}: {config.example}",
    )


def _relocate(document: Document, value: Any, path: Path, diagnostics: Diagnostics) -> None:
    if path[1:]:
        diagnostics.relocate(path, document.locate(path[1:]))
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        _relocate(document, item, (*path, key), diagnostics)
