"""Renders one spec for a comparison: its files, or why there are none."""

from __future__ import annotations

import functools
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from clusterjobs.commands.pipeline import load
from clusterjobs.commands.policies import supposed_user
from clusterjobs.commands.show import format_problem
from clusterjobs.commands.site_folders import POLICY_FILE, SiteFolders
from clusterjobs.errors import InputError, Problem
from clusterjobs.plan.policy_values import User


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


def render_for_comparison(spec: str, site: SiteFolders, owned_as: str = "") -> Rendered:
    """Any failure is part of the answer: one spec must not end the others.

    For the policies, the job is one of the owner of the file `owned_as`, by default the spec.
    """
    try:
        user = _owner(owned_as or spec) if site.files(POLICY_FILE) else None
        project = load(Path(spec), site=site, user=user)
        return Rendered(project.plan.job.name, project.outputs())
    except InputError as error:
        return _refused(error)
    except Exception as error:  # any: thousands of other specs wait
        what = f"internal error, not a mistake in the spec: {type(error).__name__}"
        return Rendered("", {}, f"{spec}: {what}", what)


def _owner(file: str) -> User | None:
    """The file's owner; None, which is the caller, if there is no such file."""
    try:
        return _user(Path(file).stat().st_uid)
    except OSError:
        return None


@functools.lru_cache(maxsize=1024)  # its groups may be looked up in a network
def _user(number: int) -> User | None:
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = str(number)
    return supposed_user(name, ())


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
    """The policy's rule that the problem is about, and where it is; "" if it is about none."""
    rule = problem.rule
    return f"{rule.name}, {rule.file}:{rule.line}" if rule else ""
