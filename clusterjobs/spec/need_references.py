"""References to a spec that is needed: `{{ needs.pretrain.checkpoints.path }}`.

Finds the spec by its name among `needs:`, and the value in it; the caller reads the file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Location, Problem, did_you_mean
from clusterjobs.spec.keys.needs import need_name
from clusterjobs.spec.references import BadReferenceError, Expanded, look_up
from clusterjobs.text import Text, show, variable_names

# ------------------------------------------------------------------ need circle
# Circular needs: the error shows the whole circle.


KEY = "needs"


class Step(NamedTuple):
    """One step in a chain of needs: `file` needs `needs`; `where`: the line of that entry.

    `identity`: of `file`; the same for the same file, however it is named.
    """

    identity: str
    file: str
    needs: str
    where: Location


class CircleError(InputError):
    """Specs need one another, so none of them can start."""


def check_circle(way: Sequence[Step], identity: str) -> None:
    """Raises CircleError if the last step leads back to the spec of that identity."""
    start = next((n for n, step in enumerate(way) if step.identity == identity), None)
    if start is None:
        return
    steps = way[start:]
    told = ", ".join(f"{one.file}:{one.where.line} needs {one.needs}" for one in steps)
    what = f"these specs need one another, so none can start: {told}"
    if len(steps) == 1:
        what = f"{steps[0].file} needs itself"
    hint = "remove this need" if len(steps) == 1 else "remove one of these needs"
    raise CircleError([Problem(what, steps[0].where, KEY, hint)])


# The shell variables of a point: the same in both jobs, if each point waits for the same point.
_OF_THE_POINT = "point_"


class NeededValues:
    """The values of a spec that is needed, its references expanded: of each of its points.

    Without a sweep there is one. `file`: its name for messages.
    """

    def __init__(self, file: str, points: Sequence[Mapping[str, Any]]) -> None:
        self.file, self._points = file, points
        self._known: dict[str, Expanded] = {}

    def value(self, path: str, name: str) -> Expanded:
        """The value at `path`, the same for all points. Raises BadReferenceError about `name`."""
        if path not in self._known:
            self._known[path] = self._found(path, name)
        return self._known[path]

    def _found(self, path: str, name: str) -> Expanded:
        try:
            found: list[Expanded] = [look_up(path, point) for point in self._points]
        except BadReferenceError as error:
            what = str(error).replace(path, name, 1)
            raise BadReferenceError(f"{what} in {self.file}", error.hint) from None
        if any(one != found[0] for one in found):
            raise BadReferenceError(
                f"{name} differs between the points of {self.file}",
                "give this spec the same sweep, and refer to its own value",
            )
        return found[0]


# Reads the spec of that file name, for a spec that needs it at that position. Raises InputError.
NeedReader = Callable[[str, Location], NeededValues]


def no_needs(spec: str, _where: Location) -> NeededValues:
    """The reader of needs for a spec without a file, which cannot have any."""
    raise BadReferenceError(f"cannot read {spec}: the spec has no folder")


def needed_value(
    name: str,
    needs: Any,
    read: Callable[[str, int], NeededValues],
    expand_text: Callable[[str], Expanded],
) -> Expanded:
    """The value of `needs.<name>`. `needs`: as written; `read` gets the index of an item.

    Raises BadReferenceError, and CircleError.
    """
    need, _, path = name.partition(".")
    found = {one.name: one for one in _specs(needs, expand_text)}
    if need not in found:
        for one in found.values():
            _read(one, read)  # a file that is missing is named first, not suggested
        hint = did_you_mean(need, list(found)) if found else "add `needs: [{spec: ...}]`"
        raise BadReferenceError(f"no entry of needs is named {need}", hint)
    if not path:
        raise BadReferenceError(
            f"needs.{need} is a whole spec", f"write one of its values, needs.{need}.name"
        )
    if path.split(".")[0] == "secrets":
        raise BadReferenceError(
            "cannot refer to the secrets of another spec",
            "list the secret under secrets: of this spec",
        )
    return _value(path, found[need], _read(found[need], read))


class _NeededSpec(NamedTuple):
    item: int
    name: str
    spec: str
    on: Any


def _specs(needs: Any, expand_text: Callable[[str], Expanded]) -> Iterator[_NeededSpec]:
    """The specs that are needed; what is wrong is reported by the models."""
    for index, one in enumerate(needs if isinstance(needs, list) else []):
        entry = one if isinstance(one, dict) else {"spec": one}
        spec = entry.get("spec")
        spec = expand_text(spec) if isinstance(spec, str) else None
        if isinstance(spec, str) and spec:
            name = str(entry.get("as") or need_name(spec))
            yield _NeededSpec(index, name, spec, entry.get("on"))


def _read(need: _NeededSpec, read: Callable[[str, int], NeededValues]) -> NeededValues:
    try:
        return read(need.spec, need.item)
    except CircleError:
        raise
    except InputError as error:
        first = error.problems[0]
        where = f"{first.where}: " if first.where and first.where.file else ""
        path = f"{first.path}: " if first.path else ""
        what = f"cannot use {need.spec}: {where}{path}{first.what}"
        raise BadReferenceError(what, first.hint) from None


def _value(path: str, need: _NeededSpec, values: NeededValues) -> Expanded:
    name = f"needs.{need.name}.{path}"
    found = values.value(path, name)
    for variable in variable_names(found):
        if not variable.startswith(_OF_THE_POINT):
            raise BadReferenceError(
                f"{name} is {_shown(found)}, and ${variable} is known only inside the job of "
                f"{values.file}",
                "change that value to one that is known before the job runs, or write the path "
                "here",
            )
        if need.on != "each":
            raise BadReferenceError(
                f"{name} is {_shown(found)}, which differs for each point of {values.file}",
                "write `on: each` to use the value of the same point",
            )
    return found


def _shown(value: Expanded) -> str:
    return show(value) if isinstance(value, Text) else str(value)
