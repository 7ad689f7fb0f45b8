"""The overrides of a site folder's templates/, and the packaged texts that they were made from.

A base text is kept beside the overrides as `.base/NAME.CHECKSUM`: an upgrade of clusterjobs takes
the old packaged text away, and a merge needs it.
"""

import contextlib
import hashlib
import os
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs import resources
from clusterjobs.errors import InputError, Location, Problem, did_you_mean, one_problem
from clusterjobs.runs.write import replace_file
from clusterjobs.script.site import PACKAGED
from clusterjobs.sites.folders import TEMPLATES, SiteFolders, read_text, shown_path, template_files
from clusterjobs.version import __version__

# ------------------------------------------------------------------ header
# The header of an override says which packaged text it was made from.


_FIRST = "{## Made by `clusterjobs templates override` from "
_LAST = "    Keep these lines: `clusterjobs templates update` needs them. ##}\n"
_HEADER = re.compile(
    re.escape(_FIRST)
    + r"(?P<name>\S+)\.\n"
    + r"    packaged: (?P<packaged>\S+ sha256:[0-9a-f]{64})\n"
    + r"(?:    merging: (?P<merging>\S+ sha256:[0-9a-f]{64})\n)?"
    + re.escape(_LAST)
)


class Origin(NamedTuple):
    """A packaged text: the version of clusterjobs that it came with, and its SHA-256."""

    version: str
    sha256: str


class Header(NamedTuple):
    """`packaged`: what the override was made from. `merging`: what is merged, with conflicts left.

    `name`: the packaged template, such as blocks/launch.sh.j2.
    """

    name: str
    packaged: Origin
    merging: Origin | None = None

    def __str__(self) -> str:
        lines = [f"{_FIRST}{self.name}.\n", _line("packaged", self.packaged)]
        return "".join([*lines, _line("merging", self.merging) if self.merging else "", _LAST])


def _line(word: str, origin: Origin) -> str:
    return f"    {word}: {origin.version} sha256:{origin.sha256}\n"


def origin_of(text: str, version: str) -> Origin:
    """The origin of a packaged text."""
    return Origin(version, hashlib.sha256(text.encode()).hexdigest())


def split_header(text: str, file: str, name: str) -> tuple[Header, str]:
    """The header of the override of `name`, and the text below it.

    Raises InputError if the file has none, if it was edited, or if it is another template's.
    """
    found = _HEADER.match(text)
    lines = text.split("\n")
    if found is None and not text.startswith(_FIRST.rstrip()):
        raise one_problem(
            "this override has no header, so nobody knows from which packaged text it was made",
            Location(file, 1, 1, lines[0], max(1, len(lines[0]))),
            hint=f"move it away, run `clusterjobs templates override {name}`, and make your "
            "changes in the new file",
        )
    if found is None:
        number = _first_edited(lines)
        raise one_problem(
            "the header of this override was edited",
            Location(file, number, 1, lines[number - 1], max(1, len(lines[number - 1]))),
            hint="restore it from your version control: `templates update` merges by it",
        )
    if found["name"] != name:
        raise one_problem(
            f"this override was made from {found['name']}, not from {name}",
            Location(file, 1, len(_FIRST) + 1, lines[0], len(found["name"])),
            hint=f"a copy cannot be merged: run `clusterjobs templates override {name}`",
        )
    packaged, merging = _origin(found["packaged"]), found["merging"] and _origin(found["merging"])
    return Header(name, packaged, merging or None), text[found.end() :]


def _first_edited(lines: list[str]) -> int:
    """The first line of the header that is not as it was written."""
    origin = r"\S+ sha256:[0-9a-f]{64}"
    forms = [re.escape(_FIRST) + r"\S+\.", f"    packaged: {origin}", f"    merging: {origin}"]
    for number, (form, line) in enumerate(zip(forms, lines, strict=False), 1):
        if not re.fullmatch(form, line):
            return number
    return min(len(forms) + 1, len(lines))


def _origin(text: str) -> Origin:
    version, _, checksum = text.partition(" sha256:")
    return Origin(version, checksum)


_SUFFIX = ".sh.j2"


class Override(NamedTuple):
    """A template of a site folder that takes the place of the packaged one of the same name."""

    folder: pathlib.Path
    name: str

    @property
    def path(self) -> pathlib.Path:
        return self.folder / TEMPLATES / self.name

    @property
    def file(self) -> str:
        """The path in messages."""
        return shown_path(self.path)

    @property
    def text(self) -> str:
        """Raises InputError if it cannot be read."""
        return read_text(self.path).replace("\r\n", "\n")

    def split(self) -> tuple[Header, str]:
        """The header, and the text below it. Raises InputError for a missing or edited header."""
        return split_header(self.text, self.file, self.name)

    @property
    def original(self) -> pathlib.Path:
        """The text before a merge with conflicts; it exists until they are resolved."""
        return self.path.with_name(f"{self.path.name}.orig")

    def base_path(self, origin: Origin) -> pathlib.Path:
        return self.folder / TEMPLATES / ".base" / f"{self.name}.{origin.sha256[:12]}"

    def base(self, origin: Origin) -> str:
        """The packaged text of that origin. Raises InputError if it is missing or was changed."""
        if origin.sha256 == packaged_origin(self.name).sha256:
            return packaged_text(self.name)
        path = self.base_path(origin)
        line = self.text.split("\n")[1]
        where = Location(self.file, 2, 5, line, len(line) - 4)
        hint = (
            f"restore it from your version control, or from the templates of clusterjobs "
            f"{origin.version}; or make the override anew"
        )
        if not path.is_file():
            raise one_problem(
                f"the packaged text that it was made from is missing: {shown_path(path)}",
                where,
                hint=hint,
            )
        text = read_text(path)
        if hashlib.sha256(text.encode()).hexdigest() != origin.sha256:
            raise one_problem(
                f"{shown_path(path)} is not the packaged text that it was made from: the checksum "
                "differs",
                where,
                hint=hint,
            )
        return text

    def write(self, header: Header, body: str) -> None:
        """Write the override, after its base text: whenever this ends, a merge finds its base."""
        newest = header.merging or header.packaged
        if newest == packaged_origin(self.name):
            write_file(self.base_path(newest), packaged_text(self.name))
        write_file(self.path, f"{header}{body}")

    def is_extension(self, body: str) -> bool:
        """Whether it prints the packaged block inside its own text, instead of replacing it."""
        name = re.escape(f"{PACKAGED}{self.name}")
        return re.search(rf"{{%[-+]?\s*(?:include|extends)\s+([\"']){name}\1", body) is not None


def packaged_text(name: str) -> str:
    """The packaged template."""
    return resources.template_texts()[name]


def packaged_origin(name: str) -> Origin:
    """The origin of the packaged template as it is now."""
    return origin_of(packaged_text(name), __version__)


def overrides_in(site: SiteFolders) -> Iterator[Override]:
    """The templates of the site folders, by folder and name; those that override nothing, too.

    Raises InputError for a folder that cannot be read.
    """
    for folder in site.folders:
        for below in SiteFolders((folder,)).subfolders(TEMPLATES):
            for path in sorted(template_files(below, {os.path.realpath(below)})):
                if path.suffix == ".j2":
                    yield Override(folder, path.relative_to(below).as_posix())


def outdated(site: SiteFolders) -> Iterator[Problem]:
    """A note for each copy of a block that this version of clusterjobs has changed.

    Overrides that `templates update` refuses are left to it, and blocks inside other lines need no
    merge.
    """
    known = resources.template_texts()
    for one in filter(lambda one: one.name in known, overrides_in(site)):
        with contextlib.suppress(InputError):
            header, body = one.split()
            is_new = header.packaged.sha256 == packaged_origin(one.name).sha256
            if not is_new and not one.is_extension(body):
                yield Problem(
                    f"clusterjobs has changed {one.name} since this copy was made",
                    Location(one.file, 2, 1),
                    hint="`clusterjobs templates update` merges the change",
                    info=True,
                )


def template_named(word: str) -> str:
    """The packaged template of that name: `launch`, `functions/end` or `blocks/launch.sh.j2`.

    Raises InputError if there is none.
    """
    known = resources.template_texts()
    for name in (word, f"{word}{_SUFFIX}", f"blocks/{word}{_SUFFIX}", f"{word}.j2"):
        if name in known:
            return name
    names = [block_name(name) for name in known]
    raise one_problem(f"there is no block {word}", hint=did_you_mean(word, names))


def block_name(name: str) -> str:
    """The name of a template as commands take it: `launch` for blocks/launch.sh.j2."""
    return name.removeprefix("blocks/").removesuffix(_SUFFIX).removesuffix(".j2")


def folder_to_write(site: SiteFolders) -> pathlib.Path:
    """The site folder for a new override: the first that is writable. Raises InputError."""
    for folder in site.folders:
        if os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            return folder
    if site.folders:
        listed = ", ".join(map(str, site.folders))
        raise one_problem(
            f"you may write to no site folder: {listed}",
            hint="--site FOLDER names another, such as your working copy of it",
        )
    raise one_problem(
        "there is no site folder", hint="`clusterjobs site init FOLDER` makes one; or --site FOLDER"
    )


def write_file(path: pathlib.Path, text: str) -> None:
    """Write a file atomically, and the folders above it. Raises InputError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise _unwritable(path, error) from None


def remove_file(path: pathlib.Path) -> None:
    """Remove a file, if there is one. Raises InputError if that fails."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: pathlib.Path, error: OSError) -> InputError:
    what = f"cannot write {shown_path(path)}: {error.strerror}"
    return one_problem(what, hint="--site FOLDER names another site folder")
