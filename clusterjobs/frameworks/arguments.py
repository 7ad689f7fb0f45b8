"""The spec's `script` and `args` as a command line, and the arguments that are refused there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Value, expanding, partition, show
from clusterjobs.yaml.document import Path

_COMMAND_LINE = re.compile(r"(\S*/)?(python[\d.]*|bash|sh|torchrun|deepspeed|srun)\s|\S+\.py\s+-")

_OF_A_SHELL = (".sh", ".bash", ".sbatch", ".slurm")


def script_of(
    spec: Experiment, diagnostics: Diagnostics, takes_module: bool = True
) -> Value | None:
    """The spec's script, without which a Python framework has nothing to run.

    `takes_module`: it may be `-m package.module`.
    """
    if spec.command is not None:
        diagnostics.problem(
            ("command",),
            f"{spec.framework} runs a script, not a command",
            "write script: train.py, or framework: command",
        )
    if spec.script is None:
        diagnostics.missing("script", "script is missing", "add `script: train.py`")
    elif (module := field_types.module_of(spec.script)) and not takes_module:
        file = module.replace(".", "/")
        what = f"{spec.framework} starts a script by its path"
        diagnostics.problem(("script",), what, f"write the module's file, {file}.py")
    elif _COMMAND_LINE.match(show(spec.script)):
        diagnostics.problem(
            ("script",),
            "script is a file, and not a command line",
            "write script: train.py, and its arguments under args",
        )
    elif show(spec.script).endswith(_OF_A_SHELL):
        diagnostics.problem(
            ("script",),
            f"{spec.framework} starts a Python script, and this is one of a shell",
            f"name the Python script, or write framework: command, command: [bash, "
            f"{show(spec.script)}], ranks_per_node: 1",
        )
    return spec.script and expanding(spec.script)


def arguments_of(spec: Experiment) -> tuple[Value, ...]:
    """`args: {lr: 1e-4, flag: true, off: false, data: [a, b]}` -> --lr 1e-4 --flag --data a b.

    A list is passed on as it is. A name that starts with a dash keeps its own dashes.
    """
    arguments = spec.args
    if not isinstance(arguments, Mapping):
        return tuple(arguments)
    found: list[Value] = []
    for name, value in arguments.items():
        flag = name if name.startswith("-") else f"--{name}"
        if value is True:
            found.append(flag)
        elif value is not False:
            found += [flag, *(value if isinstance(value, tuple) else (value,))]
    return tuple(found)


class Argument(NamedTuple):
    """An argument of `args`: its key or index there, its name as written, and its values.

    A bare flag has no values; an argument that is `false` is not given. `section`: of the spec, for
    an argument that follows from another key than one of `args`.
    """

    position: str | int
    name: str
    values: tuple[Value, ...]
    section: str = "args"

    @property
    def key(self) -> str:
        """The name as argparse stores it: micro_batch_size."""
        return argument_key(self.name)

    @property
    def texts(self) -> tuple[str, ...]:
        """The values for messages and comparisons: variables as `$NAME`."""
        return tuple(map(show, self.values))

    @property
    def path(self) -> tuple[str | int, ...]:
        """The argument's place in the spec."""
        return (self.section, self.position)


def given_arguments(spec: Experiment) -> list[Argument]:
    """The arguments that are passed on, from either form of `args`, with what belongs to each."""
    arguments = spec.args
    if not isinstance(arguments, Mapping):
        return list(_from_list(arguments))
    return [
        Argument(
            name, name, () if value is True else value if isinstance(value, tuple) else (value,)
        )
        for name, value in arguments.items()
        if value is not False
    ]


def arguments_by_key(spec: Experiment) -> dict[str, Argument]:
    """The arguments by their names as argparse stores them; of two with one name, the last."""
    return {one.key: one for one in given_arguments(spec)}


def _from_list(items: tuple[Value, ...]) -> Iterator[Argument]:
    """`[--lr, 1e-4, --split=9,1]`: a name, and the values behind it up to the next name."""
    found: Argument | None = None
    for index, item in enumerate(items):
        if item.startswith("--"):
            if found:
                yield found
            name, equals, value = partition(item, "=")
            found = Argument(index, show(name), (value,) if equals else ())
        elif found:
            found = found._replace(values=(*found.values, item))
    if found:
        yield found


def argument_names(spec: Experiment) -> list[tuple[str | int, str]]:
    """The names in `args` as they are written, each with its key or index there."""
    if isinstance(spec.args, Mapping):
        return [(name, name) for name in spec.args]
    return [(i, show(item)) for i, item in enumerate(spec.args) if item.startswith("-")]


def argument_key(name: str) -> str:
    """`--micro-batch-size=4` -> micro_batch_size, as argparse stores it."""
    return name.lstrip("-").partition("=")[0].replace("-", "_")


_REMOVE = "remove it: clusterjobs sets it"


def refuse_arguments(
    spec: Experiment,
    diagnostics: Diagnostics,
    derived: Mapping[str, str],
    hints: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse `args` that clusterjobs sets itself: {key: where the value comes from}.

    `hints`: {key: where to write the value}, for those that the spec must have in place of them.
    """
    for position, name in argument_names(spec):
        if (key := argument_key(name)) in derived:
            hint = hints.get(key, _REMOVE)
            refuse_derived(position, name, derived[key], diagnostics, hint)


def refuse_derived(
    position: str | int, name: str, origin: str, diagnostics: Diagnostics, hint: str = _REMOVE
) -> None:
    """Refuse one argument of `args`, because its value follows from `origin`."""
    diagnostics.problem(("args", position), f"{name} is derived from {origin}", hint)


def refuse_variables(
    spec: Experiment, derived: Mapping[str, str], diagnostics: Diagnostics
) -> None:
    """Refuse `env` that clusterjobs sets itself: {name: where the value comes from}."""
    for name in spec.env:
        if name in derived:
            what = f"{name} is derived from {derived[name]}"
            diagnostics.problem(("env", name), what, _REMOVE)


class _Names(NamedTuple):
    """How scripts name a size of `parallel`: any mention of it, and the size itself."""

    mention: re.Pattern[str]
    size: re.Pattern[str]


def _names(mention: str, words: str, short: str) -> _Names:
    size = rf"(?:(?:{words})(?:_model)?_parallel(?:ism)?|{short})(?:_size|_degree)?"
    return _Names(re.compile(mention, re.I), re.compile(size, re.I))


_NAMES = {
    "tensor": _names(r"tensor|model_parallel|(?:^|_)(?:tp|mp)(?:_|$)", "tensor|tp", "tp"),
    "pipeline": _names(r"pipe|(?:^|_)pp(?:_|$)", "pipeline|pp", "pp"),
    "context": _names(r"context_parallel|(?:^|_)cp(?:_|$)", "context|cp", "cp(?=_)"),
}


def refuse_parallel(
    spec: Experiment, keys: Iterable[str], why: str, diagnostics: Diagnostics
) -> None:
    """Refuse sizes of `parallel` that no argument of the script mentions."""
    for key in _not_passed_on(spec, keys):
        diagnostics.problem(("parallel", key), _size(spec, key, why), _pass_on(key))


def check_parallel_arguments(spec: Experiment, diagnostics: Diagnostics) -> None:
    """Refuse arguments with another size than `parallel` has.

    Warn of sizes that none mentions: a program may also get them from a file or a variable.
    """
    contradicted = set(_refuse_other_sizes(spec, diagnostics))
    for key in _not_passed_on(spec, [one for one in _NAMES if one not in contradicted]):
        what = _size(spec, key, "it is not passed to your script")
        diagnostics.problem(("parallel", key), what, _pass_on(key), warning=True)


def _refuse_other_sizes(spec: Experiment, diagnostics: Diagnostics) -> Iterator[str]:
    """The keys of `parallel` that an argument contradicts: the batch and the checks use these."""
    is_used = spec.batch or "parallel" in spec.model_fields_set
    for path, one in _arguments(spec) if is_used else ():
        for key, names in _NAMES.items():
            size, value = getattr(spec.parallel, key), "".join(one.texts)
            if names.size.fullmatch(one.key) and value.isdecimal() and int(value) != size:
                name = one.name.lstrip("-")
                origin = diagnostics.describe_key(("parallel", key))
                diagnostics.problem(
                    path,
                    f"{name}: {value}, but {origin} is {size}",
                    f'write {name}: "{{{{ parallel.{key} }}}}", and the size in parallel alone',
                )
                yield key


def _arguments(spec: Experiment) -> Iterator[tuple[Path, Argument]]:
    """The arguments of `args` and of `command`, with their places in the spec."""
    for one in given_arguments(spec):
        yield one.path, one
    for one in _from_list(spec.command or ()):
        yield ("command", one.position), one


def _not_passed_on(spec: Experiment, keys: Iterable[str]) -> Iterator[str]:
    given = [one for _, one in _arguments(spec)]
    for key in keys:
        size = getattr(spec.parallel, key)
        named = (one for one in given if _NAMES[key].mention.search(one.key))
        values = (text for one in named for text in one.texts)
        if size > 1 and not any(one == str(size) or not one.isdecimal() for one in values):
            yield key


def _size(spec: Experiment, key: str, why: str) -> str:
    return f"{key}: {getattr(spec.parallel, key)}, but {why}"


def _pass_on(key: str) -> str:
    example = f'{{{key}-parallel: "{{{{ parallel.{key} }}}}"}}'
    return f"args: {example} for a script that has it, or framework: megatron-lm"
