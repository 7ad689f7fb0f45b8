"""Objects that installed packages provide as entry points, loaded on first use.

Knows how packages are installed; it must not know what a framework or a launcher is. A package
provides an object in its pyproject.toml:

    [project.entry-points."clusterjobs.launchers"]
    my-launcher = "my_package.my_launcher:MY_LAUNCHER"
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from clusterjobs.errors import InputError, one_problem

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_Kind = TypeVar("_Kind", covariant=True)


class Registry(Mapping[str, _Kind]):
    """Name -> object. An entry point is an object of `kind`, or a class that makes one."""

    def __init__(self, group: str, kind: type[_Kind]) -> None:
        self._group = group
        self._kind = kind

    def __getitem__(self, name: str) -> _Kind:
        """Raises KeyError for an unknown name, InputError for an object that cannot be used."""
        first, *others = _entry_points(self._group)[name]
        if others:
            packages = " and ".join(sorted(map(_package, (first, *others))))
            raise self._problem(first, f"is defined by {packages}", "uninstall one of them")
        return self._load(first)

    def __contains__(self, name: object) -> bool:
        return name in _entry_points(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_entry_points(self._group)))

    def __len__(self) -> int:
        return len(_entry_points(self._group))

    def _load(self, entry_point: EntryPoint) -> _Kind:
        try:
            loaded = entry_point.load()
            found = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # any: the import runs the package's code
            package = _package(entry_point)
            what = f"of package {package} cannot be loaded: {type(error).__name__}: {error}"
            hint = f"repair {package}, or remove it: pip uninstall {package}"
            raise self._problem(entry_point, what, hint) from error
        if not isinstance(found, self._kind):
            what = f"of package {_package(entry_point)} has the type {type(found).__name__}"
            hint = f"{entry_point.value} must be a {self._kind.__name__}"
            raise self._problem(entry_point, what, hint)
        if (name := getattr(found, "name", None)) != entry_point.name:
            what = f"of package {_package(entry_point)} has another name itself: {name!r}"
            hint = f"give {entry_point.value} the name of its entry point"
            raise self._problem(entry_point, what, hint)
        return found

    def _problem(self, entry_point: EntryPoint, what: str, hint: str) -> InputError:
        kind = self._kind.__name__.lower()
        return one_problem(f"{kind} {entry_point.name!r} {what}", hint=hint)


def forget_installed() -> None:
    """Search the installed packages again on the next use."""
    _all_entry_points.cache_clear()
    _entry_points.cache_clear()


@functools.cache
def _entry_points(group: str) -> Mapping[str, tuple[EntryPoint, ...]]:
    """The entry points of a group by name; several packages may use one name."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry_point in _all_entry_points().select(group=group):
        found[entry_point.name] = (*found.get(entry_point.name, ()), entry_point)
    if not found:
        raise one_problem(
            f"no entry points of {group} are installed", hint="reinstall clusterjobs with pip"
        )
    return found


@functools.cache
def _all_entry_points() -> Any:
    """The entry points of all groups: each search reads a file of every installed package."""
    import importlib.metadata  # slow to import, and `--help` needs none of it

    return importlib.metadata.entry_points()


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist else "of an unknown name"
