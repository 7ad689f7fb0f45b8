"""Runs a site's policy over the example specs in its tests/, and compares the rules they break.

It knows the layout `tests/NAME/spec.yaml` with `rules.yaml` beside it; it must not print.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterjobs.commands.files import read_text, shown_path
from clusterjobs.commands.pipeline import load_project
from clusterjobs.commands.policies import site_rules
from clusterjobs.commands.site_folders import POLICY_FILE, TESTS, SiteFolders, is_file
from clusterjobs.commands.write import replace_file
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.plan.policy_values import User
from clusterjobs.spec.policy import SiteRule
from clusterjobs.spec.policy_example import Example, load_example, with_rules

SPEC, RULES = "spec.yaml", "rules.yaml"


@dataclass
class Result:
    """An example: the rules that it must break and those that it breaks.

    `problems` are those that have nothing to do with rules: the example cannot be planned.
    """

    folder: pathlib.Path
    example: Example
    found: tuple[str, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_ok(self) -> bool:
        return not self.problems and set(self.found) == set(self.example.rules)

    @property
    def supposed(self) -> str:
        """The user and the groups that are supposed: `ann, students`."""
        return ", ".join(filter(None, (self.example.user, *self.example.groups)))

    def as_data(self) -> dict[str, Any]:
        """The result for a script."""
        return {
            "name": self.name,
            "spec": str(self.folder / SPEC),
            "user": self.example.user,
            "groups": list(self.example.groups),
            "expected": sorted(set(self.example.rules)),
            "found": list(self.found),
            "ok": self.is_ok,
            "problems": [one.what for one in self.problems],
        }


def run_examples(site_folder: pathlib.Path) -> tuple[tuple[SiteRule, ...], list[Result]]:
    """The rules of one site folder, and its examples. Raises InputError if it has none of both."""
    site = SiteFolders((site_folder,))
    rules = site_rules(site)
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
    example = Example()
    try:
        rules = folder / RULES
        if is_file(rules):
            example = load_example(read_text(rules), shown_path(rules), names)
        user = User(example.user, frozenset(example.groups))
        project = load_project(folder / SPEC, to_write=False, site=site, user=user)
        problems = project.plan.warnings
    except InputError as error:
        problems = error.problems
    found = {one.rule.name: None for one in problems if one.rule}
    others = [one for one in problems if not one.rule and not one.warning]
    return Result(folder, example, tuple(sorted(found)), tuple(others))


def example_user(folder: pathlib.Path) -> User:
    """The user of an example: the one in its rules.yaml. Raises InputError if that is wrong."""
    rules, example = folder / RULES, Example()
    if is_file(rules):
        names = {one.rule.name for one in site_rules(SiteFolders((folder.parents[1],)))}
        example = load_example(read_text(rules), shown_path(rules), names)
    return User(example.user, frozenset(example.groups))


def update(results: Sequence[Result]) -> list[pathlib.Path]:
    """Write what each example breaks into its rules.yaml; returns the files that changed."""
    changed = []
    for one in results:
        if one.problems or one.is_ok:
            continue
        file = one.folder / RULES
        text = read_text(file) if is_file(file) else ""
        replace_file(file, with_rules(text, one.example, one.found))
        changed.append(file)
    return changed


def untested(rules: Sequence[SiteRule], results: Sequence[Result]) -> list[SiteRule]:
    """The rules that no example breaks."""
    broken = {name for result in results for name in result.found}
    return [one for one in rules if one.rule.name not in broken]
