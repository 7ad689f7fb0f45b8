"""How long a training is, and how often it saves, as the spec or its arguments say.

It knows the arguments of the common trainers by name; it must not know plans.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

from clusterjobs.foresight.training_time import steps_of
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.spec.experiment import Experiment
from clusterjobs.yaml.document import Path

# Arguments as argparse stores them. Megatron-LM and Megatron-DeepSpeed: arguments.py. Hugging Face:
# TrainingArguments. fairseq: --max-update, --save-interval-updates.
_STEPS = ("train_iters", "max_steps", "max_update", "steps")
_SAMPLES = ("train_samples",)
_TOKENS = ("train_tokens",)
_SAVES = ("save_interval", "save_steps", "save_interval_updates", "save_every", "checkpoint_factor")


class Length(NamedTuple):
    """One of three is given; `origin` says where."""

    tokens: float | None
    samples: float | None
    steps: float | None
    origin: str

    def steps_with(self, batch: int, sequence: int) -> int:
        return steps_of(self.tokens, self.samples, self.steps, batch, sequence)


def length_of(experiment: Experiment) -> Length | None:
    """The length; None if it is unknown. `training` wins over the arguments."""
    training = getattr(experiment, "training", None)
    if training is not None:
        return Length(training.tokens, training.samples, training.steps, "training")
    return length_in_arguments(experiment)


def length_in_arguments(experiment: Experiment) -> Length | None:
    """The length that the program's arguments say; None if they say none."""
    if found := _argument(experiment, _TOKENS):
        return Length(found[1], None, None, f"args.{found[0]}")
    if found := _argument(experiment, _SAMPLES):
        return Length(None, found[1], None, f"args.{found[0]}")
    if found := _argument(experiment, _STEPS):
        return Length(None, None, found[1], f"args.{found[0]}")
    return None


def save_steps(experiment: Experiment) -> int | None:
    """Steps between two checkpoints; None if it is unknown, or if the interval is no number."""
    found = _argument(experiment, _SAVES)
    return int(found[1]) if found and found[1] >= 1 else None


def steps_argument(experiment: Experiment) -> tuple[Path, str] | None:
    """The path of the argument that decides the length, and what it counts."""
    for names, unit in ((_TOKENS, "tokens"), (_SAMPLES, "samples"), (_STEPS, "steps")):
        for one in given_arguments(experiment):
            if one.key in names:
                return one.path, unit
    return None


def _argument(experiment: Experiment, names: Sequence[str]) -> tuple[str, float] | None:
    """The first of these arguments that has a positive number, as the spec names it."""
    written = {one.key: one for one in given_arguments(experiment)}
    for name in names:
        with contextlib.suppress(KeyError, ValueError, IndexError):
            number = float(written[name].values[0])
            if 0 < number < 1e18:
                return written[name].name.lstrip("-"), number
    return None
