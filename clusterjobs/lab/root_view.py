"""The root folder of the lab's processes, as a list of instructions for init.sh.

It contains everything of this machine, and the cluster's folders. A parent folder of an added
folder is rebuilt, with its entries bound one by one, so that nothing is created on this machine.
This module reads the names of this machine's folders; it must not mount anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

# A new pid namespace needs a /proc of its own, which init.sh mounts.
_NOT_BOUND = frozenset({PurePosixPath("/proc")})


def root_view(added: Mapping[str, Path], root: Path = Path("/")) -> str:
    """Lines of `KIND<TAB>SOURCE<TAB>TARGET`: `folder`, `link` (SOURCE is the link's text), `bind`.

    `added` maps a folder in the lab to a folder on this machine.
    """
    targets = {PurePosixPath(target): source for target, source in added.items()}
    parents = {parent for target in targets for parent in target.parents}
    lines = [
        line for folder in sorted(parents) for line in _rebuilt(root, folder, parents, targets)
    ]
    lines += [f"bind\t{targets[target]}\t{target}" for target in sorted(targets)]
    return "".join(f"{line}\n" for line in lines)


def _rebuilt(
    root: Path,
    folder: PurePosixPath,
    parents: set[PurePosixPath],
    targets: Mapping[PurePosixPath, Path],
) -> Iterator[str]:
    yield f"folder\t-\t{folder}"
    for entry in _entries(root / folder.relative_to("/")):
        path = folder / entry.name
        if path in parents or path in targets or path in _NOT_BOUND:
            continue
        if entry.is_symlink():
            yield f"link\t{entry.readlink()}\t{path}"
        else:
            yield f"bind\t{entry}\t{path}"


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder, except names with tabs or newlines, which separate instructions."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if not set("\t\n") & set(entry.name))
