"""Finds the newest checkpoint that is whole, and repairs what a training resumes from.

    whole_checkpoint.py latest FOLDER [MARKER]          prints the path of the newest whole one
    whole_checkpoint.py repair FOLDER [NAME PATTERN]...

Some frameworks overwrite what they resume from, and a kill meanwhile leaves it cut or empty. NAME
is such a file. PATTERN matches the names of the checkpoints: with a group, NAME has the group's
text; without one, NAME is a copy of the newest. What is replaced is kept under a hidden name.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import sys
import zipfile
from typing import Callable, List, Optional

from attempt_files import first_line

TORCH = (".pt", ".pth", ".ckpt")  # of torch.save: zip archives, whose list of files is at the end
TENSORS = (*TORCH, ".bin", ".npz", ".safetensors")
ZIP = b"PK\3\4"
MAX_HEADER = 100 << 20  # bytes of a header of safetensors, its own limit


def main(arguments: List[str]) -> int:
    command, folder, *rest = arguments
    if command == "latest":
        found = latest(folder, *rest)
        if found:
            print(found)
        return 0
    for name, pattern in zip(rest[::2], rest[1::2]):
        try:
            repair(folder, name, re.compile(pattern))
        except OSError as error:
            say(f"{os.path.join(folder, name)} is not repaired: {error.strerror}")
    return 0


# ------------------------------------------------------------------ the newest


def latest(folder: str, marker: str = "") -> Optional[str]:
    """The path of the checkpoint that the marker names, or else of the newest that is whole.

    None if there is none, or if the marker is missing or names nothing that is there.
    """
    name = first_line(marker).strip("\0") if marker else ""
    named = os.path.join(folder, name) if name else ""
    if marker and not os.path.exists(named or marker):
        return None
    if named and is_whole(named):
        return named
    found = [path for path in newest_first(folder) if path != marker]
    newest = next((path for path in found if is_whole(path)), None)
    if newest:
        for cut in [named or marker] if marker else found[: found.index(newest)]:
            say(f"{cut} {_fault(cut)}: {newest} is taken, the newest whole checkpoint")
    return newest


def newest_first(folder: str, is_one: Callable[[str], object] = bool) -> List[str]:
    """The paths of the entries with such names that are not hidden, the newest first."""
    try:
        entries = [one for one in os.scandir(folder) if not one.name.startswith(".")]
        found = [
            (one.stat(follow_symlinks=False).st_mtime_ns, one.path)
            for one in entries
            if is_one(one.name)
        ]
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


# ------------------------------------------------------------------ the repair


def repair(folder: str, name: str, pattern: "re.Pattern[str]") -> None:
    """Make the file `name` mean the newest whole checkpoint, if what it means now is cut."""
    path = os.path.join(folder, name)
    if not os.path.lexists(path):
        return
    meant = _meant(folder, first_line(path).strip("\0 "), pattern) if pattern.groups else path
    if meant and is_whole(meant):
        return
    if meant and not os.path.exists(meant):
        say(f"{path} names {os.path.basename(meant)}, which is missing")
        return
    fault = f"{path} is empty" if not meant else f"{meant} {_fault(meant)}"
    found = [one for one in _saved(folder, pattern) if one not in (path, meant)]
    source = next((one for one in found if is_whole(one)), None)
    if source is None:
        say(f"{fault}, and there is no other whole checkpoint")
        return
    kept = _put(path, _content(source, pattern))
    say(f"{fault}: {source} is resumed instead, the newest whole checkpoint; {kept} keeps the old")


def _put(path: str, write: Callable[[str], object]) -> str:
    """Replace a file by what `write` makes; returns the hidden name of what was there."""
    folder, name = os.path.split(path)
    new, number = os.path.join(folder, f".{name}.new"), 1
    try:
        write(new)
        while os.path.lexists(os.path.join(folder, f".{name}.cut-{number}")):
            number += 1
        kept = os.path.join(folder, f".{name}.cut-{number}")
        os.rename(path, kept)
        os.rename(new, path)
    except OSError:
        if os.path.lexists(new):
            os.remove(new)
        raise
    return kept


def _content(source: str, pattern: "re.Pattern[str]") -> Callable[[str], object]:
    """What writes a file that means the checkpoint `source`."""
    found = pattern.fullmatch(os.path.basename(source))
    if not found or not pattern.groups:
        # No hard link: the training overwrites the copy in place, and would overwrite its source.
        return lambda new: shutil.copy2(source, new)
    text = found.group(1)

    def write(new: str) -> None:
        with open(new, "w") as file:
            file.write(text)

    return write


def _meant(folder: str, text: str, pattern: "re.Pattern[str]") -> str:
    """The path of the checkpoint that such a text names; "" for none."""
    if not text:
        return ""
    for path in newest_first(folder, pattern.fullmatch):
        match = pattern.fullmatch(os.path.basename(path))
        if match and match.group(1) == text:
            return path
    return os.path.join(folder, text)


def _saved(folder: str, pattern: "re.Pattern[str]") -> List[str]:
    """The checkpoints, the newest first, unless some rank had not begun to write it."""
    found = newest_first(folder, pattern.fullmatch)
    if len(found) > 1 and _count(found[0]) < _count(found[1]):
        return found[1:]
    return found


def _count(path: str) -> int:
    return sum(len(files) for _, _, files in os.walk(path))


# ------------------------------------------------------------------ whole or not


def is_whole(path: str) -> bool:
    """Whether a file, or each file of tensors in a folder, has its end; True if nobody can tell."""
    return _fault(path) is None


def _fault(path: str) -> Optional[str]:
    """What is wrong with the checkpoint, as a verb with its object; None for nothing."""
    if not os.path.isdir(path):
        return _fault_of_file(path)
    names = []
    for folder, _, files in os.walk(path):
        names += [os.path.join(folder, name) for name in files]
    is_of_torch = any(one.endswith(".distcp") for one in names)
    if is_of_torch and os.path.join(path, ".metadata") not in names:
        return "has no .metadata, which PyTorch writes last"
    for one in names:
        what = _fault_of_file(one) if one.endswith(TENSORS) else None
        if what:
            return f"has {os.path.basename(one)}, which {what}"
    return None


def _fault_of_file(path: str) -> Optional[str]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            start = file.read(8) if stat.S_ISREG(status.st_mode) else b"other"
            if path.endswith(TENSORS) and not status.st_size:
                return "is empty"
            if path.endswith(".safetensors"):
                return None if _has_tensors(file, start, status.st_size) else "is cut"
    except FileNotFoundError:
        return "is missing"
    except OSError:
        return None  # nobody can tell
    if start[:4] == ZIP[: len(start)]:
        try:
            zipfile.ZipFile(path).close()
        except (zipfile.BadZipFile, ValueError):
            return "is cut"
        except (OSError, NotImplementedError):
            return None
    return "starts with zeros" if path.endswith(TORCH) and start[:1] == b"\0" else None


def _has_tensors(file: object, start: bytes, size: int) -> bool:
    """Whether a file of safetensors has all that its header names."""
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > min(size - 8, MAX_HEADER):
        return False
    try:
        header = json.loads(file.read(length))  # type: ignore[attr-defined]
        tensors = [one for name, one in header.items() if name != "__metadata__"]
        end = max((one["data_offsets"][1] for one in tensors), default=0)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    return bool(8 + length + end <= size)


def say(message: str) -> None:
    print(f"clusterjobs: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
