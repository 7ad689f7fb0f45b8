"""The root folder that the lab's processes see, as a list of instructions for init.sh.

All of this machine stays where it is, and the cluster's folders are added. A folder above an
added one is built anew, with its entries bound one by one: nothing is ever made on this machine.
Reads the names of this machine's folders; must not mount anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

# A new pid namespace needs a /proc of its own, which init.sh mounts.
_NOT_BOUND = frozenset({PurePosixPath("/proc")})


def root_view(added: Mapping[str, Path], root: Path = Path("/")) -> str:
    """One `KIND<TAB>SOURCE<TAB>TARGET` a line: `folder`, `link` (its SOURCE is its text), `bind`.

    `added` maps a folder inside the lab to the one on this machine that it shows.
    """
    targets = {PurePosixPath(target): source for target, source in added.items()}
    built = {parent for target in targets for parent in target.parents}
    lines = [line for folder in sorted(built) for line in _rebuilt(root, folder, built, targets)]
    lines += [f"bind\t{targets[target]}\t{target}" for target in sorted(targets)]
    return "".join(f"{line}\n" for line in lines)


def _rebuilt(
    root: Path,
    folder: PurePosixPath,
    built: set[PurePosixPath],
    targets: Mapping[PurePosixPath, Path],
) -> Iterator[str]:
    yield f"folder\t-\t{folder}"
    for entry in _entries(root / folder.relative_to("/")):
        place = folder / entry.name
        if place in built or place in targets or place in _NOT_BOUND:
            continue
        if entry.is_symlink():
            yield f"link\t{entry.readlink()}\t{place}"
        else:
            yield f"bind\t{entry}\t{place}"


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, less what the instructions have no way to write down."""
    if not folder.is_dir():
        return []
    return sorted(entry for entry in folder.iterdir() if not set("\t\n") & set(entry.name))
