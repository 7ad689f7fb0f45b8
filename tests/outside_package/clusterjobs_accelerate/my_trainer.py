"""A trainer of this site, with a key of its own in the spec: `trainer: {steps: 500}`."""

from __future__ import annotations

from typing import Annotated

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.arguments import arguments_of, refuse_arguments, script_of
from clusterjobs.frameworks.base import Framework, Program, Task
from clusterjobs.spec.field_types import Count
from clusterjobs.spec.model import Key, SpecModel, TopLevelKeys


class Trainer(SpecModel):
    """The options of the trainer."""

    steps: Annotated[Count, Key("the number of training steps", "500")] = 1000


class Options(TopLevelKeys):
    """`trainer`: the options of the trainer."""

    trainer: Annotated[
        Trainer, Key("the options of the trainer", "{steps: 500}", schedules=False)
    ] = Trainer()


class MyTrainer(Framework):
    """`framework: my-trainer`."""

    name = "my-trainer"
    launchers = ("my-accelerate", "srun")
    options = Options
    reads_precision = True
    packages = ("torch", "accelerate")

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        options = task.options
        assert isinstance(options, Options)
        script = script_of(task.spec, diagnostics)
        refuse_arguments(task.spec, diagnostics, {"steps": "trainer.steps"})
        if script is None:
            return None
        steps = str(options.trainer.steps)
        precision = task.spec.precision or "fp32"
        derived = ("--steps", steps, "--precision", precision)
        return Program((script, *arguments_of(task.spec), *derived), is_python=True)
