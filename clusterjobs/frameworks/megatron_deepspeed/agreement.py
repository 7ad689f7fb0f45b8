"""Settings that Megatron has as flags and DeepSpeed as keys of its config, kept equal.

With --deepspeed, DeepSpeed clips gradients and scales the loss, and reads its own keys alone;
Megatron makes the optimizer, and reads its flags alone. Source: Megatron-DeepSpeed
megatron/training.py and megatron/optimizer/__init__.py; DeepSpeed runtime/engine.py.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import Argument, arguments_by_key
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import as_text
from clusterjobs.text import Text
from clusterjobs.yaml.document import Path

CLIPPING = "gradient_clipping"


def _power(scale: float) -> float:
    """initial-loss-scale 65536 is initial_scale_power 16."""
    return math.log2(scale) if scale > 0 else math.nan


class _Pair(NamedTuple):
    """A flag, the key of ds_config.fp16 that has the same meaning, and the flag's value there."""

    flag: str
    key: str
    convert: Callable[[float], float] = float


_LOSS_SCALE = (
    _Pair("loss_scale", "loss_scale"),
    _Pair("initial_loss_scale", "initial_scale_power", _power),
    _Pair("min_loss_scale", "min_loss_scale"),
    _Pair("loss_scale_window", "loss_scale_window"),
    _Pair("hysteresis", "hysteresis"),
)
# The flags that Megatron's optimizer is made from, with their defaults, and DeepSpeed's parameters.
_OPTIMIZER = (
    ("lr", None, ("lr",)),
    ("adam_beta1", 0.9, ("betas", 0)),
    ("adam_beta2", 0.999, ("betas", 1)),
    ("adam_eps", 1e-8, ("eps",)),
    ("weight_decay", 0.01, ("weight_decay",)),
)


class Agreed(NamedTuple):
    """Arguments and keys of the config to add, so that both sides say the same."""

    arguments: tuple[str, ...]
    config: dict[str, Any]


def agree(
    spec: Experiment,
    own: Mapping[str, Any],
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Agreed:
    """Derive one side from the other; two that differ are refused."""
    flags = arguments_by_key(spec)
    arguments, config = _clipping(flags, own, diagnostics, provenance)
    if spec.precision == "fp16":
        config |= _loss_scale(flags, own, diagnostics)
    _check_optimizer(flags, own, diagnostics)
    return Agreed(arguments, config)


def _clipping(
    flags: Mapping[str, Argument],
    own: Mapping[str, Any],
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> tuple[tuple[str, ...], dict[str, Any]]:
    flag, value = flags.get("clip_grad"), own.get(CLIPPING)
    if flag is None and _is_number(value):
        return ("--clip-grad", as_text(value)), {}
    if flag is not None:
        wanted = _number_of(flag, CLIPPING, diagnostics)
        if wanted is None:
            return (), {}
        if CLIPPING in own:
            _compare(flag, wanted, (CLIPPING,), value, diagnostics)
            return (), {}
        return (), {CLIPPING: wanted}
    if CLIPPING in own:
        return (), {}
    provenance.record(
        f"ds_config.{CLIPPING}",
        "1.0",
        "Megatron's default of clip-grad; DeepSpeed's own default is 0 up to 0.19.2, then 1.0",
        "Megatron-DeepSpeed megatron/arguments.py; DeepSpeed runtime/constants.py",
    )
    return (), {CLIPPING: 1.0}


def _loss_scale(
    flags: Mapping[str, Argument], own: Mapping[str, Any], diagnostics: Diagnostics
) -> dict[str, Any]:
    section = own.get("fp16")
    section = section if isinstance(section, dict) else {}
    derived: dict[str, Any] = {}
    for pair in _LOSS_SCALE:
        flag = flags.get(pair.flag)
        number = _number_of(flag, f"fp16.{pair.key}", diagnostics) if flag else None
        if flag is None or number is None:
            continue
        value = pair.convert(number)
        if pair.key != "loss_scale" and not value.is_integer():
            diagnostics.problem(
                flag.path,
                f"DeepSpeed's fp16.{pair.key} is a whole number, and this is not one there",
                "write a power of two, such as 65536" if pair.convert is _power else "round it",
            )
        elif pair.key in section:
            _compare(flag, value, ("fp16", pair.key), section[pair.key], diagnostics)
        else:
            derived[pair.key] = value if pair.key == "loss_scale" else int(value)
    return {"fp16": {"enabled": True, **derived}} if derived else {}


def _check_optimizer(
    flags: Mapping[str, Argument], own: Mapping[str, Any], diagnostics: Diagnostics
) -> None:
    """The optimizer in ds_config must agree with Megatron's flags: only the flags are used.

    Without a flag, Megatron's default is used. Public configs rely on it, so that is a warning.
    """
    for name, default, path, value in _optimizer_parameters(own):
        flag = flags.get(name)
        if not _is_number(value):
            continue
        given = _number_of(flag, ".".join(map(str, path)), diagnostics) if flag else default
        if given is None or math.isclose(given, value):
            continue
        shown = flag.texts[0] if flag else f"{default}, Megatron's default"
        diagnostics.problem(
            ("ds_config", *path),
            f"{as_text(value)} is not used: Megatron makes the optimizer, with "
            f"{name.replace('_', '-')} {shown}",
            f'write "{{{{ args.{name.replace("_", "-")} }}}}" here'
            if flag
            else f"add {name.replace('_', '-')}: {as_text(value)} to args",
            warning=flag is None,
        )


def _optimizer_parameters(
    own: Mapping[str, Any],
) -> Iterator[tuple[str, float | None, Path, Any]]:
    optimizer = own.get("optimizer")
    params = optimizer.get("params") if isinstance(optimizer, dict) else None
    for name, default, path in _OPTIMIZER if isinstance(params, dict) else ():
        value: Any = params
        for step in path:
            is_there = isinstance(value, dict) or (isinstance(value, list) and len(value) == 2)
            value = (
                value.get(step) if isinstance(value, dict) else value[step] if is_there else None
            )
        yield name, default, ("optimizer", "params", *path), value


def _compare(
    flag: Argument, wanted: float, path: Path, value: Any, diagnostics: Diagnostics
) -> None:
    key = ".".join(map(str, path))
    if not _is_number(value) or not math.isclose(wanted, value):
        diagnostics.problem(
            ("ds_config", *path),
            f"{key} is {as_text(value)}, and {flag.name} "
            f"({diagnostics.line_of(flag.path)}) makes it {wanted:g}; DeepSpeed reads {key}",
            "remove one of the two: clusterjobs derives it from the other",
        )


def _number_of(flag: Argument, key: str, diagnostics: Diagnostics) -> float | None:
    """The flag's number; a parameter is refused, as the config is written before it is known."""
    text = flag.values[0] if len(flag.values) == 1 else ""
    if isinstance(text, Text):
        diagnostics.problem(
            flag.path,
            f"{flag.name} must equal {key} in ds_config, which is fixed when the job is rendered",
            "write a number, or change it with --set",
        )
        return None
    try:
        return float(text)
    except ValueError:
        return None  # the table of flags reports it


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
