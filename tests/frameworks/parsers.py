"""The parsers of frameworks that are on no package index, played from their flag tables.

The tables are the package's own; how a command line or a YAML file is read is written here anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from clusterjobs.frameworks.flags import table
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show


class FlagError(ValueError):
    """The framework would not have started."""


def _is_number(text: str, kind: type) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def megatron_arguments(
    plan: Plan, strict: bool = True, framework: str = "megatron-deepspeed"
) -> dict[str, str]:
    """The command's arguments by name, as argparse would read them: no abbreviation, no doubles.

    `strict`: there is no other flag than the described ones; forks have more.
    """
    known = table(framework).types
    found: dict[str, str] = {}
    name = ""
    for word in map(show, plan.launch.words[plan.launch.words.index("pretrain_gpt.py") + 1 :]):
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            if name in found:
                raise FlagError(f"{name} twice")
            found[name] = value
        elif not name:
            raise FlagError(f"{word} belongs to no flag")
        else:
            found[name] = f"{found[name]} {word}".strip()
    for name, value in found.items():
        if strict or name in known:
            _check_megatron(known, name, value)
    return found


def _check_megatron(known: Mapping[str, Any], name: str, value: str) -> None:
    kind = known.get(name)
    if kind == "switch":
        fits = value == ""
    elif kind in ("integer", "number"):
        fits = _is_number(value, int if kind == "integer" else float)
    elif kind == "text":
        fits = bool(value)
    else:
        fits = kind == "list" or value in (kind or ())
    if not fits:
        raise FlagError(f"--{name} {value}")


_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "text": (str,),
    "mapping": (dict,),
    "list": (list,),
}


def neox_configs(texts: Mapping[str, str], strict: bool = True) -> dict[str, Any]:
    """All keys, as deepy.py reads them: PyYAML's YAML 1.1, every key once and of its own type.

    `strict`: there is no other key than the described ones; forks have more.
    """
    found: dict[str, Any] = {}
    for file, text in texts.items():
        for key, value in yaml.load(text, Loader=yaml.FullLoader).items():
            name = key.replace("-", "_")
            if name in found:
                raise FlagError(f"{name} twice, in {file} again")
            if strict or name in table("gpt-neox").types:
                _check_neox(name, value)
            found[name] = value
    return found


def _check_neox(name: str, value: Any) -> None:
    kind = table("gpt-neox").types.get(name, "")
    if value is None:
        return
    if isinstance(kind, list):
        fits = str(value).lower() in map(str.lower, kind)
    else:
        fits = type(value) in _KINDS.get(kind, ())
    if not fits:
        raise FlagError(f"{name}: {value!r}")
