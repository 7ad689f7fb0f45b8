"""Dotted keys of a spec, `sbatch.account`, as another file names them: which exist.

It knows the models of a spec; it must not know what a key is named for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Location, Problem, did_you_mean, nearest
from clusterjobs.slurm.options import Program, known_options
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import OptionModels, SpecModel
from clusterjobs.yaml.document import Path, dotted

# ------------------------------------------------------------------ renamed keys
#
# Keys that a spec had under another name: what replaces each, as a hint that can be pasted.


def renamed_key(path: Path, data: Mapping[str, Any], source: Locator) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the old name of another key."""
    if path == ("logs_export",):
        new, instead = "logs.export", _logs(data, source)
    elif path[0] == "data" and path[-1] == "check":
        new, instead = "verify", f"verify: {written_value(source.locate(path))}"
    else:
        return None
    return Problem(
        f"{path[-1]} is now {new}", source.locate_key(path), dotted(path), f"write {instead}"
    )


def _logs(data: Mapping[str, Any], source: Locator) -> str:
    export = written_value(source.locate(("logs_export",)))
    if not isinstance(data.get("logs"), str):
        return f"logs: {{export: {export}}}"
    path = written_value(source.locate(("logs",)))
    return f"logs: {{path: {path}, export: {export}}}, in place of both keys"


def written_value(where: Location) -> str:
    """The value at a position as it is written, quoted if an inline mapping needs it.

    "...": a list or mapping that goes on in the next line.
    """
    text = where.source[where.column - 1 : where.column - 1 + where.width]
    if text.startswith(("[", "{")):
        return text if text[0] + text[-1] in ("[]", "{}") else "..."
    is_plain = not text.startswith(("'", '"')) and any(sign in text for sign in ",[]{}:#")
    return f'"{text}"' if is_plain else text


# ------------------------------------------------------------------ slurm names
#
# Options of sbatch written as keys of the spec: `partition` is `queue`, `account` is in `sbatch`.


# Slurm's option -> the key of the spec, where both take the same value.
_SAME_VALUE = {
    "partition": "queue",
    "nodes": "nodes",
    "time": "time_limit",
    "job-name": "name",
    "gpus-per-node": "gpus_per_node",
    "ntasks-per-node": "ranks_per_node",
    "tasks-per-node": "ranks_per_node",
    "cpus-per-task": "cpus_per_task",
    "chdir": "workdir",
    "wrap": "command",
    "walltime": "time_limit",
}
# Slurm's option -> what to write instead.
_OTHER_VALUE = {
    "gpus": "gpus_per_node, the GPUs of each node",
    "gres": "gpus_per_node, the GPUs of each node",
    "gpus-per-task": "gpus_per_node, the GPUs of each node",
    "gpus-per-socket": "gpus_per_node, the GPUs of each node",
    "cpus-per-gpu": "cpus_per_task, the CPUs of each rank",
    "ntasks": "nodes and ranks_per_node",
    "ntasks-per-gpu": "ranks_per_node",
    "output": "logs, a folder",
    "error": "logs, a folder",
    "container": "software: {container: {runtime: pyxis, image: /fsx/images/pytorch.sqsh}}",
    "export": "env: {NAME: value}",
    "signal": "restarts: {signal: USR1}",
    "parsable": "nothing: clusterjobs submit prints the job's id",
    "test-only": "it when you submit: sbatch --test-only generated/job.sh",
}
# Options that a spec may also set in `sbatch`.
_ALSO_OPTIONS = ("output", "error", "signal")


def key_of_option(option: str) -> str | None:
    """What a spec has in place of the option, `queue`; None if it may set the option itself."""
    key = _SAME_VALUE.get(option) or _OTHER_VALUE.get(option)
    return None if option in _ALSO_OPTIONS else key


def slurm_name(path: Path, source: Locator) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the name of an option of sbatch."""
    if len(path) > 1 or path[0] in ("help", "usage", "version"):
        return None
    options, option = known_options("sbatch"), str(path[0]).replace("_", "-")
    option, value = options.short.get(option, option), written_value(source.locate(path))
    if key := _SAME_VALUE.get(option):
        hint = f"write {key}: {value}"
    elif instead := _OTHER_VALUE.get(option):
        hint = f"write {instead}"
    elif option in options.takes_value:
        hint = f"write sbatch: {{{option}: {value}}}"
    else:
        return None
    what = f"{path[0]} is an option of sbatch, not a key of the spec"
    return Problem(what, source.locate_key(path), dotted(path), hint)


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
