"""All keys of a spec in the order of the reference, with those of frameworks and launchers."""

import functools
from collections.abc import Collection, Iterator
from typing import NamedTuple

from pydantic.fields import FieldInfo

from clusterjobs.frameworks import option_models
from clusterjobs.launchers import LauncherOptions
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.model import Key, SpecModel, known_keys, models_in


class Documented(NamedTuple):
    """A key with its place. `data[].source`: of each item of a list; `env.NAME`: of a name that the
    user chooses.

    `default`: in Markdown, "" for none. `of`: the frameworks that have it, () for all.
    """

    path: str
    key: Key
    default: str
    field: FieldInfo | None = None
    of: tuple[str, ...] = ()


@functools.cache
def all_keys() -> tuple[Documented, ...]:
    """The keys of all specs, each once. Loads all frameworks and launchers."""
    extends = Documented("extends", EXTENDS, "none")
    return (*keys_of(Experiment), extends, *keys_of_frameworks())


def keys_of(
    model: type[SpecModel], above: str = "", without: Collection[type[SpecModel]] = ()
) -> Iterator[Documented]:
    """The keys of a model, each followed by the keys below it, if these are not of `without`."""
    for (name, key), field in zip(
        known_keys(model).items(), model.model_fields.values(), strict=True
    ):
        assert key, f"{model.__name__}.{name} has no Key"
        path = f"{above}{name}"
        yield Documented(path, key, default_of(key, field), field)
        kind = getattr(field.annotation, "__origin__", None)
        step = {tuple: "[].", dict: ".NAME."}.get(kind, ".") if kind else "."
        below: dict[str, Documented] = {}
        for inner in reversed(list(models_in(field.annotation))):  # a model's sizes, then its file
            if inner not in without:
                for one in keys_of(inner, f"{path}{step}", without):
                    below.setdefault(one.path, one)
        yield from below.values()


def keys_of_frameworks(without: Collection[type[SpecModel]] = ()) -> Iterator[Documented]:
    """The keys that frameworks and launchers add to a spec, if they are not of `without`."""
    models = option_models()
    found: dict[str, Documented] = {}
    for framework, model in models.frameworks.items():
        for one in keys_of(model, "", without) if model else ():
            if one.path not in found:
                found[one.path] = one
            found[one.path] = found[one.path]._replace(of=(*found[one.path].of, framework))
    yield from found.values()
    for launcher, options in models.launchers.items():
        if options and issubclass(options, LauncherOptions):
            yield Documented(launcher, options.about, "")
            yield from keys_of(options, f"{launcher}.", without)


def default_of(key: Key, field: FieldInfo) -> str:
    """The default in Markdown; "" for none."""
    if key.default_is:
        return key.default_is
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str) and value:
        return f"`{value}`"
    return str(value) if isinstance(value, int) else ""
