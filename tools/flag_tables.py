#!/usr/bin/env python3
"""Writes a table of clusterjobs/frameworks/flags/ anew, from the framework's own parser.

    python tools/flag_tables.py megatron-lm CHECKOUT
    python tools/flag_tables.py megatron-deepspeed CHECKOUT [CHECKOUT OF A FORK ...]
    python tools/flag_tables.py gpt-neox CHECKOUT
    python tools/flag_tables.py deepspeed [CHECKOUT]    # else of this Python's packages; also
                                                        # torchtitan, torchtitan-0.2
    python tools/flag_tables.py fairseq-train           # of this Python's packages; also
                                                        # fairseq-hydra-train, lightning,
                                                        # huggingface

Run it with a Python that has what the framework imports; GPUs have the stand-ins of the argument
check. Flags of the old table that the parser has no more become `removed`. Choices that are any
text in the old table stay so: they grow from version to version.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import importlib
import inspect
import json
import pathlib
import re
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "clusterjobs/frameworks/flags"
CHECKS = ROOT / "clusterjobs/node/arguments"
Kind = str | list[str]
Kinds = Mapping[str, Kind]
SEVERAL = "list"  # also of a flag that is a switch here and has a value there


class Read(NamedTuple):
    """What was read: of which version and day, and from which files.

    `on`: booleans that may be true without their flag.
    """

    version: str
    date: str
    source: str
    flags: Kinds
    on: Iterable[str] = ()


# ------------------------------------------------------------------ parsers


def flags_of_parsers(parsers: Iterable[argparse.ArgumentParser]) -> Kinds:
    """The long flags of all these parsers, with their types."""
    actions = (action for parser in parsers for action in parser._actions)
    named = ((name, one) for one in actions for name in one.option_strings)
    found = ((name[2:], kind_of_action(one)) for name, one in named if name.startswith("--"))
    return joined((flag, kind) for flag, kind in found if flag != "help")


def kind_of_action(action: argparse.Action) -> Kind:
    if action.nargs == 0:
        return "switch"
    if getattr(action.type, "__name__", "") == "string_to_bool":  # of transformers
        return "boolean switch" if action.nargs == "?" else "boolean"
    if action.nargs is not None:
        return SEVERAL
    if action.choices is not None:
        return [one.name if isinstance(one, Enum) else str(one) for one in action.choices]
    return {int: "integer", float: "number"}.get(action.type, "text")  # type: ignore[call-overload,no-any-return]


def joined(found: Iterable[tuple[str, Kind]], differs: str = SEVERAL) -> dict[str, Kind]:
    """One type for each name: all choices of two lists, and else `differs` where there are two."""
    flags: dict[str, Kind] = {}
    for name, kind in found:
        known = flags.setdefault(name, kind)
        if isinstance(known, list) and isinstance(kind, list):
            flags[name] = [*dict.fromkeys([*known, *kind])]
        elif known != kind:
            flags[name] = differs
    return dict(sorted(flags.items()))


class CapturedError(Exception):
    """The parser that was to parse."""


def stop(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> None:
    """In place of parsing."""
    raise CapturedError(parser)


def captured(parse: Callable[[], Any]) -> argparse.ArgumentParser:
    """The parser that `parse` makes and would use."""
    kept = argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_args = stop  # type: ignore[method-assign,assignment]
    argparse.ArgumentParser.parse_known_args = stop  # type: ignore[method-assign,assignment]
    try:
        parse()
    except CapturedError as error:
        return error.args[0]  # type: ignore[no-any-return]
    finally:
        argparse.ArgumentParser.parse_args, argparse.ArgumentParser.parse_known_args = kept  # type: ignore[method-assign]
    raise AssertionError("it parses nothing")


# ------------------------------------------------------------------ dataclasses


def fields_of(one: Any, prefix: str = "") -> Iterator[tuple[str, Kind]]:
    """The fields of a dataclass that are no dataclasses, and their types."""
    hints = typing.get_type_hints(one)
    for field in dataclasses.fields(one):
        if not dataclasses.is_dataclass(hints[field.name]):
            yield prefix + field.name, kind_of_hint(hints[field.name])


TYPES = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list"}
TYPES |= {tuple: "text", dict: "mapping"}


def plain_type(hint: Any) -> Any:
    """`tuple` of `tuple[int, ...]`."""
    return typing.get_origin(hint) or hint


def kind_of_hint(hint: Any, several: str = "text") -> Kind:
    """The type of an annotation; `several` for one that names several types."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        own = [one for one in inner if one is not type(None)]
        return kind_of_hint(own[0], several) if len(own) == 1 else several
    if origin is typing.Literal:
        return [str(one) for one in inner if one is not None]
    plain = plain_type(hint)
    if isinstance(plain, type) and issubclass(plain, Enum) and not issubclass(plain, int):
        return [str(one.value) for one in plain]
    found = (TYPES[one] for one in TYPES if isinstance(plain, type) and issubclass(plain, one))
    return next(found, several)


# ------------------------------------------------------------------ frameworks


def of_checkout(checkout: str) -> tuple[str, str]:
    """The commit and its day."""
    command = ["git", "-C", checkout, "log", "-1", "--format=%h %cs"]
    commit, day = subprocess.check_output(command, text=True).split()
    return commit, day


def of_checkout_or_package(package: str, checkouts: list[str]) -> tuple[str, str]:
    """The version and its day; a checkout is imported before a package."""
    sys.path[:0] = checkouts
    return of_checkout(checkouts[0]) if checkouts else (installed(package), today())


def in_processes(name: str, checkouts: list[str]) -> Kinds:
    """The flags of all checkouts, which each import modules of the same names."""
    flags: list[tuple[str, Kind]] = []
    for one in checkouts:
        command = [sys.executable, "-B", __file__, "--one", name, one]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=one)
        flags += json.loads(done.stdout.splitlines()[-1]).items()
    return joined(flags)


def megatron_flags(checkout: str, name: str) -> Kinds:
    """Of the parser, and of what the pretraining scripts add to it."""
    sys.path[:0] = [checkout, str(CHECKS)]
    check = importlib.import_module(f"check_{name.replace('-', '_')}")
    if name == "megatron-lm":
        request = types.SimpleNamespace(title=name, capability=(9, 0))
        check.stand_in(request)
        arguments = importlib.import_module("megatron.training.arguments")
    else:
        check.stand_in()
        arguments = importlib.import_module("megatron.arguments")
    parser_of = importlib.import_module("megatron_script").parser_of
    scripts = sorted(pathlib.Path(checkout).glob("*train*.py"))
    extras = [parser_of(types.SimpleNamespace(script=str(one)))[0] for one in scripts]
    parsers = [
        captured(lambda extra=extra: arguments.parse_args(extra)) for extra in {None, *extras}
    ]
    return flags_of_parsers(parsers)


def megatron(name: str, checkouts: list[str]) -> Read:
    checkout, *forks = checkouts
    commit, day = of_checkout(checkout)
    info = pathlib.Path(checkout, "megatron/core/package_info.py")
    version = commit
    if name == "megatron-lm":
        numbers = re.findall(r"^(?:MAJOR|MINOR|PATCH) = (\d+)$", info.read_text(), re.M)
        version = f"core {'.'.join(numbers)}"
        file = "NVIDIA/Megatron-LM, megatron/training/arguments.py"
    else:
        file = "deepspeedai/Megatron-DeepSpeed, megatron/arguments.py"
    source = f"{file}, at {commit}"
    for fork in forks:
        source += f"; a fork's, at {of_checkout(fork)[0]}"
    return Read(version, day, source, in_processes(name, checkouts))


def gpt_neox(_: str, checkouts: list[str]) -> Read:
    commit, day = of_checkout(checkouts[0])
    folder = pathlib.Path(checkouts[0], "megatron/neox_arguments")
    sys.path.insert(0, str(folder))
    flags: list[tuple[str, Kind]] = []
    for module in ("neox_args", "deepspeed_args"):
        found = importlib.import_module(module)
        for one in vars(found).values():
            if dataclasses.is_dataclass(one) and isinstance(one, type):
                hints = typing.get_type_hints(one)
                flags += ((name, kind_of_hint(hint, "any")) for name, hint in hints.items())
    source = f"EleutherAI/gpt-neox, megatron/neox_arguments, at {commit}"
    return Read(commit, day, source, joined(flags, "any"))


def fairseq(program: str, _: list[str]) -> Read:
    importlib.import_module("fairseq.options")
    flags = fairseq_flags() if program == "fairseq-train" else fairseq_keys()
    flags = {name: sorted(kind) if isinstance(kind, list) else kind for name, kind in flags.items()}
    version = installed("fairseq-fixed", "fairseq")
    return Read(version, today(), f"fairseq {version}, its own registries and parsers", flags)


def fairseq_flags() -> Kinds:
    """A flag is there if any architecture, task, criterion, optimizer or scheduler has it."""
    models = importlib.import_module("fairseq.models").ARCH_MODEL_REGISTRY
    tasks = importlib.import_module("fairseq.tasks").TASK_REGISTRY
    parsers = [importlib.import_module("fairseq.options").get_training_parser()]
    add_fields = importlib.import_module("fairseq.dataclass.utils").gen_parser_from_dataclass
    registries = importlib.import_module("fairseq.registry").REGISTRIES.values()
    parts = [one for registry in registries for one in registry["registry"].values()]
    for one in (*set(models.values()), *tasks.values(), *parts):
        parser = argparse.ArgumentParser(conflict_handler="resolve")
        if hasattr(one, "add_args"):
            one.add_args(parser)
        elif getattr(one, "__dataclass", None):
            add_fields(parser, one.__dataclass())
        parsers.append(parser)
    return flags_of_parsers(parsers)


def fairseq_keys() -> Kinds:
    """The keys of hydra's config: its groups, and those of each registered part."""
    config = importlib.import_module("fairseq.dataclass.configs").FairseqConfig
    tasks = importlib.import_module("fairseq.tasks").TASK_DATACLASS_REGISTRY
    registries = importlib.import_module("fairseq.registry").REGISTRIES
    groups = [(one.name, one.type) for one in dataclasses.fields(config)]
    groups += [("task", one) for one in tasks.values()]
    for group, registry in registries.items():
        groups += [(group, one) for one in registry["dataclass_registry"].values()]
    found = joined(
        (
            pair
            for group, one in groups
            if dataclasses.is_dataclass(one)
            for pair in fields_of(one, f"{group}.")
        ),
        "text",
    )
    names = {
        group: sorted(registry["dataclass_registry"]) for group, registry in registries.items()
    }
    return dict(sorted({**found, **names, "task": sorted(tasks)}.items()))


def lightning(_: str, __: list[str]) -> Read:
    trainer = importlib.import_module("lightning.pytorch").Trainer
    given = inspect.signature(trainer.__init__).parameters
    hints = typing.get_type_hints(trainer.__init__)
    flags = {
        f"trainer.{name}": kind_of_union(hints[name]) for name in sorted(given) if name in hints
    }
    registry = importlib.import_module("lightning.pytorch.strategies").StrategyRegistry
    flags["trainer.strategy"] = ["auto", *registry.available_strategies()]
    algorithms = importlib.import_module("lightning.pytorch.utilities").GradClipAlgorithmType
    flags["trainer.gradient_clip_algorithm"] = [one.value for one in algorithms]
    on = [f"trainer.{name}" for name, one in given.items() if one.default is not False]
    version = installed("lightning")
    source = f"Lightning {version}, pytorch/trainer/trainer.py: the arguments of Trainer.__init__"
    return Read(version, today(), source, flags, on)


def kind_of_union(hint: Any) -> Kind:
    """The type of an annotation on a command line."""
    inner = [one for one in typing.get_args(hint) or (hint,) if one is not type(None)]
    if all(typing.get_origin(one) is typing.Literal for one in inner):
        return [*dict.fromkeys(str(value) for one in inner for value in typing.get_args(one))]
    if bool in inner:
        return "boolean" if inner == [bool] else "boolean or text"
    if set(inner) <= {int, float}:
        return "number" if float in inner else "integer"
    return "text"


def huggingface(_: str, __: list[str]) -> Read:
    """TrainingArguments as its own parser reads them, by their names with underscores."""
    transformers = importlib.import_module("transformers")
    parser = transformers.HfArgumentParser(transformers.Seq2SeqTrainingArguments)
    flags = {one: kind for one, kind in flags_of_parsers([parser]).items() if "-" not in one}
    on = [one.dest for one in parser._actions if one.default is not False]
    version = installed("transformers")
    source = f"transformers {version}, training_args.py and training_args_seq2seq.py"
    return Read(version, today(), source, flags, on)


class Asked(dict[str, Any]):
    """A config, or a section of it, that notes which keys it is asked for."""

    def __init__(self, told: list[str], values: Mapping[str, Any], prefix: str = "") -> None:
        super().__init__(values)
        self.told, self.prefix = told, prefix

    def __contains__(self, key: object) -> bool:
        self.told.append(f"{self.prefix}{key}")
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Any:
        self.told.append(f"{self.prefix}{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.told.append(f"{self.prefix}{key}")
        return super().get(key, default)

    def keys(self) -> Any:
        return self  # for `key in config.keys()`

    def __copy__(self) -> Asked:
        return self


# The engine asks for these, the config class does not.
OF_THE_ENGINE: Mapping[str, Kind] = {
    **dict.fromkeys(("data_parallel_size", "sequence_parallel_size", "mesh_param"), "any"),
    "optimizer.params": "mapping",
    "scheduler.params": "mapping",
}


def deepspeed(name: str, checkouts: list[str]) -> Read:
    """The keys that DeepSpeedConfig asks for at the top and in each section.

    A section that becomes a model of pydantic has the model's fields.
    """
    version, day = of_checkout_or_package(name, checkouts)
    config = importlib.import_module("deepspeed.runtime.config")
    base = importlib.import_module("deepspeed.runtime.config_utils").DeepSpeedConfigModel
    told: list[str] = []
    made: list[tuple[str, Any]] = []
    make = base.__init__

    def noted(model: Any, *arguments: Any, **values: Any) -> None:
        made.append((told[-1], type(model)))
        make(model, *arguments, **values)

    def read(**section: Any) -> None:
        with contextlib.suppress(Exception):  # a section that has to be a number
            config.DeepSpeedConfig(Asked(told, {"train_micro_batch_size_per_gpu": 1, **section}))

    base.__init__ = noted
    read()
    top = sorted(set(told))
    flags: dict[str, Kind] = {**OF_THE_ENGINE, **dict.fromkeys(top, "any")}
    for name in top:
        told.clear()
        made.clear()
        read(**{name: Asked(told, {}, f"{name}.")})
        found = [one for one in told if one.startswith(f"{name}.")]
        flags |= dict.fromkeys(found, "any")
        models = dict(reversed([one for one in made if one[0] in (name, *found)]))  # the outermost
        for section, model in models.items():
            is_of_all = set(model.model_fields) <= {*top, "enabled"}  # the monitors'
            flags |= dict(fields_of_model(model, "" if is_of_all else f"{section}."))
    gone = {"": config._REMOVED_TOP_LEVEL_CONFIG_KEYS}
    gone["zero_optimization."] = config._REMOVED_ZERO_CONFIG_KEYS
    flags |= {f"{prefix}{one}": "any" for prefix, names in gone.items() for one in names}
    for name in {one.rpartition(".")[0] for one in flags} - {""}:
        flags[name] = "mapping"
    source = f"DeepSpeed {version}: the keys that deepspeed.runtime.config.DeepSpeedConfig asks "
    source += "for, and the fields of its sections; with the keys that it has removed"
    return Read(version, day, source, dict(sorted(flags.items())))


def fields_of_model(model: Any, prefix: str) -> Iterator[tuple[str, Kind]]:
    """The fields of a model of pydantic, by all their names, and those of models in them."""
    for name, field in model.model_fields.items():
        hints = [field.annotation, *typing.get_args(field.annotation)]
        inner = next((one for one in hints if hasattr(one, "model_fields")), None)
        for written in {name, field.alias or name}:
            kind = kind_of_hint(field.annotation, "any")
            kind = SEVERAL if tuple in map(plain_type, hints) else kind
            yield prefix + written, "mapping" if inner else kind
            if inner:
                yield from fields_of_model(inner, f"{prefix}{written}.")


def torchtitan(name: str, checkouts: list[str]) -> Read:
    """The flags that tyro makes of the config of the smallest model."""
    version, day = of_checkout_or_package("torchtitan", checkouts)
    sys.path.insert(0, str(CHECKS))
    importlib.import_module("check_torchtitan").stand_in((9, 0))
    manager = importlib.import_module("torchtitan.config.manager")
    tyro: Any = importlib.import_module("tyro")

    def cli(config: Any, args: Any, **named: Any) -> None:  # noqa: ARG001
        stop(tyro.extras.get_parser(config, **named))

    tyro.cli = cli
    is_new = name == "torchtitan"
    words = ["--module", "llama3", "--config", "llama3_debugmodel"] if is_new else []
    parser = captured(lambda: manager.ConfigManager().parse_args(words))
    actions = [one for one in parser._actions if "--help" not in one.option_strings]
    flags = {
        flag.lstrip("-").replace("-", "_"): kind_of_metavar(one)
        for one in actions
        for flag in one.option_strings
    }
    source = f"torchtitan {version}: the flags that tyro makes of "
    source += "the config llama3_debugmodel; other models may have more" if is_new else "JobConfig"
    return Read(version, day, source, dict(sorted(flags.items())))


def kind_of_metavar(action: argparse.Action) -> Kind:
    """Tyro converts the values itself, so that only their description has the type."""
    if action.nargs == 0:
        return "switch"
    told = str(action.metavar)
    if action.nargs != 1 and action.nargs is not None:
        return SEVERAL
    if re.fullmatch(r"\{[^{}]+\}", told):
        return told[1:-1].split(",")
    names = {"INT": "integer", "FLOAT": "number", "FLOAT|INT": "number", "{True,False}": "boolean"}
    return names.get(told, "text")


def installed(*names: str) -> str:
    """The version of the first package that is installed."""
    metadata = importlib.import_module("importlib.metadata")
    for name in names:
        try:
            return metadata.version(name)  # type: ignore[no-any-return]
        except metadata.PackageNotFoundError:
            continue
    raise AssertionError(f"not installed: {names}")


def today() -> str:
    return datetime.datetime.now(datetime.timezone.utc).date().isoformat()


READERS: Mapping[str, Callable[[str, list[str]], Read]] = {
    "megatron-lm": megatron,
    "megatron-deepspeed": megatron,
    "gpt-neox": gpt_neox,
    "fairseq-train": fairseq,
    "fairseq-hydra-train": fairseq,
    "lightning": lightning,
    "huggingface": huggingface,
    "deepspeed": deepspeed,
    "torchtitan": torchtitan,
    "torchtitan-0.2": torchtitan,
}


# ------------------------------------------------------------------ the file


def table(old: dict[str, Any], read: Read) -> dict[str, Any]:
    """The new table: what the old one says of its program, and what was read."""
    flags = {name: kept(old["flags"].get(name), kind) for name, kind in read.flags.items()}
    gone = {*old["flags"], *old.get("removed", ())} - set(flags)
    read_now = {"version": read.version, "date": read.date, "source": read.source}
    told = {"program": old["program"], **read_now, **old, **read_now}
    booleans = ("boolean", "boolean switch", "boolean or text")
    on = sorted(name for name in read.on if flags.get(name) in booleans)
    told |= {"on": on} if on else {}
    return {**told, "removed": sorted(gone), "flags": flags}


def kept(old: Kind | None, new: Kind) -> Kind:
    if old is not None and new == "any":
        return old
    return "text" if old == "text" and isinstance(new, list) else new


def text_of(table: dict[str, Any]) -> str:
    """A line for each flag."""
    text = json.dumps(table, indent=2)
    lists = re.compile(r"\[\s+([^\]]*?)\s+\]")
    return lists.sub(lambda one: "[" + re.sub(r",\s+", ", ", one[1]) + "]", text) + "\n"


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--one"]:
        print(json.dumps(megatron_flags(arguments[2], arguments[1])))
        return
    prints = "--print" in arguments  # the flags alone; nothing is written
    name, *checkouts = (one for one in arguments if one != "--print")
    checkouts = [str(pathlib.Path(one).resolve()) for one in checkouts]
    file = FOLDER / f"{name}.json"
    old = json.loads(file.read_text(encoding="utf-8"))
    new = table(old, READERS[name](name, checkouts))
    if prints:
        print(json.dumps(new["flags"]))
        return
    file.write_text(text_of(new), encoding="utf-8")
    changed = [one for one, kind in new["flags"].items() if old["flags"].get(one, kind) != kind]
    print(f"{file.name}: {len(new['flags'])} flags of {new['program']} {new['version']}")
    print("new:", *sorted(set(new["flags"]) - set(old["flags"])))
    print("removed:", *sorted(set(old["flags"]) - set(new["flags"])))
    print("other type:", *(f"{one} {old['flags'][one]} -> {new['flags'][one]}" for one in changed))


if __name__ == "__main__":
    main(sys.argv[1:])
