"""Reads the site's policies, and checks a job against them.

What compares and parses is imported only if there are policies: most renders have none.
"""

from __future__ import annotations

import functools
import grp
import os
import pwd
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterjobs.errors import InputError, Problem
from clusterjobs.sites.folders import POLICY_FILE, SiteFolders, read_text, shown_path

if TYPE_CHECKING:
    from clusterjobs.clusters.facts import ClusterFacts
    from clusterjobs.sections.plan import Plan
    from clusterjobs.sites.policy import SiteRule
    from clusterjobs.sites.policy_check import User
    from clusterjobs.spec.load import LoadedSpec


@dataclass(frozen=True)
class Policies:
    """The policies of the site folders, for one user; None is the caller."""

    site: SiteFolders
    user: User | None = None

    def check(
        self, loaded: LoadedSpec, plan: Plan | None, cluster: ClusterFacts
    ) -> tuple[Problem, ...]:
        """The rules that the job breaks, and the problems of the policies themselves.

        `plan` is None if the job could not be planned.
        """
        try:
            rules = self._rules
        except InputError as error:
            return error.problems
        if not rules:
            return ()
        from clusterjobs.sites.policy_check import JobValues, check_policies

        job = JobValues(loaded, plan, cluster.name, self._supposed_user, cluster.default_partition)
        return check_policies(rules, job)

    @functools.cached_property  # a sweep has many points
    def _rules(self) -> tuple[SiteRule, ...]:
        return site_rules(self.site)

    @functools.cached_property
    def _supposed_user(self) -> User:
        from clusterjobs.sites.policy_check import User

        return self.user or (current_user() if _depend_on_user(self._rules) else User(""))


def site_rules(site: SiteFolders) -> tuple[SiteRule, ...]:
    """The rules of all site folders: no folder can remove another's. Raises InputError."""
    rules: list[SiteRule] = []
    problems: list[Problem] = []
    for file in site.files(POLICY_FILE):
        try:
            rules += _rules(read_text(file), shown_path(file))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return tuple(rules)


@functools.lru_cache(maxsize=8)  # a command may load many specs
def _rules(text: str, file: str) -> tuple[SiteRule, ...]:
    from clusterjobs.frameworks import option_models
    from clusterjobs.sites.policy import load_policy

    return load_policy(text, file, option_models())


def is_refusal(error: InputError) -> bool:
    """Whether rules alone refuse the job: nothing else is wrong with it."""
    return all(problem.rule for problem in error.problems if not problem.warning)


def _depend_on_user(rules: Iterable[SiteRule]) -> bool:
    """Whether a rule asks for the user: to look up groups can take seconds in a network."""
    selections = [one for rule, _ in rules for one in (rule.when, rule.unless) if one]
    return any(one.groups or one.users for one in selections)


def current_user() -> User:
    """The caller, with all groups that the system knows; numbers where it has no name."""
    from clusterjobs.sites.policy_check import User

    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        groups = (os.getegid(), *os.getgroups())
        return User(str(number), frozenset(map(_group_name, groups)))
    return User(name, _groups_of(name))


def supposed_user(name: str | None, groups: Sequence[str]) -> User | None:
    """The user that the command line names; None if it names nobody.

    Without groups they are those that the system knows of the user, who may exist elsewhere only.
    """
    from clusterjobs.sites.policy_check import User

    if name is None and not groups:
        return None
    name = name or current_user().name
    return User(name, frozenset(groups) or _groups_of(name))


def _groups_of(name: str) -> frozenset[str]:
    try:
        numbers = os.getgrouplist(name, pwd.getpwnam(name).pw_gid)
    except (KeyError, ValueError):
        return frozenset()
    return frozenset(map(_group_name, numbers))


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
