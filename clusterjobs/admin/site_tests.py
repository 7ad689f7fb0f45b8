"""The tests of a site folder: specs in tests/NAME/, and the files that they must render."""

import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs import resources
from clusterjobs.admin.templates.overrides import remove_file, write_file
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.runs.load import load_first
from clusterjobs.runs.run import Run
from clusterjobs.runs.write import write_text
from clusterjobs.sections.render import MANIFEST
from clusterjobs.sites.folders import (
    POLICY_FILE,
    TEMPLATES,
    TESTS,
    SiteFolders,
    is_file,
    is_folder,
    read_text,
    shown_path,
    unreadable,
)
from clusterjobs.sites.policy import Example, SiteRule, load_example, with_rules
from clusterjobs.sites.policy_check import ANY_DAY, User
from clusterjobs.version import __version__

# ------------------------------------------------------------------ policy tests
# The rules that each spec breaks are compared with the `rules.yaml` beside it.


SPEC, RULES = "spec.yaml", "rules.yaml"


@dataclass
class Result:
    """An example: the rules that it must break and those that it breaks.

    `problems` are those that have nothing to do with rules: the example cannot be planned, or its
    rules.yaml cannot be read; then `example` is None.
    """

    folder: pathlib.Path
    example: Example | None
    found: tuple[str, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_ok(self) -> bool:
        return not self.problems and {*self.found} == {*self.expected}

    @property
    def expected(self) -> list[str]:
        return sorted({*self.example.rules}) if self.example else []

    def cells(self) -> tuple[str, ...]:
        """The result for a table: the example, as whom, what it must break, what it breaks."""
        if self.example is None:
            return self.name, "", "?", f"{RULES} is wrong"
        broken = "cannot be planned" if self.problems else ", ".join(self.found) or "nothing"
        supposed = ", ".join(filter(None, (self.example.user, *self.example.groups)))
        return self.name, supposed, ", ".join(self.expected) or "nothing", broken

    def as_data(self) -> dict[str, Any]:
        """The result for a script."""
        return {
            "name": self.name,
            "spec": str(self.folder / SPEC),
            "user": self.example.user if self.example else "",
            "groups": [*self.example.groups] if self.example else [],
            "expected": self.expected,
            "found": list(self.found),
            "ok": self.is_ok,
            "problems": [one.what for one in self.problems],
        }


def run_examples(site_folder: pathlib.Path) -> tuple[tuple[SiteRule, ...], list[Result]]:
    """The rules of one site folder, and its examples. Raises InputError if it has none of both."""
    site = SiteFolders((site_folder,))
    rules = site.rules
    if not site.files(POLICY_FILE):
        what = f"there is no {shown_path(site_folder / POLICY_FILE)}"
        raise one_problem(what, hint="write one; docs/policies.md has an example")
    names = {one.rule.name for one in rules}
    return rules, [_run(folder, site, names) for folder in _examples(site)]


def _examples(site: SiteFolders) -> list[pathlib.Path]:
    tests = site.folders[0] / TESTS
    try:
        inside = sorted(tests.iterdir()) if site.subfolders(TESTS) else []
    except OSError as error:
        raise one_problem(f"cannot read {tests}: {error.strerror}") from None
    found = [one for one in inside if one.is_dir() and not one.name.startswith(".")]
    if not found:
        what = f"there are no examples in {shown_path(tests)}"
        raise one_problem(what, hint=f"add a spec there: NAME/{SPEC}")
    return found


def _run(folder: pathlib.Path, site: SiteFolders, names: set[str]) -> Result:
    example = None
    try:
        example = _example(folder, names)
        run = load_first(folder / SPEC, to_write=False, site=site, user=_user(example))
        problems = run.plan.warnings
    except InputError as error:
        problems = error.problems
    found = {one.rule.name: None for one in problems if one.rule}
    others = [one for one in problems if not one.rule and not one.warning]
    return Result(folder, example, tuple(sorted(found)), tuple(others))


def example_user(folder: pathlib.Path) -> User:
    """The user of an example: the one in its rules.yaml. Raises InputError if that is wrong."""
    names = {one.rule.name for one in SiteFolders((folder.parents[1],)).rules}
    return _user(_example(folder, names))


def _example(folder: pathlib.Path, names: set[str]) -> Example:
    rules = folder / RULES
    if not is_file(rules):
        return Example()
    return load_example(read_text(rules), shown_path(rules), names)


def _user(example: Example) -> User:
    return User(example.user, frozenset(example.groups), example.date or ANY_DAY)


def update(results: Sequence[Result]) -> list[pathlib.Path]:
    """Write what each example breaks into its rules.yaml; returns the files that changed."""
    changed = []
    for one in results:
        if one.example is None or one.problems or one.is_ok:
            continue
        file = one.folder / RULES
        text = read_text(file) if is_file(file) else ""
        write_text(file, with_rules(text, one.example, one.found))
        changed.append(file)
    return changed


def untested(rules: Sequence[SiteRule], results: Sequence[Result]) -> list[SiteRule]:
    """The rules that no example breaks."""
    broken = {name for result in results for name in result.found}
    return [one for one in rules if one.rule.name not in broken]


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

    def load(self) -> Run:
        """Raises InputError for a broken spec or a broken file of the site, and for broken rules.

        The rules are those for the user of rules.yaml, or for nobody in particular.
        """
        return load_first(self.folder / SPEC, site=self.site, user=example_user(self.folder))

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
