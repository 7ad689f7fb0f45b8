"""The tests of a site folder: specs in tests/NAME/, and the files that they are expected to render.

Knows the folders and what is left out of the expected files; it must not know how a test is run.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs import __version__, resources
from clusterjobs.commands.files import read_text, shown_path
from clusterjobs.commands.pipeline import Project, load_project
from clusterjobs.commands.policy_tests import SPEC, example_user
from clusterjobs.commands.site_folders import (
    TEMPLATES,
    TESTS,
    SiteFolders,
    is_folder,
    unreadable,
)
from clusterjobs.commands.templates.overrides import remove_file, write_file
from clusterjobs.errors import one_problem
from clusterjobs.render.outputs import MANIFEST

_EXPECTED = "expected"


class SiteTest(NamedTuple):
    """A folder in tests/ of the site folder `of`.

    It is rendered with that site folder alone: a result that depends on the other folders of who
    runs it could not be kept in the site's version control.
    """

    folder: pathlib.Path
    of: pathlib.Path

    @property
    def name(self) -> str:
        return shown_path(self.folder)

    @property
    def site(self) -> SiteFolders:
        return SiteFolders((self.of,))

    @property
    def expected(self) -> pathlib.Path:
        return self.folder / _EXPECTED

    def load(self) -> Project:
        """Raises InputError for a broken spec or a broken file of the site, and for broken rules.

        The rules are those for the user of rules.yaml, or for nobody in particular.
        """
        return load_project(self.folder / SPEC, site=self.site, user=example_user(self.folder))

    def rendered(self) -> dict[str, str]:
        """The files of a render as they are expected: without what every upgrade changes."""
        outputs = self.load().outputs()
        del outputs[MANIFEST]  # versions and checksums
        return {name: self._comparable(text) for name, text in outputs.items()}

    def wanted(self) -> dict[str, str]:
        """The expected files by name; none if the test is new."""
        return {path.name: read_text(path) for path in _inside(self.expected)}

    def accept(self, files: Mapping[str, str]) -> None:
        """Make these the expected files. Raises InputError if they cannot be written."""
        for name, text in files.items():
            write_file(self.expected / name, text)
        for name in self.wanted():
            if name not in files:
                remove_file(self.expected / name)

    def _comparable(self, text: str) -> str:
        text = _PROGRAM.sub(_without_text, text)
        text = text.replace(f"{self.of}/{TEMPLATES}/", f"{TEMPLATES}/")
        for version in (f"clusterjobs {__version__}.", f'"clusterjobs": "{__version__}"'):
            text = text.replace(version, version.replace(__version__, "VERSION"))
        return text


_PROGRAM = re.compile(r"(?ms)^: <<'end of ([a-z0-9_]+\.(?:py|sh))'\n(.*?)\nend of \1$")


def _without_text(found: re.Match[str]) -> str:
    name, text = found.groups()
    if name not in resources.node_programs() or text != resources.node_program(name).rstrip("\n"):
        return found[0]  # not ours: a change matters
    return f": <<'end of {name}'\n(the text of {name})\nend of {name}"


def _inside(folder: pathlib.Path) -> list[pathlib.Path]:
    """What is in a folder, sorted; nothing if there is none. Raises InputError."""
    try:
        return sorted(folder.iterdir()) if is_folder(folder) else []
    except OSError as error:
        raise unreadable(folder, error) from None


def site_tests(site: SiteFolders) -> list[SiteTest]:
    """The folders in tests/ of the site folders.

    Raises InputError if there is none at all, or one cannot be read.
    """
    found = [
        SiteTest(path, folder)
        for folder in site.folders
        for tests in SiteFolders((folder,)).subfolders(TESTS)
        for path in _inside(tests)
        if path.is_dir() and not path.name.startswith(".")
    ]
    if not found:
        listed = ", ".join(shown_path(folder / TESTS) for folder in site.folders)
        raise one_problem(
            f"there are no tests in {listed}" if listed else "there is no site folder",
            hint=f"write a spec that uses what your site changes: {TESTS}/NAME/{SPEC}",
        )
    return found
