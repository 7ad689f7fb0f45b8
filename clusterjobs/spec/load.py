"""Turns a spec's text, and the texts below it, into an Experiment.

The steps: the layers (defaults, bases, the spec, `--set`) are merged, then references expanded,
then the models validate. Positions are kept, so that later problems can be shown where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import (
    Found,
    InputError,
    Problem,
    in_order,
    of_points,
)
from clusterjobs.spec.defaults import (
    Layered,
    Reader,
    ReadQueues,
    Selection,
    load_bases,
    load_defaults,
    no_queues,
    no_reader,
    spec_layer,
)
from clusterjobs.spec.expand_references import expand_references
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.sweep import KEY, Point, Sweep
from clusterjobs.spec.layers import Layer, Merged, Setting, Source, apply_setting, read_setting
from clusterjobs.spec.model import OptionModels, SpecModel
from clusterjobs.spec.need_references import NeedReader, no_needs
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.validate import Validated, validate
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted

if TYPE_CHECKING:
    from clusterjobs.spec.sweep import SweptSpec


# ------------------------------------------------------------------ remaining
# A spec without its wrong values, so that the rest of it can be checked as well.


_ROUNDS = 5  # removing a value can leave a mapping without a required key
_MANY = 100  # enough for one round of corrections; each takes time


def remaining_experiment(
    data: Any, problems: Sequence[Problem], source: Locator, option_models: OptionModels
) -> Validated | None:
    """What the models make of `data` without the values that have problems; None if nothing."""
    for _ in range(_ROUNDS if len(problems) <= _MANY else 0):
        data = _without(data, {problem.path for problem in problems})
        found: list[Problem] = []
        valid = validate({"name": "unnamed", **data}, source, option_models, found)
        if valid.spec and not found:
            return valid
        problems = found
    return None


def _without(data: dict[str, Any], wrong: set[str]) -> Any:
    """`data` without the values at these paths; without the mapping that lacks a key of them."""
    there: set[str] = set()
    _kept(data, (), wrong, there)
    lacking = {path.rpartition(".")[0] for path in wrong - there}
    return _kept(data, (), wrong | lacking, there)


def _kept(value: Any, path: Path, wrong: set[str], found: set[str]) -> Any:
    """The value at `path` without what is `wrong` in it, which is added to `found`."""
    if not isinstance(value, (dict, list)):
        return value
    kept = {}
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        name = dotted((*path, step))
        if name in wrong:
            found.add(name)
        else:
            kept[step] = _kept(item, (*path, step), wrong, found)
    return kept if isinstance(value, dict) else list(kept.values())


class Below(NamedTuple):
    """What a spec builds on. `defaults`: (file, text), the highest precedence first.

    `clusters`: the names that defaults may use; `queues` finds the queue of a cluster, a spec's
    `queue` and its `gpus_per_node`. `read_base` reads what a spec extends, and `identity` is the
    spec's own file there. `read_need` reads the values of a spec that is needed.
    """

    defaults: Sequence[tuple[str, str]] = ()
    clusters: Callable[[], Sequence[str]] = tuple
    queues: ReadQueues = no_queues
    read_base: Reader = no_reader
    identity: str = ""
    read_need: NeedReader = no_needs


class LoadedSpec(NamedTuple):
    """A spec as it was loaded: its keys, its framework's options, and the origin of each value.

    `launcher_options` are those of every launcher that the spec has options of, by its name.
    `layers` are what was merged, without `--set`; `merged` is before references were expanded, and
    `expanded` after it. `point` is None without a sweep. `notes` have to be shown with the plan's
    warnings.
    """

    spec: Experiment
    options: SpecModel | None
    source: Source
    merged: Merged
    layers: tuple[Layer, ...] = ()
    point: Point | None = None
    notes: tuple[Problem, ...] = ()
    expanded: Mapping[str, Any] = {}
    launcher_options: Mapping[str, SpecModel] = {}

    def files(self, role: str) -> tuple[tuple[str, str], ...]:
        """(file, text) of the files with that role in the spec, each once."""
        found = [one.text for one in self.layers if one.role == role]
        texts = {one.file: one.text for one in found if isinstance(one, Document)}
        return tuple(texts.items())


class BrokenSpecError(InputError):
    """Values are wrong. `rest` is the spec without them; None if it is no spec without them.

    `points`: those of a sweep that have no problem.
    """

    def __init__(
        self,
        problems: Iterable[Problem],
        rest: LoadedSpec | None,
        points: Iterable[LoadedSpec] = (),
    ) -> None:
        super().__init__(problems)
        self.rest, self.points = rest, tuple(points)


def load_spec(
    text: str,
    file: str,
    option_models: OptionModels,
    settings: Sequence[str] = (),
    below: Below | None = None,
) -> LoadedSpec:
    """Read a spec. `option_models` has the keys of each framework; `settings` are `--set` items.

    Raises InputError for the YAML and the layers, and BrokenSpecError with all problems of the
    references and the single values.
    """
    read = _read(text, file, option_models, settings, below or Below())
    return read.points(first_only=True)[0] if KEY in read.merged.data else read.plain()


def load_points(
    text: str,
    file: str,
    option_models: OptionModels,
    settings: Sequence[str] = (),
    below: Below | None = None,
) -> tuple[LoadedSpec, ...]:
    """The points of a spec, each a spec of its own; the one spec if it has no sweep.

    Raises as `load_spec`, with the problems of all points.
    """
    read = _read(text, file, option_models, settings, below or Below())
    return read.points() if KEY in read.merged.data else (read.plain(),)


def _read(
    text: str, file: str, option_models: OptionModels, settings: Sequence[str], below: Below
) -> _Read:
    """Merge the texts. Raises InputError."""
    document = yaml_document.load(text, file)
    own = spec_layer(document, "spec")
    specs = [*load_bases(document, below.identity, below.read_base), own]
    for layer in specs[:-1]:
        if secrets := find_secrets(layer.value, layer.text):
            raise InputError(secrets)  # alone, because other problems would print the lines
    names = below.clusters() if below.defaults else ()
    defaults = [load_defaults(text, file, names, option_models) for file, text in below.defaults]
    items = [read_setting(item, number) for number, item in enumerate(settings, 1)]
    selection = Selection(defaults[::-1], specs, items, below.queues, option_models)
    found = _without_unset_sweep(selection.layered())
    if secrets := find_secrets(found.merged.data, found.merged.source):
        raise InputError(secrets)
    return _Read(selection, found, option_models, below.read_need)


def _without_unset_sweep(found: Layered) -> Layered:
    """`--set sweep=null` runs the spec itself. In a file, an empty `sweep:` is a mistake."""
    data, source = found.merged.data, found.merged.source
    if data.get(KEY, KEY) is not None or source.origin((KEY,)).layer.role != "--set":
        return found
    kept = {key: value for key, value in data.items() if key != KEY}
    return found._replace(merged=found.merged._replace(data=kept))


def _spec(valid: Validated, found: Layered) -> LoadedSpec:
    assert valid.spec is not None
    return LoadedSpec(
        valid.spec,
        valid.options,
        found.merged.source,
        found.merged,
        found.layers,
        notes=tuple(_typographic_quotes(found.merged.data, (), found.merged.source)),
        launcher_options=valid.launcher_options,
    )


_QUOTES = ("“", "”", "„", "‘", "’", "«", "»")


def _typographic_quotes(value: Any, path: Path, source: Locator) -> Iterator[Problem]:
    """Values in quotes of a text processor, which YAML reads as part of the value."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _typographic_quotes(item, (*path, key), source)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _typographic_quotes(item, (*path, index), source)
    elif isinstance(value, str) and value[:1] in _QUOTES and value[-1:] in _QUOTES:
        what = f"the quotes of {value} are part of the value"
        hint = "write the straight quotes that YAML and shells read"
        yield Problem(what, source.locate(path), dotted(path), hint, warning=True)


class _Read:
    """A spec that is read and merged, and not yet validated."""

    def __init__(
        self,
        selection: Selection,
        found: Layered,
        option_models: OptionModels,
        read_need: NeedReader,
    ) -> None:
        self._selection, self._found, self._option_models = selection, found, option_models
        self.merged, self._read_need = found.merged, read_need

    def plain(self) -> LoadedSpec:
        """The spec without a sweep."""
        return self._validated(self._found, self._found.merged.data)

    def _validated(
        self,
        found: Layered,
        data: dict[str, Any],
        sweep: Sweep | None = None,
        needs_rest: bool = True,
    ) -> LoadedSpec:
        """The spec of data whose references are not expanded. Raises BrokenSpecError.

        `needs_rest`: with what is left without the wrong values, which takes time.
        """
        source, problems = found.merged.source, found.problems
        options = self._option_models.of_framework(data.get("framework"))
        data = expand_references(data, source, problems, read_need=self._read_need, options=options)
        wanted = {**data, KEY: sweep} if sweep else data
        valid = validate(wanted, source, self._option_models, problems)
        if problems or valid.spec is None:
            remaining = needs_rest and remaining_experiment(
                wanted, problems, source, self._option_models
            )
            rest = _spec(remaining, found) if remaining else None
            raise BrokenSpecError(in_order(problems), rest)
        return _spec(valid, found)._replace(expanded=data)

    def points(self, first_only: bool = False) -> tuple[LoadedSpec, ...]:
        """The spec of each point, or only of the first. Raises BrokenSpecError."""
        from clusterjobs.spec.sweep import (
            common_problems,
            read_sweep,
            shared_arguments,
            unused_settings,
        )

        try:
            swept = read_sweep(self.merged, self._option_models)
        except InputError as error:
            raise BrokenSpecError(in_order([*error.problems, *self._others()]), None) from None
        points = swept.points[:1] if first_only else swept.points
        specs: list[LoadedSpec] = []
        wrong: list[Found] = []
        rest = None
        for point, settings in points:
            try:
                specs.append(self._point(swept, point, settings, needs_rest=rest is None))
            except InputError as error:
                wrong.append(Found(point.name, error.problems))
                rest = rest or getattr(error, "rest", None)
        if wrong:
            raise BrokenSpecError(of_points(wrong, len(points)), rest, specs)
        if problems := in_order(common_problems(specs)):
            raise BrokenSpecError(problems, specs[0])
        unused = unused_settings(swept, self._selection.settings)
        warnings = () if first_only else (*unused, *shared_arguments(specs))
        return tuple(one._replace(notes=one.notes + warnings) for one in specs)

    def _others(self) -> list[Problem]:
        """The problems of a spec whose sweep is wrong; what is missing may be in the points."""
        found = self._found._replace(problems=[*self._found.problems])
        try:
            self._validated(found, {**found.merged.data, KEY: {}})
        except BrokenSpecError as error:
            return [one for one in error.problems if not one.what.endswith(" is missing")]
        return []

    def _point(
        self, swept: SweptSpec, point: Point, settings: Sequence[Setting], needs_rest: bool
    ) -> LoadedSpec:
        from clusterjobs.spec.sweep import with_own_folders

        found, sweep = self._with(settings), swept.sweep
        notes = [*swept.notes]
        own = {"name": point.name, "label": point.label, "index": point.index}
        data = {**found.merged.data, KEY: {"name": sweep.name, "point": own}}
        packed = (sweep.per_node or 1) > 1
        data = with_own_folders(data, found.merged.source, notes, packed=packed)
        loaded = self._validated(found, data, sweep, needs_rest)
        return loaded._replace(point=point, notes=(*loaded.notes, *notes))

    def _with(self, settings: Sequence[Setting]) -> Layered:
        """The layers with a point's settings, which may decide whose defaults apply."""
        if self._selection.depends_on(settings, self.merged):
            return self._selection.with_settings(settings).layered()
        problems, merged = [*self._found.problems], self.merged
        for setting in settings:
            merged = apply_setting(merged, setting, problems)
        return Layered(self._found.layers, merged, problems)
