"""Reads the `sweep:` of a merged spec: its points, and the settings that each of them makes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

from clusterjobs.diagnostics import Diagnostics, Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.expand_references import expand_references, expanded_text, expanded_value
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import UnknownKeyError, check_key
from clusterjobs.spec.keys.job import EXTENDS
from clusterjobs.spec.keys.sweep import KEY, Point, Sweep
from clusterjobs.spec.layers import Merged, Setting, path_of
from clusterjobs.spec.model import OptionModels, SpecModel, known_keys
from clusterjobs.spec.points import SweptValue, make_points
from clusterjobs.spec.validate import check_model
from clusterjobs.text import (
    POINT_VARIABLES,
    Reference,
    ShellVariable,
    Text,
    Value,
    is_absolute,
    partition,
    replaced,
    show,
    variable_names,
)
from clusterjobs.yaml.document import MAX_DEPTH, Path, dotted, look_at

if TYPE_CHECKING:
    from clusterjobs.spec.experiment import Experiment


# Sections with keys and values of the points: references in these are expanded in each point.
_SECTIONS = ("grid", "zip", "random", "include", "exclude")


class SweptSpec(NamedTuple):
    """The sweep of a spec.

    `points`: each with the values that it puts into the spec. `notes`: warnings.
    """

    sweep: Sweep
    points: tuple[tuple[Point, tuple[Setting, ...]], ...]
    notes: tuple[Problem, ...]


class _SpecWithSweep(SpecModel):
    sweep: Annotated[Sweep, known_keys(Experiment)[KEY]]


def read_sweep(merged: Merged, option_models: OptionModels) -> SweptSpec:
    """The sweep of a spec that has one. Raises InputError with all of its problems."""
    diagnostics = Diagnostics(merged.source)
    data = {KEY: _expanded(merged, diagnostics)}
    found = check_model(_SpecWithSweep, data, merged.source, diagnostics.problems)
    diagnostics.raise_if_failed()
    sweep: Sweep = found.sweep
    name = sweep.name or expanded_text(merged.data, "name")
    if name:
        sweep = sweep.model_copy(update={"name": name})
    points = make_points(sweep, diagnostics)
    _check_keys(sweep, option_models, diagnostics)
    settings = _Settings(merged.source)
    made = tuple((point, settings.of(values)) for point, values in points)
    diagnostics.raise_if_failed()
    return SweptSpec(sweep, made, tuple(diagnostics.problems))


def unused_settings(swept: SweptSpec, settings: Sequence[Setting]) -> Iterator[Problem]:
    """A warning for each `--set` whose key every point sets to its own value."""
    for one in settings:
        steps = {one.path[:end] for end in range(1, len(one.path) + 1)}
        if all(any(own.path in steps for own in values) for _, values in swept.points):
            what = "this key is swept: the points have their own values, and not this one"
            hint = "remove it, or change the values below sweep"
            yield Problem(what, one.key, dotted(one.path), hint, warning=True)


def _expanded(merged: Merged, diagnostics: Diagnostics) -> Any:
    """The sweep's data; references are expanded except in what belongs to single points."""
    data = merged.data[KEY]
    if not isinstance(data, dict):
        return data
    own = {key: value for key, value in data.items() if key not in _SECTIONS}
    found = expand_references({**merged.data, KEY: own}, merged.source, diagnostics.problems, KEY)
    return {**data, **found}


def _check_keys(sweep: Sweep, option_models: OptionModels, diagnostics: Diagnostics) -> None:
    """Every swept key is one that a spec has, and that may differ between points."""
    places: list[tuple[str, Path]] = []
    for section, keys in (("grid", sweep.grid), ("zip", sweep.zip), ("random", sweep.random)):
        places += [(key, (KEY, section, key)) for key in keys]
    for number, entry in enumerate(sweep.include):
        places += [(key, (KEY, "include", number, key)) for key in entry]
    known: dict[str, tuple[str, str] | None] = {}
    for key, path in places:
        if key not in known:
            known[key] = _about(key, option_models)
        if about := known[key]:
            diagnostics.problem(path, *about, at_key=True)


def _about(key: str, option_models: OptionModels) -> tuple[str, str] | None:
    """Why this key cannot be swept, and what to do; None if it can be."""
    path = path_of(key)
    first = str(path[0])
    known = EXTENDS if first == "extends" else known_keys(Experiment).get(first)
    if known and known.fixed_in_sweep:
        why, hint = known.fixed_in_sweep
        return f"{first} cannot be swept: {why}", hint
    if (plain := ".".join(map(str, path))) != key:  # args.01, beside args.1
        return f"this is the key {plain}", f"write {plain}"
    if len(path) > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH} levels", "is this the right key?"
    try:  # a key of a list is one of each item
        check_key(".".join(step for step in path if isinstance(step, str)), option_models)
    except UnknownKeyError as error:
        is_argument = len(path) == 1 and error.hint.startswith("known: ")
        instead = (
            f"write args.{key.lstrip('-')} for an argument of your program, or a key of the spec"
        )
        return str(error), instead if is_argument else error.hint
    return None


class _Settings:
    """Makes the settings of points: one for each value of the spec, which many points share."""

    def __init__(self, source: Locator) -> None:
        self._source = source
        self._known: dict[tuple[Path, int], Setting] = {}

    def of(self, values: Mapping[str, SweptValue]) -> tuple[Setting, ...]:
        return tuple(self._setting(key, swept) for key, swept in values.items())

    def _setting(self, key: str, swept: SweptValue) -> Setting:
        place = (swept.at, id(swept.value))
        if place not in self._known:
            where, at_key = self._source.locate(swept.at), self._source.locate_key(swept.key_at)
            self._known[place] = Setting(path_of(key), swept.value, where, at_key, "spec")
        return self._known[place]


# ------------------------------------------------------------------ point folders
# Gives each point of a sweep a checkpoint folder of its own.


OWN = "{{ point.label }}"
_OF_ONE_POINT = {*POINT_VARIABLES, "job_dir"}
_OF_ONE_TASK = "SLURM_JOB_ID"
_FOLDERS = (("checkpoints", "path"), ("checkpoints", "export"))


def with_own_folders(
    data: dict[str, Any], source: Locator, notes: list[Problem], *, packed: bool
) -> dict[str, Any]:
    """The spec of a point; its label is appended to folders that points would share.

    The notes say so. `packed`: several points have the same job id.
    """
    for path in _FOLDERS:
        written = look_at(data, path)
        if not isinstance(written, str) or not written:
            continue
        if is_shared(expanded_value(data, *path) or written, packed=packed):
            section, key = path
            inner, appended = data[section], f"{written.rstrip('/')}/{OWN}"
            data = {**data, section: {**inner, key: appended}}
            what = f"the points would share this folder, so {OWN} is appended"
            where, hint = source.locate(path), f'write "{appended}"'
            notes.append(Problem(what, where, dotted(path), hint, warning=True, info=True))
    return data


def is_shared(folder: Value, *, packed: bool) -> bool:
    """Whether several points would have this folder."""
    own = _OF_ONE_POINT if packed else {*_OF_ONE_POINT, _OF_ONE_TASK}
    return not own.intersection(variable_names(folder))


def in_the_job(folder: Value, point: Point, *, packed: bool) -> str:
    """The folder of this point, with what tells its job from others instead of variables."""
    own = {"point_name": point.name, "point_label": point.label, "point_index": str(point.index)}
    own |= {"job_dir": f"/{point.name}", _OF_ONE_TASK: "job" if packed else point.name}
    known: dict[Reference, str] = {ShellVariable(name): value for name, value in own.items()}
    return show(replaced(folder, lambda one: known.get(one, one)))


# ------------------------------------------------------------------ common values
# Compares the points of a sweep: some values must be equal, some folders must differ.


# Arguments that name a folder which a training writes, by the usual names.
_WRITTEN = frozenset(
    (
        *("checkpoint_dir", "checkpoint_path", "ckpt_dir", "default_root_dir", "log_dir"),
        *("logdir", "logging_dir", "out", "out_dir", "output", "output_dir", "output_path"),
        *("save", "save_dir", "save_path", "tensorboard_dir", "tensorboard_logdir", "work_dir"),
    )
)


class LoadedPoint(Protocol):
    """What is compared: a point's spec as it is loaded."""

    @property
    def spec(self) -> Experiment: ...
    @property
    def source(self) -> Locator: ...
    @property
    def point(self) -> Point | None: ...
    @property
    def expanded(self) -> Any: ...


def is_packed(spec: LoadedPoint) -> bool:
    """Whether several points run in one task."""
    sweep = spec.spec.sweep
    return ((sweep and sweep.per_node) or 1) > 1


_HINT = "refer only to values that are the same in all points"


def common_problems(specs: Sequence[LoadedPoint]) -> Iterator[Problem]:
    """A problem for the name, the cluster or the logs of the points if they differ.

    Also for a checkpoint folder of two points.
    """
    source, first = specs[0].source, specs[0].spec
    for loaded in specs:
        found = loaded.spec
        for key, one, other in (
            ("name", first.name, found.name),
            ("cluster", first.cluster, found.cluster),
            ("logs", first.logs.path, found.logs.path),
        ):
            if one != other:
                what = f"{show(other)}, and {show(one)} in other points: a sweep has one {key}"
                yield Problem(what, source.locate((key,)), key, _HINT)
    if set(POINT_VARIABLES).intersection(variable_names(first.logs.path)):
        what = "must be the same for all points: each point gets a folder of its own in it"
        yield Problem(what, source.locate(("logs",)), "logs", "remove the reference to the point")
    yield from _shared_folders(specs)


def _shared_folders(specs: Sequence[LoadedPoint]) -> Iterator[Problem]:
    """A problem for each point with the checkpoint folder of another one.

    Two names can make one path: 1 and 11, `{{ args.x }}{{ point.index }}`; a, and b/../a.
    """
    for key in ("path", "export"):
        known: dict[str, str] = {}
        for loaded in specs:
            point, checkpoints = loaded.point, loaded.spec.checkpoints
            folder = getattr(checkpoints, key) if checkpoints else None
            if not point or not folder:
                continue
            place = posixpath.normpath(in_the_job(folder, point, packed=is_packed(loaded)))
            if known.setdefault(place, point.name) != point.name:
                where = ("checkpoints", key)
                what = f"{place} is also that of the point {known[place]}"
                hint = f"let each end with a folder of its own: /{OWN}"
                yield Problem(what, loaded.source.locate(where), dotted(where), hint)


def shared_arguments(specs: Sequence[LoadedPoint]) -> Iterator[Problem]:
    """A warning for each argument that is a folder which all points would write."""
    packed = is_packed(specs[0])
    first, *others = (dict(_folders(one.expanded.get("args"), packed)) for one in specs)
    for path, folder in first.items():
        if all(one.get(path) == folder for one in others):
            what = f"all points of the sweep would write into {show(folder)}"
            where, own = specs[0].source.locate(path), f"{show(folder).rstrip('/')}/{OWN}"
            yield Problem(what, where, dotted(path), f'write "{own}"', warning=True)


def _folders(arguments: Any, packed: bool) -> Iterator[tuple[Path, Value]]:
    """Arguments that name a folder, the same one for any point of the same values."""
    named: list[tuple[str | int, Any, Any]] = []
    if isinstance(arguments, dict):
        named = [(name, name, value) for name, value in arguments.items()]
    elif isinstance(arguments, list):  # --output_dir=/fsx/out, or two items
        texts = [partition(one if isinstance(one, Text) else str(one), "=") for one in arguments]
        named = [
            (index, name, value) if sign else (index + 1, name, after)
            for index, ((name, sign, value), after) in enumerate(
                zip(texts, [*arguments[1:], None], strict=False)  # an empty list has no next item
            )
        ]
    for step, name, value in named:
        word = (
            (show(name) if isinstance(name, Text) else str(name))
            .lstrip("-")
            .replace("-", "_")
            .rpartition(".")[2]
        )
        is_folder = word in _WRITTEN and isinstance(value, (str, Text)) and is_absolute(value)
        if is_folder and is_shared(value, packed=packed):
            yield ("args", step), value
