"""Where the files that come with clusterjobs lie: in the wheel, or in a checkout."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping

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


def node_program(name: str) -> str:
    """The text of a program for the nodes, such as `stage.py`."""
    return node_programs()[name].read_text(encoding="utf-8")
