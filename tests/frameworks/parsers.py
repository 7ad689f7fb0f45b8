"""The parsers of frameworks that are on no package index, played from what `flags/` says."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from clusterjobs.plan.plan import Plan

FLAGS = pathlib.Path(__file__).with_name("flags")


class FlagError(ValueError):
    """The framework would not have started."""


@functools.cache
def description(framework: str) -> dict[str, Any]:
    text = (FLAGS / f"{framework}.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def _is_number(text: str, kind: type) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def megatron_arguments(plan: Plan) -> dict[str, str]:
    """The command's arguments by name, as argparse would read them: no abbreviation, no doubles."""
    known = description("megatron_deepspeed")
    found: dict[str, str] = {}
    name = ""
    for word in plan.launch.words[plan.launch.words.index("pretrain_gpt.py") + 1 :]:
        if word.startswith("--"):
            name = word[2:]
            if name in found:
                raise FlagError(f"{name} twice")
            found[name] = ""
        elif not name:
            raise FlagError(f"{word} belongs to no flag")
        else:
            found[name] = f"{found[name]} {word}".strip()
    for name, value in found.items():
        _check_megatron(known, name, value)
    return found


def _check_megatron(known: Mapping[str, Any], name: str, value: str) -> None:
    if name in known["switches"]:
        fits = value == ""
    elif name in known["whole"]:
        fits = _is_number(value, int)
    elif name in known["number"]:
        fits = _is_number(value, float)
    elif name in known["text"]:
        fits = bool(value)
    elif name in known["several"]:
        fits = True
    else:
        fits = value in known["choices"].get(name, ())
    if not fits:
        raise FlagError(f"--{name} {value}")


_KINDS: dict[str, tuple[type, ...]] = {
    "whole": (int,),
    "number": (int, float),
    "bool": (bool,),
    "text": (str,),
    "map": (dict,),
    "list": (list,),
}


def neox_configs(texts: Mapping[str, str]) -> dict[str, Any]:
    """All keys, as deepy.py reads them: PyYAML's YAML 1.1, every key once and of its own type."""
    found: dict[str, Any] = {}
    for file, text in texts.items():
        for key, value in yaml.load(text, Loader=yaml.FullLoader).items():
            name = key.replace("-", "_")
            if name in found:
                raise FlagError(f"{name} twice, in {file} again")
            _check_neox(name, value)
            found[name] = value
    return found


def _check_neox(name: str, value: Any) -> None:
    known = description("gpt_neox")
    if name in known["choices"]:
        fits = value in known["choices"][name]
    else:
        kinds = [kinds for key, kinds in _KINDS.items() if name in known[key]]
        fits = any(type(value) in one for one in kinds)
    if not fits:
        raise FlagError(f"{name}: {value!r}")
