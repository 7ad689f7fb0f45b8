"""Dotted keys of a spec, `sbatch.account`, as another file names them: which exist.

It knows the models of a spec; it must not know what a key is named for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from clusterjobs.errors import did_you_mean, nearest
from clusterjobs.slurm_options import Program, known_options
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.slurm_names import key_of_option

_MISSPELT = 0.8  # a less similar option may be one of a plugin


class UnknownKeyError(ValueError):
    """No spec has such a key. `hint` says what may be meant."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def check_key(name: str, option_models: OptionModels) -> None:
    """Raise UnknownKeyError if no spec has the key. A key of a list is one of each item."""
    first, *steps = name.split(".")
    found = _top_level(first, option_models)
    if found is None:
        raise UnknownKeyError(f"a spec has no key {first}", _about_top_level(first, option_models))
    if first in ("sbatch", "srun") and steps:
        _check_option("sbatch" if first == "sbatch" else "srun", ".".join(steps))
        return
    inside = first
    for step in steps:
        keys = dict(_keys(found))
        if not keys:
            if _is_free(found):  # names that the user chooses
                return
            raise UnknownKeyError(f"{inside} has no keys", f"write {inside}")
        if step not in keys:
            hint = did_you_mean(step, sorted(keys))
            raise UnknownKeyError(f"{inside} has no key {step}", hint)
        found, inside = keys[step], f"{inside}.{step}"


def _top_level(name: str, option_models: OptionModels) -> Any:
    for key, found in itertools.chain(_keys(Experiment), option_models.all_keys()):
        if key == name:
            return found
    return None


def _about_top_level(name: str, option_models: OptionModels) -> str:
    """The nearest key, or the nearest option of sbatch as `sbatch.account`."""
    own = [key for key, _ in _keys(Experiment)]
    own += [key for key, _ in option_models.all_keys()]
    if instead := key_of_option(name.replace("_", "-")):
        return f"write {instead}"
    option = nearest(name.replace("_", "-"), known_options("sbatch").takes_value, _MISSPELT)
    match = nearest(name, own)
    if option and (match is None or nearest(name, [match, option]) == option):
        return f"did you mean sbatch.{option}?"
    return did_you_mean(name, sorted(set(own)))


def _check_option(program: Program, name: str) -> None:
    options = known_options(program)
    if instead := key_of_option(name):
        raise UnknownKeyError(f"no spec sets --{name} in {program}", f"write {instead}")
    if name in options.takes_value:
        return
    if full := options.short.get(name):
        raise UnknownKeyError(f"-{name} is the short form of --{full}", f"write {program}.{full}")
    if match := nearest(name, options.takes_value, _MISSPELT):
        what = f"{program} has no option --{name}"
        raise UnknownKeyError(what, f"did you mean {program}.{match}?")


def _keys(annotation: Any) -> Iterator[tuple[str, Any]]:
    """The keys of the models in a type, with their types; none in a mapping with free names."""
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        for name, field in annotation.model_fields.items():
            yield field.alias or name, field.annotation
        return
    if _is_free(annotation):
        return
    for inner in getattr(annotation, "__args__", ()):
        yield from _keys(inner)


def _is_free(annotation: Any) -> bool:
    """Whether a type is, or contains, a mapping whose names the user chooses."""
    if annotation is Any or getattr(annotation, "__origin__", annotation) is dict:
        return True
    return any(_is_free(inner) for inner in getattr(annotation, "__args__", ()))
