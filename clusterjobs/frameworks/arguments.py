"""The spec's `script` and `args` as a command line, and the arguments that are refused there.

Knows how arguments are written; it must not know what any of them means.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import expanding


def script_of(experiment: Experiment, diagnostics: Diagnostics) -> str | None:
    """The spec's script, without which a Python framework has nothing to run."""
    if experiment.command is not None:
        diagnostics.problem(
            ("command",),
            f"{experiment.framework} runs a script, not a command",
            "write script: train.py, or framework: command",
        )
    if experiment.script is None:
        diagnostics.missing("script", "script is missing", "add `script: train.py`")
    return experiment.script and expanding(experiment.script)


def arguments_of(experiment: Experiment) -> tuple[str, ...]:
    """`args: {lr: 1e-4, flag: true, off: false, data: [a, b]}` -> --lr 1e-4 --flag --data a b.

    A list is passed on as it is. A name that starts with a dash keeps its own dashes.
    """
    arguments = experiment.args
    if not isinstance(arguments, Mapping):
        return tuple(arguments)
    found: list[str] = []
    for name, value in arguments.items():
        flag = name if name.startswith("-") else f"--{name}"
        if value is True:
            found.append(flag)
        elif isinstance(value, tuple):
            found += [flag, *value]
        elif value is not False:
            found += [flag, str(value)]
    return tuple(found)


def argument_names(experiment: Experiment) -> list[tuple[str | int, str]]:
    """The names in `args` as they are written, each with its key or index there."""
    if isinstance(experiment.args, Mapping):
        return [(name, name) for name in experiment.args]
    return [(i, item) for i, item in enumerate(experiment.args) if item.startswith("-")]


def argument_key(name: str) -> str:
    """`--micro-batch-size=4` -> micro_batch_size, as argparse stores it."""
    return name.lstrip("-").partition("=")[0].replace("-", "_")


def refuse_arguments(
    experiment: Experiment, diagnostics: Diagnostics, derived: Mapping[str, str]
) -> None:
    """Refuse `args` that clusterjobs sets itself: {key: where the value comes from}."""
    for position, name in argument_names(experiment):
        if (key := argument_key(name)) in derived:
            refuse_derived(position, name, derived[key], diagnostics)


def refuse_derived(position: str | int, name: str, origin: str, diagnostics: Diagnostics) -> None:
    """Refuse one argument of `args`, because its value follows from `origin`."""
    diagnostics.problem(
        ("args", position), f"{name} is derived from {origin}", "remove it: clusterjobs sets it"
    )
