"""The names that people give to the values of a step, and what they mean.

A name is looked up by its last words, the longest known ending first: `train/step_time` is a
`step_time`. What stands in front of the ending must be one of the words that change nothing.
"""

import functools
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from clusterjobs.report.logs.general.numbers import ONE_UNIT, PER_SECOND, STEPS_UNIT, THINGS_UNIT
from clusterjobs.report.logs.records import Quantity

# `rounded`: a step such as `1.2K`.
Meaning = Quantity | Literal["step", "rounded", "epoch", "length", ""]

# How certain the name of a step is: of several in a line, the first kind counts.
STEPS: Mapping[str, int] = {
    **dict.fromkeys(("global_step", "global_steps", "current_steps", "num_updates"), 0),
    **dict.fromkeys(("step", "steps", "update", "updates", "train_step"), 1),
    **dict.fromkeys(("iteration", "iterations", "iter", "iters", "it"), 2),
    "batch": 3,
}
_LENGTHS = ("total_steps", "max_steps", "train_steps_total")
STEP_WORDS = (*STEPS, "iterations", "batches", "its", "b")
SECOND_WORDS = ("s", "sec", "secs", "second", "seconds")
_TIMES = (  # beside those made of the words above
    *("time", "seconds", "dt", "iter_dt", "step_avg", "step_timing", "train_step_timing"),
    *("timing_s_step", "batch_cost", "batch_t"),
)
_MILLISECONDS = ("elapsed_time_per_iteration_ms",)
_CLOCKS = (  # since the start of the training
    *("elapsed", "elapsed_time", "train_time", "time_elapsed", "total_time", "wall_time"),
    *("wall_clock", "wall", "time_since_start", "elapsed_seconds", "used_time", "total_used_time"),
)
_LOSSES = (
    *("loss", "crossentropyloss", "cross_entropy", "cross_entropy_loss"),
    *("loss_step", "xent", "cost"),  # of Lightning, OpenNMT-py and Marian
)
_IN_MB = ("memory", "max_mem")  # without a unit, as mmcv and torchvision print them
_MEMORY = (
    *("memory", "mem", "max_mem", "max_memory", "peak_memory", "peak_mem", "max_mem_allocated"),
    *("memory_allocated", "peak_memory_active", "mem_reserved", "memory_reserved", "gpu_mem"),
)
_GPU_USE = ("gpu_util", "gpu_utilization", "gpu_use", "utilization_gpu", "cuda_utilization")
_GPU_PERCENT = tuple(f"{name}_{unit}" for name in _GPU_USE for unit in ("percent", "pct"))
_NORMS = ("grad_norm", "gnorm", "gradient_norm", "gradnorm", "total_norm", "norm")
_PER = ("_per_sec", "_per_second", "_s", "_sec", "_per_s")
_OF_ONE = ("_per_gpu", "_gpu", "_device", "_per_device", "_chip")
_SAMPLES = ("samples", "images", "imgs", "img", "image", "examples", "sequences", "seqs", "seq")
_TOKENS = ("tokens", "tok", "token", "toks")
# What a step has many of: their number is none of steps.
THINGS = frozenset(
    (*_SAMPLES, *_TOKENS, "sample", "sequence", "sen", "sentences", "words", "bytes")
)


def _speeds() -> tuple[list[str], list[str], list[str]]:
    """Names of a step's time in seconds and in ms, and of steps in a second.

    `step_time`, `time_per_iter`, `sec/it`, `ms_per_batch`, `it/s`, `steps_per_second` and so on.
    """
    times, milliseconds, inverse = [*_TIMES], [*_MILLISECONDS], []  # type: list[str], list[str], list[str]
    for step in STEP_WORDS:
        times += [f"{step}_time", f"time_{step}", f"time_per_{step}", f"elapsed_time_per_{step}"]
        milliseconds += [f"ms_{step}", f"ms_per_{step}", f"{step}_ms"]
        for second in SECOND_WORDS:
            times += [f"{second}_{step}", f"{second}_per_{step}"]
            inverse.append(f"{step}_per_{second}")
            if step.endswith("s"):  # `step_sec` may be either
                inverse.append(f"{step}_{second}")
        if not step.endswith("s"):
            times.append(f"{step}_seconds")
    return times, milliseconds, inverse


_STEP_TIMES, _STEP_MILLISECONDS, _INVERSE = map(frozenset, _speeds())


def _rates() -> dict[str, Meaning]:
    """`tokens_per_second`, `tok_s`, `device_img_sec`, `samples_s_gpu` and so on."""
    found: dict[str, Meaning] = {}
    for things, kind in ((_SAMPLES, "samples"), (_TOKENS, "tokens")):
        whole, each = cast("list[Quantity]", [f"{kind}_per_second", f"{kind}_per_second_per_gpu"])
        for thing, per in itertools.product(things, _PER):
            found[thing + per] = whole
            for one in _OF_ONE:
                found |= dict.fromkeys((thing + per + one, thing + one + per), each)
            found["device_" + thing + per] = each
        found[f"device_{kind[0]}ps"] = each
    return found


NAMES: Mapping[str, Meaning] = {
    **dict.fromkeys(STEPS, "step"),
    **dict.fromkeys(_LENGTHS, "length"),
    **dict.fromkeys(("epoch", "epochs", "ep"), "epoch"),
    **dict.fromkeys((*_STEP_TIMES, *_INVERSE, *_STEP_MILLISECONDS), "seconds"),
    **dict.fromkeys(_CLOCKS, "elapsed"),
    **dict.fromkeys(_LOSSES, "loss"),
    **dict.fromkeys(_MEMORY, "memory_gib"),
    **dict.fromkeys(_NORMS, "grad_norm"),
    **dict.fromkeys((*_GPU_USE, *_GPU_PERCENT), "gpu_percent"),
    **dict.fromkeys(("lr", "learning_rate"), "learning_rate"),
    **dict.fromkeys(("data_time", "data", "data_t", "data_loading_time"), "data_seconds"),
    **dict.fromkeys(("global_batch_size", "gbs"), "batch"),
    **dict.fromkeys(("loss_scale",), "loss_scale"),
    **dict.fromkeys(("mfu",), "printed_mfu"),
    **dict.fromkeys(("hfu",), "printed_hfu"),
    **dict.fromkeys(
        ("tflops", "tflops_gpu", "tflops_per_gpu", "tflop_s_device", "tflop_s_gpu", "tflop_s"),
        "printed_tflops_per_gpu",
    ),
    **_rates(),
}
_LONGEST = max(name.count("_") for name in NAMES) + 1  # words

OTHER = frozenset(("val", "valid", "validation", "eval", "evaluation", "test", "dev"))
# Of what a loss or a norm is: the time of a part is not that of a step.
_PARTS = frozenset(
    (
        *("actor", "policy", "pg", "model", "mlm", "nll", "ce", "optim", "optimizer", "group0"),
        *("decoupledadamw", "adamw", "adam"),
    )
)
_SAME = _PARTS | frozenset(
    (
        *("train", "training", "total", "lm", "mean", "avg", "average", "running", "reduced"),
        *("cur", "current", "smoothed", "ema", "perf", "throughput", "system", "timing", "speed"),
        *("metrics", "global", "info", "debug", "root", "main", "log", "console"),
        *("progress", "last", "step", "batch", "iter", "iteration", "interval", "avr", "is"),
        *("per", "this", "the", "so", "far"),
    )
)
_OF_GPUS = _SAME | {"gpu", "peak", "max", "reserved", "rank", "last"}  # of memory
_MEANS = frozenset(("mean", "avg", "average", "running", "smoothed", "ema", "avr"))
_NOT_STEPS = OTHER | frozenset(
    (
        *("max", "total", "warmup", "save", "saved", "saving", "log", "logging", "accumulation"),
        *(
            "per",
            "time",
            "num",
            "every",
            "decay",
            "inner",
            "gradient",
            "micro",
            "checkpoint",
            "eta",
            "each",
            "in",
        ),
    )
)
_NOT_EPOCHS = _NOT_STEPS - OTHER
_SECONDS = {
    "us": 1e-6,
    "ms": 1e-3,
    **dict.fromkeys(("", *SECOND_WORDS), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), 3600.0),
}
_OF_NAMES = frozenset((*_SECONDS, "gb", "gib", "mb", "mib")) - {""}  # `step_time_ms`
_GIB = {"gib": 1.0, "gb": 1.0, "g": 1.0, "gi": 1.0, "mib": 1 / 1024, "mb": 1 / 1024, "m": 1 / 1024}
_FLOPS = {"k": 1e-9, "m": 1e-6, "g": 1e-3, "t": 1.0}
_THOUSANDS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
_OF_ONE_PROCESS = (("ips",), ("avg", "ips"))  # Paddle's images in a second, of its own batch
_RATE = re.compile(rf"([km]?) ?({THINGS_UNIT}){PER_SECOND}((?:/| per ){ONE_UNIT})?")
_STEP_RATE = re.compile(rf"{STEPS_UNIT}{PER_SECOND}")
_STEP_TIME = re.compile(rf"(ms|us|s|sec|seconds?)/{STEPS_UNIT}")


_FRONTS: Mapping[Meaning, frozenset[str]] = {
    **dict.fromkeys(("loss", "grad_norm", "learning_rate"), _SAME),
    "memory_gib": _OF_GPUS,
    "gpu_percent": _OF_GPUS | {"id", "0", "device"},
}
VAGUE = ("time", "seconds")  # of a step, or of anything else
_WITH_UNITS = ("seconds", "elapsed", "data_seconds", "memory_gib")
BY_UNIT = 10  # the rank of what has no name, but a unit
PART = 5  # the rank of the loss of a part


class Field(NamedTuple):
    """What a number is: the value is the number x `scale`, or 1 / that.

    `rank`: 0 is most certain. `is_other`: of the validation.
    """

    meaning: Meaning
    scale: float = 1.0
    is_inverse: bool = False
    rank: int = 0
    is_other: bool = False


@dataclass(frozen=True, eq=False)
class Dialect:
    """Names that one program uses in its own sense; a line with its `mark` is one of it.

    `of_samples`: its steps count samples, and its times are of a sample.
    """

    name: str
    mark: re.Pattern[str]
    from_zero: bool = False  # whether it counts steps from 0
    of_samples: bool = False
    names: Mapping[str, Meaning] = field(default_factory=dict)


_OF_GPU: dict[str, Meaning] = dict.fromkeys(("tps", "wps"), "tokens_per_second_per_gpu")
_IPS: dict[str, Meaning] = {"ips_total": "tokens_per_second", "ips": "", "speed": ""}
DIALECTS: tuple[Dialect, ...] = (
    Dialect("torchtitan", re.compile("  memory: .{1,40}  [tw]ps: "), names=_OF_GPU),
    Dialect("nemo", re.compile("train_step_timing in s[:=] ?"), from_zero=True),
    Dialect("maxtext", re.compile("completed step: "), from_zero=True),
    Dialect("paddle", re.compile(r"\] epoch: .{1,80}avg_batch_cost: "), from_zero=True, names=_IPS),
    Dialect("aws-fsdp", re.compile(r"\bbatch \d{1,15} loss: .{1,40}, speed: "), from_zero=True),
    Dialect("pix2pix", re.compile(r"\(epoch: \d{1,9}, iters: \d{1,15}, time: "), of_samples=True),
    Dialect(
        "espnet",
        re.compile(r"batch: iter_time=.{1,40}forward_time="),
        names={"iter_time": "data_seconds", "train_time": "seconds"},
    ),
    Dialect("litgpt", re.compile(r"\| iter time: ")),
    Dialect("composer", re.compile(r"\[batch=\d{1,15}/\d{1,15}\]"), names={"time_batch": ""}),
    # Its mean since the start follows from the time since the start, which says more.
    Dialect("modded-nanogpt", re.compile("step_avg:"), names={"step_avg": ""}),
    Dialect("verl", re.compile("timing_s/step:"), names={"throughput": _OF_GPU["tps"]}),
    Dialect(
        "torchvision", re.compile(r"img/s: "), names={"img_per_s": "samples_per_second_per_gpu"}
    ),
)
OWN = Dialect("own script", re.compile(r"(?!)"))


@functools.lru_cache(maxsize=4096)
def field_of(name: tuple[str, ...], unit: str, dialect: Dialect) -> Field | None:
    """What a number with this name and unit is; None if it is nothing that is reported."""
    is_other = not OTHER.isdisjoint(name)
    if unit and (rate := _of_rate(unit, is_of_one=name in _OF_ONE_PROCESS)):
        return rate._replace(is_other=is_other)
    if unit.endswith("fu"):  # `50.0% bf16 MFU`
        return Field("printed_mfu" if unit.endswith("mfu") else "printed_hfu", 0.01, rank=BY_UNIT)
    if not name and unit in ("ms", "us"):
        return Field("seconds", _SECONDS[unit], rank=BY_UNIT + 2)
    if unit == "/s" and "time" not in name:
        return Field("samples_per_second", rank=BY_UNIT + 2)  # as timm prints it
    words = name
    if not unit and len(words) > 1 and words[-1] in _OF_NAMES and "_".join(words) not in NAMES:
        as_unit = field_of(words[:-1], words[-1], dialect)
        if as_unit and as_unit.meaning in _WITH_UNITS:
            return as_unit
    while words:
        for start in range(max(0, len(words) - _LONGEST), len(words)):
            key = "_".join(words[start:])
            meaning = dialect.names.get(key, NAMES.get(key))
            if meaning == "":  # of this dialect, nothing that is reported
                return None
            if meaning is not None:
                return _field(meaning, key, words[:start], unit, is_other)
        if words[-1] not in _SAME:
            return None
        words = words[:-1]  # `loss_avg` is a `loss`
    return None


def _field(
    meaning: Meaning, key: str, front: tuple[str, ...], unit: str, is_other: bool
) -> Field | None:
    if meaning in ("step", "epoch", "length"):
        others = _NOT_STEPS if meaning == "step" else _NOT_EPOCHS
        if meaning != "length" and not others.isdisjoint(front):
            return None  # a setting, or what an epoch has of something else
        if unit:
            return Field("rounded") if meaning == "step" and unit in _THOUSANDS else None
        return Field(meaning, rank=STEPS.get(key, 0))
    scale = _scale(meaning, key, unit)
    if scale is None or not set(front) - OTHER <= _FRONTS.get(meaning, _SAME - _PARTS):
        return None
    # The loss of a part, and the mean since the start, say less than the loss of the step.
    rank = len(front)
    if meaning == "loss":
        rank += PART * (not _PARTS.isdisjoint(front)) or (not _MEANS.isdisjoint(front))
    if key in VAGUE:
        rank += BY_UNIT + 2
    return Field(meaning, scale, key in _INVERSE, rank=rank, is_other=is_other)


def _scale(meaning: Meaning, key: str, unit: str) -> float | None:
    """What the number is multiplied by; None if its unit is not one of such a value."""
    if meaning in ("seconds", "elapsed", "data_seconds"):
        if key in _STEP_MILLISECONDS:
            return {"": 1e-3, "ms": 1e-3, "k": 1.0}.get(unit)
        return _SECONDS.get(unit)
    if meaning == "memory_gib":
        return _GIB.get("mb" if not unit and key in _IN_MB else unit)
    if meaning in ("printed_mfu", "printed_hfu"):
        return {"%": 0.01, "": 1.0}.get(unit)
    if meaning == "gpu_percent":  # a number without a unit may be a share
        return 1.0 if unit == "%" or (not unit and key in _GPU_PERCENT) else None
    if "flop" in unit and meaning == "printed_tflops_per_gpu":
        return _FLOPS.get(unit[0])
    if unit and meaning == "batch":
        return None  # `1.02K` is rounded, and may be of tokens
    return 1.0 if not unit else _THOUSANDS.get(unit)


def _of_rate(unit: str, is_of_one: bool) -> Field | None:
    """The field of a unit that says by itself what it is of."""
    if found := _STEP_RATE.fullmatch(unit):
        return Field("seconds", is_inverse=True, rank=BY_UNIT + 1)
    if found := _STEP_TIME.fullmatch(unit):
        return Field("seconds", _SECONDS[found[1]], rank=BY_UNIT + 1)
    if not (found := _RATE.fullmatch(unit)):
        return None
    is_tokens = found[2].startswith("tok")
    one = "_per_gpu" if found[3] or (is_of_one and not is_tokens) else ""
    name = cast("Quantity", f"{'tokens' if is_tokens else 'samples'}_per_second{one}")
    return Field(name, _THOUSANDS.get(found[1], 1.0), rank=BY_UNIT)
