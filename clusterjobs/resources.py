"""Where the files that come with clusterjobs lie: in the wheel, or in a checkout."""

import functools
import pathlib
import re
from collections.abc import Iterable, Mapping

_PACKAGE = pathlib.Path(__file__).parent


def templates_dir() -> pathlib.Path:
    """The folder with `job.sh.j2` and its blocks."""
    return _folder("templates")


@functools.cache
def template_texts(folder: pathlib.Path | None = None) -> Mapping[str, str]:
    """The text of every template, or of those in `folder`, by its name."""
    folder = folder or templates_dir()
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.j2"))
    }


def cluster_configs_dir() -> pathlib.Path:
    """The folder with the ready ParallelCluster configs."""
    return _folder("cluster-configs")


def site_folder_dir() -> pathlib.Path:
    """The files of a new site folder, everything in them commented out or harmless."""
    return _folder("site-folder")


def examples_dir() -> pathlib.Path:
    """The example specs, with their clusters, config files and the small training."""
    return _folder("examples")


def _folder(name: str) -> pathlib.Path:
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / name


@functools.cache
def node_programs() -> Mapping[str, pathlib.Path]:
    """The programs for the nodes by file name; a job's folder holds them side by side."""
    paths = sorted((_PACKAGE / "node").glob("**/*.*"))
    return {
        path.name: path
        for path in paths
        if path.suffix in (".py", ".sh") and path.stem != "__init__"
    }


@functools.cache
def node_program(name: str) -> str:
    """The text of a program for the nodes, such as `stage.py`."""
    return node_programs()[name].read_text(encoding="utf-8")


# Everywhere in a file, for a program may import another one late; other modules are sorted out.
_IMPORT_OR_FILE = re.compile(
    r"""^\s*(?:import|from)\s+(\w+)|["'](\w+\.(?:py|sh))["']""", re.MULTILINE
)


def with_imports(names: Iterable[str]) -> tuple[str, ...]:
    """Programs for the nodes, and all others that they need, sorted by name.

    A program needs those that it imports, and those whose file names it has as strings, such as a
    shell script that it runs.
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _needed_by(name)
    return tuple(sorted(found))


@functools.cache
def _needed_by(name: str) -> tuple[str, ...]:
    matches = _IMPORT_OR_FILE.finditer(node_program(name))
    needed = (match[2] or f"{match[1]}.py" for match in matches)
    return tuple(one for one in needed if one in node_programs())
