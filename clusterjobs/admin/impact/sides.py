"""What `impact` compares: the site folders, specs and version before and after a change."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.sites.folders import SiteFolders, find_site_folders


class Copy(NamedTuple):
    """A folder, and a temporary one with its files at the revision `shown`."""

    folder: str
    copy: str
    shown: str


class Cluster(NamedTuple):
    """A config for the cluster of this name, and a link to it in a temporary site folder."""

    name: str
    file: str
    link: str


@dataclass(frozen=True)
class Side:
    """One of both sides. `copies`: where a spec is read, if not from its own folder."""

    site: SiteFolders
    copies: tuple[Copy, ...] = ()
    executable: str | None = None  # of another version; None is this one
    clusters: tuple[Cluster, ...] = ()

    def spec(self, path: str) -> str | None:
        """Where this side reads a spec; None if it has no such file."""
        for copy in self.copies:
            real = os.path.realpath(path)
            if f"{real}/".startswith(f"{copy.folder}/"):
                there = copy.copy + real[len(copy.folder) :]
                return there if os.path.lexists(there) else None
        return path

    def readable(self, message: str) -> str:
        """A message without the names of temporary folders."""
        for copy in self.copies:
            message = message.replace(f"{copy.copy}/", copy.shown)
        for cluster in self.clusters:
            message = message.replace(cluster.link, cluster.file)
        return message

    @property
    def title(self) -> str:
        """The site folders in a line, and what is special."""
        folders = self.site.folders[1:] if self.clusters else self.site.folders
        named = ", ".join(self.readable(f"{folder}/").rstrip("/") for folder in folders)
        special = [f"cluster {one.name} from {one.file}" for one in self.clusters]
        special += [f"rendered by {self.executable}"] if self.executable else []
        return ", ".join([named or "no site folder", *special])


class Sides(NamedTuple):
    """Both sides, and an empty folder to work in.

    A site.yaml in the working folder of whoever calls this is not that of the specs' users.
    """

    before: Side
    after: Side
    folder: str


class Change(NamedTuple):
    """What somebody wants to compare, as the options name it."""

    site: Path | None = None
    revision: str | None = None
    clusters: tuple[tuple[str, Path], ...] = ()
    executable: str | None = None


@contextlib.contextmanager
def both_sides(change: Change) -> Iterator[Sides]:
    """The sides before and after; their temporary folders are removed at the end.

    Raises InputError.
    """
    present = _absolute(find_site_folders())
    with tempfile.TemporaryDirectory(prefix="clusterjobs-impact-") as name:
        temporary = Path(name).resolve()
        before = after = Side(present)
        if change.site:
            before, after = _replaced(present, change.site)
        elif change.revision:
            before = _at_revision(present, change.revision, temporary)
        if change.clusters:
            after = _with_clusters(after, change.clusters, temporary / "clusters")
        folder = temporary / "empty"
        folder.mkdir()
        yield Sides(replace(before, executable=change.executable), after, str(folder))


def _absolute(site: SiteFolders) -> SiteFolders:
    return SiteFolders(tuple(folder.absolute() for folder in site.folders))


def _replaced(present: SiteFolders, old: Path) -> tuple[Side, Side]:
    """OLD takes the place of the present folder with the highest precedence.

    OLD may also be one of the lower ones: the system's folder, and the new one in a checkout.
    """
    if not old.is_dir():
        raise one_problem(f"--before: there is no folder {old}")
    new, rest = present.folders[:1], present.folders[1:]
    if new and new[0].samefile(old):
        hint = (
            "set CLUSTERJOBS_SITE to the changed folder: --before names the one before the change"
        )
        raise one_problem(f"{old} is the present site folder, not an earlier one", hint=hint)
    rest = tuple(folder for folder in rest if not folder.samefile(old))
    return Side(SiteFolders((old.absolute(), *rest))), Side(SiteFolders((*new, *rest)))


def _with_clusters(side: Side, clusters: Sequence[tuple[str, Path]], folder: Path) -> Side:
    """A site folder above all others, with the clusters under their names."""
    (folder / "clusters").mkdir(parents=True)
    found = []
    for name, file in clusters:
        link = folder / "clusters" / f"{name}.yaml"
        link.symlink_to(file.absolute())
        found.append(Cluster(name, str(file), str(link)))
    site = SiteFolders((folder, *side.site.folders))
    return replace(side, site=site, clusters=tuple(found))


# ------------------------------------------------------------------ an earlier revision in git


def _at_revision(present: SiteFolders, revision: str, temporary: Path) -> Side:
    """The site folders as they were, and all else that their repositories hold.

    If no site folder is in git, the repository of the working folder.
    """
    tops = {folder: _top(folder) for folder in present.folders}
    found = list(dict.fromkeys(filter(None, tops.values())))
    if not found:
        top = _top(Path.cwd())
        if top is None:
            hint = "call it from a checkout, or name the folder before the change: --before OLD"
            raise one_problem(
                "--against: neither a site folder nor this folder is in git", hint=hint
            )
        found = [top]
    copies = tuple(
        Copy(str(top), str(_extract(top, revision, temporary / str(number))), f"{revision}:")
        for number, top in enumerate(found)
    )
    side = Side(present, copies)
    then = (side.spec(str(folder.resolve() / ".")) for folder in present.folders)
    folders = tuple(Path(folder) for folder in then if folder and os.path.isdir(folder))  # noqa: PTH112
    return Side(SiteFolders(folders), copies)


def _top(folder: Path) -> Path | None:
    """The repository that a folder is in."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").strip()).resolve()
    except InputError:
        return None


def _extract(top: Path, revision: str, folder: Path) -> Path:
    try:
        commit = _git(
            top, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"
        ).strip()
    except InputError:  # git says only that it needs a single revision
        hint = "name a commit, a tag or a branch, as in `git log REV`"
        raise one_problem(f"--against: {top} has no revision {revision}", hint=hint) from None
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    _git(top, "archive", "--format=tar", f"--output={archive}", commit)
    subprocess.run(["tar", "-x", "-f", archive, "-C", folder], check=True, capture_output=True)
    archive.unlink()
    return folder


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, check=False)
    except OSError as error:
        raise one_problem(f"--against needs git: {error.strerror}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["git failed"]
        raise one_problem(f"--against: git says in {folder}: {said[0].removeprefix('fatal: ')}")
    return done.stdout.decode(errors="surrogateescape")
