"""Writes the rendered files: completely or not at all, and never over other files."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping

from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.sections.render import MANIFEST


def changed_files(folder: pathlib.Path, outputs: Mapping[str, str]) -> dict[str, str]:
    """File name -> new, changed, or stale (from an earlier render, no longer needed)."""
    changes = {}
    for name, text in outputs.items():
        current = _read(folder / name)
        if current is None:
            changes[name] = "new"
        elif current != text.encode():
            changes[name] = "changed"
    return {**changes, **{name: "stale" for name in _recorded(folder) if name not in outputs}}


def write_outputs(folder: pathlib.Path, outputs: Mapping[str, str], force: bool) -> dict[str, str]:
    """Write changed files and remove stale ones; the manifest is written last.

    Raises InputError, before anything is written, for files that clusterjobs did not write or
    that were edited since, unless `force`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone_in(folder):
            changes = changed_files(folder, outputs)
            if not force:
                _refuse_foreign(folder, changes)
            for name in sorted(changes, key=lambda name: name == MANIFEST):
                if changes[name] == "stale":
                    (folder / name).unlink(missing_ok=True)
                else:
                    replace_file(folder / name, outputs[name])
    except OSError as error:
        raise one_problem(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return changes


@contextlib.contextmanager
def _alone_in(folder: pathlib.Path) -> Iterator[None]:
    """A lock: each of two renders at the same time would take the other's files for edited ones."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _refuse_foreign(folder: pathlib.Path, changes: Mapping[str, str]) -> None:
    recorded = _recorded(folder)
    problems = []
    for name, change in changes.items():
        current = _read(folder / name)
        if current is None or (name == MANIFEST and recorded):
            continue
        if change != "new" and recorded.get(name) != hashlib.sha256(current).hexdigest():
            why = "was edited since" if name in recorded else "was not written by clusterjobs"
            problems.append(
                Problem(
                    f"{folder / name} {why}",
                    hint="--force overwrites it, -o names another folder",
                )
            )
    if problems:
        raise InputError(problems)


def recorded_spec(folder: pathlib.Path) -> str:
    """The file name of the spec that the folder's files were rendered from; "" if unknown."""
    try:
        return str(json.loads(_read(folder / MANIFEST) or b"{}")["inputs"]["spec"][0]["name"])
    except _DAMAGED:
        return ""


# A manifest may have been edited.
_DAMAGED = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError)


def _recorded(folder: pathlib.Path) -> dict[str, str]:
    """The files that clusterjobs wrote to the folder, by its manifest: name -> digest."""
    try:
        manifest = json.loads(_read(folder / MANIFEST) or b"{}")
        outputs = manifest["outputs"] if manifest["written_by"] == "clusterjobs" else {}
        names = {name: str(value) for name, value in outputs.items()}
    except _DAMAGED:
        return {}
    return {  # plain file names alone: a manifest may have been edited
        name: value
        for name, value in names.items()
        if name == pathlib.Path(name).name and name not in ("", "..") and name.isprintable()
    }


def _read(path: pathlib.Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise one_problem(f"cannot read {path}: {error.strerror}") from None


def write_text(path: pathlib.Path, text: str) -> None:
    """Write a file completely or not at all. Raises InputError if that is not possible."""
    try:
        replace_file(path, text)
    except OSError as error:
        raise one_problem(f"cannot write {path}: {error.strerror}") from None


def replace_file(path: pathlib.Path, text: str) -> None:
    """Replace a file atomically: a reader sees the old file or the new one.

    What is no regular file, such as /dev/stdout or a named pipe, is written to.
    """
    if pathlib.Path("/dev") in path.absolute().parents or (path.exists() and not path.is_file()):
        path.write_bytes(text.encode())
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = pathlib.Path(name)
    try:
        temporary.write_bytes(text.encode())
        temporary.chmod(_mode(path))
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _mode(path: pathlib.Path) -> int:
    """The mode that `open` would give; a script is also executable."""
    umask = os.umask(0)
    os.umask(umask)
    return (0o777 if path.suffix == ".sh" else 0o666) & ~umask
