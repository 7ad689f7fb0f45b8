"""All flags of fairseq-train and all keys of fairseq-hydra-train, from fairseq's own registries.

A flag is in the table if any architecture, task, criterion, optimizer or scheduler has it.
"""

from __future__ import annotations

import argparse
import dataclasses
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

Kind = str | list[str]
SEVERAL = "list"  # also of a flag that is a switch here and has a value there
TYPES = {int: "integer", float: "number", bool: "boolean", str: "text", list: "list", tuple: "text"}


def tables() -> dict[str, dict[str, Kind]]:
    """{program: {flag or key: type}}, in the types of the package's tables."""
    return {"fairseq-train": _flags(), "fairseq-hydra-train": _keys()}


# ------------------------------------------------------------------ fairseq-train


def _flags() -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for parser in _parsers():
        for action in parser._actions:
            for name in action.option_strings:
                if name.startswith("--"):
                    flag, kind = name[2:], _kind(action)
                    found[flag] = kind if found.get(flag, kind) == kind else SEVERAL
    del found["help"]
    return dict(sorted(found.items()))


def _parsers() -> Iterator[argparse.ArgumentParser]:
    yield options.get_training_parser()
    for adds in (*set(ARCH_MODEL_REGISTRY.values()), *TASK_REGISTRY.values()):
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        adds.add_args(parser)
        yield parser
    for registry in REGISTRIES.values():
        for one in registry["registry"].values():
            parser = argparse.ArgumentParser(conflict_handler="resolve")
            if hasattr(one, "add_args"):
                one.add_args(parser)
            elif getattr(one, "__dataclass", None):
                gen_parser_from_dataclass(parser, one.__dataclass())
            yield parser


def _kind(action: argparse.Action) -> Kind:
    if action.nargs == 0:
        return "switch"
    if action.nargs is not None:
        return SEVERAL
    if action.choices is not None:
        return sorted(map(str, action.choices))
    return {int: "integer", float: "number"}.get(action.type, "text")


# ------------------------------------------------------------------ fairseq-hydra-train


def _keys() -> dict[str, Kind]:
    found: dict[str, Kind] = {}
    for group in dataclasses.fields(FairseqConfig):
        if dataclasses.is_dataclass(group.type):
            found.update(_fields(group.name, group.type))
    for group, one in _registered():
        for key, kind in _fields(group, one):
            found[key] = kind if found.get(key, kind) == kind else "text"
    for group, registry in REGISTRIES.items():
        found[group] = sorted(registry["dataclass_registry"])
    found["task"] = sorted(TASK_DATACLASS_REGISTRY)
    return dict(sorted(found.items()))


def _registered() -> Iterator[tuple[str, Any]]:
    yield from (("task", one) for one in TASK_DATACLASS_REGISTRY.values())
    for group, registry in REGISTRIES.items():
        yield from ((group, one) for one in registry["dataclass_registry"].values())


def _fields(group: str, one: Any) -> Iterator[tuple[str, Kind]]:
    hints = typing.get_type_hints(one)
    for field in dataclasses.fields(one):
        if not dataclasses.is_dataclass(hints[field.name]):
            yield f"{group}.{field.name}", _type(hints[field.name])


def _type(hint: Any) -> Kind:
    inner = [one for one in typing.get_args(hint) if one is not type(None)]
    if typing.get_origin(hint) is typing.Union:
        return _type(inner[0]) if len(inner) == 1 else "text"
    plain = typing.get_origin(hint) or hint
    if isinstance(plain, type) and issubclass(plain, Enum):
        return sorted(str(one.value) for one in plain)
    return TYPES.get(plain, "text")
