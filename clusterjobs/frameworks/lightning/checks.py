"""What Lightning would refuse or misread, found before anything is rendered.

Knows the names of the Trainer's arguments; it must not know how the job passes their values on.
Source: Lightning 2.6.6, fabric/plugins/environments/slurm.py and
pytorch/trainer/connectors/signal_connector.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.arguments import Argument, given_arguments, refuse_arguments
from clusterjobs.frameworks.flags import argument_findings, table
from clusterjobs.spec.experiment import Experiment
from clusterjobs.yaml.document import Path

_OF_TRAINER = re.compile(r"trainer\.\w+")  # no key of a class, and no `callbacks+`


def check_cli_arguments(
    experiment: Experiment, derived: Mapping[str, Path], diagnostics: Diagnostics
) -> None:
    """The arguments of a LightningCLI. `derived`: the Trainer's argument -> the spec's key."""
    refused = {f"trainer.{name}": diagnostics.describe_key(key) for name, key in derived.items()}
    refuse_arguments(experiment, diagnostics, refused)
    _refuse_files(experiment, diagnostics)
    of_trainer = [
        argument
        for argument in given_arguments(experiment)
        if _OF_TRAINER.fullmatch(argument.key) and argument.key not in refused
    ]
    for finding in argument_findings(of_trainer, table("lightning")):
        diagnostics.problem(*finding)


def _refuse_files(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """Files whose settings would replace the derived flags, which stand before `args`."""
    for argument in given_arguments(experiment):
        if argument.key in ("config", "trainer"):
            what = f"{argument.name} in args would replace the derived settings of the Trainer"
            diagnostics.problem(argument.path, what, "write lightning: {config: [FILE]}")


def check_sizes(experiment: Experiment, sizes: Mapping[str, str], diagnostics: Diagnostics) -> None:
    """Sizes among the arguments of a script's own parser, by the Trainer's names."""
    for argument in given_arguments(experiment):
        _check_size(argument, sizes, diagnostics)


def _check_size(argument: Argument, sizes: Mapping[str, str], diagnostics: Diagnostics) -> None:
    key = argument.key.removeprefix("trainer.")
    value = argument.values[0] if argument.values else ""
    if key in ("num_nodes", "devices") and value.isdecimal() and value != sizes[key]:
        reference = {"num_nodes": "nodes", "devices": "ranks_per_node"}[key]
        diagnostics.problem(
            argument.path,
            f"{argument.name}: {value}, but the job has {reference} {sizes[key]}, and Lightning "
            "compares them",
            f'remove it, or write {argument.name}: "{{{{ {reference} }}}}"',
        )


def check_requeue(experiment: Experiment, diagnostics: Diagnostics) -> None:
    """No signal may reach Lightning: it would requeue the job, or end in the middle of a step."""
    if experiment.restarts and experiment.restarts.signal:
        diagnostics.problem(
            ("restarts", "signal"),
            f"{experiment.restarts.signal} would end Lightning's ranks before they save",
            "remove it: the callback looks for the stop file after each step",
        )
    signal = str(experiment.sbatch.get("signal", ""))
    if signal and not signal.upper().startswith(("B:", "RB:", "BR:")):
        diagnostics.problem(
            ("sbatch", "signal"),
            f"{signal} would reach Lightning, which would requeue the job, as the script does",
            "remove it, and write restarts: {time_limit: 20}",
        )


def check_name(experiment: Experiment, diagnostics: Diagnostics) -> None:
    if experiment.name in ("bash", "interactive"):
        diagnostics.problem(
            ("name",),
            f"in a job named {experiment.name}, Lightning ignores Slurm: every rank would train a "
            "model of its own",
            f"write another name, for example {experiment.name}-run",
        )
