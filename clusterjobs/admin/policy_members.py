"""Who may submit: the users of Slurm's database, with their accounts and Unix groups."""

import grp
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from typing import NamedTuple

from clusterjobs.errors import InputError, Location, Problem, one_problem

# A name that may stand in a line of slurm.conf or in a shell script without quotes.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)

HINT = (
    "one line for each user and account, USER|ACCOUNT|GROUP,GROUP; without the last field, the "
    "groups are those of this system"
)
_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show", "associations", "format=user,account")


class Member(NamedTuple):
    """A user with one of the user's accounts, and all groups."""

    user: str
    account: str
    groups: frozenset[str]


def read_members(text: str, file: str) -> tuple[Member, ...]:
    """Read lines `USER|ACCOUNT|GROUP,GROUP`. Raises InputError with all wrong lines."""
    found: dict[Member, None] = {}
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        user, *rest = (field.strip() for field in line.split("|"))
        # sacctmgr shows accounts without a user, too. Slurm's own root keeps what it has.
        if not user or user.startswith("#") or user == "root":
            continue
        try:
            found[_member(user, rest)] = None
        except ValueError as error:
            where = Location(file, number, 1, line)
            problems.append(Problem(str(error), where, hint=HINT))
    if problems:
        raise InputError(tuple(problems))
    return tuple(found)


def members_of_slurm() -> tuple[Member, ...]:
    """The members in Slurm's database; none if this machine has no sacctmgr.

    Raises InputError.
    """
    if shutil.which(_SHOW[0]) is None:
        return ()
    try:
        done = subprocess.run(_SHOW, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        hint = f"write the users into a file, and name it with --users: {HINT}"
        raise one_problem(f"sacctmgr cannot list the users: {said}", hint=hint) from None
    return read_members(done.stdout, "sacctmgr")


def _member(user: str, rest: list[str]) -> Member:
    if not rest or not rest[0]:
        raise ValueError(f"{user} has no account")
    if len(rest) > 2:
        raise ValueError("more than three fields")
    groups = rest[1].split(",") if len(rest) == 2 else _groups_of(user)
    groups = [one for one in groups if one]
    for name in (user, rest[0], *groups):
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be written as a name in Slurm's files")
    return Member(user, rest[0], frozenset(groups))


def _groups_of(user: str) -> Iterable[str]:
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
        return [grp.getgrgid(number).gr_name for number in numbers]
    except KeyError:
        raise ValueError(
            f"this system has no user {user}, or no name of one of its groups"
        ) from None
