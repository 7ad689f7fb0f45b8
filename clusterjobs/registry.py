"""Objects that installed packages provide as entry points, loaded on first use.

A package provides an object in its pyproject.toml:

    [project.entry-points."clusterjobs.launchers"]
    my-launcher = "my_package.my_launcher:MY_LAUNCHER"
"""

import functools
import importlib
import operator
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from clusterjobs.errors import InputError, one_problem

_Kind = TypeVar("_Kind", covariant=True)


class _EntryPoint(NamedTuple):
    """`value`: module:object; `package`: the name of the package that provides it."""

    name: str
    value: str
    package: str

    def load(self) -> object:
        module, _, name = self.value.partition(":")
        return operator.attrgetter(name)(importlib.import_module(module))


class Registry(Mapping[str, _Kind]):
    """Name -> object. An entry point is an object of `kind`, or a class that makes one."""

    def __init__(self, group: str, kind: type[_Kind]) -> None:
        self._group = group
        self._kind = kind
        self._loaded: dict[_EntryPoint, _Kind] = {}

    def __getitem__(self, name: str) -> _Kind:
        """Raises KeyError for an unknown name, InputError for an object that cannot be used."""
        first, *others = _entry_points(self._group)[name]
        if others:
            packages = " and ".join(sorted(one.package for one in (first, *others)))
            raise self._problem(first, f"is defined by {packages}", "uninstall one of them")
        if first not in self._loaded:
            self._loaded[first] = self._load(first)
        return self._loaded[first]

    def __contains__(self, name: object) -> bool:
        return name in _entry_points(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(_entry_points(self._group)))

    def __len__(self) -> int:
        return len(_entry_points(self._group))

    def _load(self, entry_point: _EntryPoint) -> _Kind:
        try:
            loaded = entry_point.load()
            found = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:  # any: the import runs the package's code
            package = entry_point.package
            what = f"of package {package} cannot be loaded: {type(error).__name__}: {error}"
            hint = f"repair {package}, or remove it: pip uninstall {package}"
            raise self._problem(entry_point, what, hint) from error
        if not isinstance(found, self._kind):
            what = f"of package {entry_point.package} has the type {type(found).__name__}"
            hint = f"{entry_point.value} must be a {self._kind.__name__}"
            raise self._problem(entry_point, what, hint)
        if (name := getattr(found, "name", None)) != entry_point.name:
            what = f"of package {entry_point.package} has another name itself: {name!r}"
            hint = f"give {entry_point.value} the name of its entry point"
            raise self._problem(entry_point, what, hint)
        return found

    def _problem(self, entry_point: _EntryPoint, what: str, hint: str) -> InputError:
        kind = self._kind.__name__.lower()
        return one_problem(f"{kind} {entry_point.name!r} {what}", hint=hint)


def forget_installed() -> None:
    """Search the installed packages again on the next use."""
    _all_entry_points.cache_clear()


def _entry_points(group: str) -> Mapping[str, tuple[_EntryPoint, ...]]:
    """The entry points of a group by name; several packages may use one name."""
    try:
        return _all_entry_points()[group]
    except KeyError:
        raise one_problem(
            f"no entry points of {group} are installed", hint="reinstall clusterjobs with pip"
        ) from None


@functools.cache
def _all_entry_points() -> Mapping[str, Mapping[str, tuple[_EntryPoint, ...]]]:
    """Group -> name -> entry points, of the packages in the folders of sys.path.

    `importlib.metadata` finds the same, but its import takes half of the time of `--help`.
    """
    files: dict[str, pathlib.Path] = {}
    for folder in map(pathlib.Path, sys.path):
        for file in sorted(folder.glob("*.*-info/entry_points.txt")):
            package = file.parent.name.rpartition(".")[0].rpartition("-")[0]
            files.setdefault(package.lower().replace("_", "-"), file)
    found: dict[str, dict[str, tuple[_EntryPoint, ...]]] = {}
    for package, file in files.items():
        group: dict[str, tuple[_EntryPoint, ...]] = {}
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            name, equals, value = (part.strip() for part in line.partition("="))
            if name.startswith("["):
                group = found.setdefault(name.strip("[]"), {})
            elif equals and not name.startswith("#"):
                one = _EntryPoint(name, value.partition("[")[0].strip(), package)
                group[name] = (*group.get(name, ()), one)
    return found
