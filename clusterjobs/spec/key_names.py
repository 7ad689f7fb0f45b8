"""Names of keys: dotted ones, `sbatch.account`, former ones, and those of options of sbatch."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Location, Problem, did_you_mean, nearest
from clusterjobs.slurm.options import Program, known_options
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import OptionModels, SpecModel, keys_below, known_keys
from clusterjobs.yaml.document import Path, dotted

# ------------------------------------------------------------------ renamed keys
# Keys that a spec had under another name: what replaces each, as a hint that can be pasted.


@functools.cache
def renamed_keys() -> Mapping[str, Path]:
    """The former name of a key -> its path."""
    keys = keys_below(Experiment).items()
    return {key.renamed_from: path for path, key in keys if key.renamed_from}


def renamed_key(path: Path, data: Mapping[str, Any], source: Locator) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the old name of another key."""
    old = ".".join(step for step in path if isinstance(step, str))
    keys, new = keys_below(Experiment), renamed_keys().get(old)
    if new is None:
        return None
    section, last, value = str(new[0]), new[-1], written_value(source.locate(path))
    if len(new) == len(old.split(".")):
        name, instead = str(last), f"{last}: {value}"
    else:
        name, instead = dotted(new), f"{section}: {{{last}: {value}}}"
        if isinstance(data.get(section), str):  # short for the section's first key
            first = next(one[-1] for one in keys if one[:-1] == (section,))
            short = f"{first}: {written_value(source.locate((section,)))}"
            instead = f"{section}: {{{short}, {last}: {value}}}, in place of both keys"
        elif isinstance(data.get(section), dict) and last in data[section]:
            instead = f"one of the two values there, and remove {path[-1]}"
    what, where = f"{path[-1]} is now {name}", source.locate_key(path)
    return Problem(what, where, dotted(path), f"write {instead}", meant=section)


@functools.cache
def _other_names() -> Mapping[Path, Path]:
    """A path that nobody reads -> the key that is meant: `software.conda_env`, `conda_env`.

    A name of a key in a section may also stand at the top, unless two sections have the name.
    """
    inside: dict[Path, Path] = {}
    at_top: dict[Path, set[Path]] = {}
    for path, key in keys_below(Experiment).items():
        for name, _, step in (one.partition("=") for one in key.also_called):
            meant = (*path, step) if step else path
            beside: Path = (*path[:-1], name)
            inside[beside] = meant
            if len(path) > 1 and keys_below(Experiment)[path[:1]].is_section:
                at_top.setdefault((name,), set()).add(meant)
    return {name: next(iter(of)) for name, of in at_top.items() if len(of) == 1} | inside


def key_of_other_name(path: Path) -> Path | None:
    """The key that others call by the name at `path`; it keeps the index of a list."""
    *above, last = path
    names = [step for step in above if isinstance(step, str)]
    meant = _other_names().get((*names, str(last).replace("-", "_").lower()))
    if meant is None:
        return None
    return (*above, meant[-1]) if above and len(meant) == len(names) + 1 else meant


def written_value(where: Location) -> str:
    """The value at a position as it is written, quoted if an inline mapping needs it.

    "...": a list, a mapping or text that goes on in the next line.
    """
    text = where.source[where.column - 1 : where.column - 1 + where.width]
    if text.startswith(("|", ">")):
        return "..."
    if text.startswith(("[", "{")):
        return text if text[0] + text[-1] in ("[]", "{}") else "..."
    is_plain = not text.startswith(("'", '"')) and any(sign in text for sign in ",[]{}:#")
    return f'"{text}"' if is_plain else text


# ------------------------------------------------------------------ slurm names
# Options of sbatch written as keys of the spec: `partition` is `queue`, `account` is in `sbatch`.


class Owner(NamedTuple):
    """The key of the spec that has an option's value, and what to write instead of the option.

    `instead`: "" if both have the same value. `also_option`: `sbatch` may have the option, too.
    """

    key: str
    instead: str
    also_option: bool


@functools.cache
def owners_of_options() -> Mapping[str, Owner]:
    """Option of sbatch -> its owner."""
    found: dict[str, Owner] = {}
    for name, key in known_keys(Experiment).items():
        if key:
            same = [*key.options, *([key.directive] if key.directive else [])]
            found |= {option: Owner(name, "", False) for option in same}
            found |= {option: Owner(name, text, False) for option, text in key.instead_of.items()}
            found |= {option: Owner(name, text, True) for option, text in key.beside.items()}
    return found


def key_of_option(option: str) -> str | None:
    """What a spec has in place of the option, `queue`; None if it may set the option itself."""
    owner = owners_of_options().get(option)
    if owner is None or (owner.also_option and option in known_options("sbatch").takes_value):
        return None
    return owner.instead or owner.key


def slurm_name(
    path: Path, source: Locator, fit: Callable[[str, str], str] = lambda _, value: value
) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the name of an option of sbatch.

    `fit`: of a key and the written value, the value in a form that the key takes.
    """
    if len(path) > 1 or path[0] in ("help", "usage", "version"):
        return None
    options, option = known_options("sbatch"), str(path[0]).replace("_", "-")
    option, value = options.short.get(option, option), written_value(source.locate(path))
    if owner := owners_of_options().get(option):
        meant, hint = owner.key, f"write {owner.instead or f'{owner.key}: {fit(owner.key, value)}'}"
    elif option in options.takes_value:
        meant, hint = "sbatch", f"write sbatch: {{{option}: {value}}}"
    else:
        return None
    what = f"{path[0]} is an option of sbatch, not a key of the spec"
    return Problem(what, source.locate_key(path), dotted(path), hint, meant=meant)


_MISSPELT = 0.8  # a less similar option may be one of a plugin


class UnknownKeyError(ValueError):
    """An error: no spec has such a key. `hint` says what may be meant."""

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
