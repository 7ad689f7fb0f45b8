"""Renders one spec for a comparison: its files, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from clusterjobs.commands.pipeline import load_project
from clusterjobs.commands.show import format_problem
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.errors import InputError, Problem


class Rendered(NamedTuple):
    """The texts of the files by name; without any, the message says why.

    `reason` is the message without positions, and `rule` the name of the policy's rule that
    refuses the spec.
    """

    name: str
    files: Mapping[str, str]
    message: str = ""
    reason: str = ""
    rule: str = ""

    @property
    def failed(self) -> bool:
        return not self.files


def render_for_comparison(spec: str, site: SiteFolders) -> Rendered:
    """Any failure is part of the answer: one spec must not end the others."""
    try:
        project = load_project(Path(spec), site=site)
        return Rendered(project.plan.job.name, project.outputs())
    except InputError as error:
        return _refused(error)
    except Exception as error:  # any: thousands of other specs wait
        what = f"internal error, not a mistake in the spec: {type(error).__name__}"
        return Rendered("", {}, f"{spec}: {what}", what)


def _refused(error: InputError) -> Rendered:
    """The first error speaks for all; a policy's, only if there is no other."""
    errors = [problem for problem in error.problems if not problem.warning]
    first = min(errors or error.problems, key=lambda problem: bool(_rule(problem)))
    message = click.unstyle(format_problem(first))
    if len(errors) > 1:
        message += f"\n(and {len(errors) - 1} more)"
    reason = f"{first.path}: {first.what}" if first.path else first.what
    return Rendered("", {}, message, reason, _rule(first))


def _rule(problem: Problem) -> str:
    """The name of the policy's rule that the problem is about, "" if it is about none."""
    return str(getattr(problem, "rule", ""))
