"""Finds the site folders: an admin's values, defaults, policies, clusters and templates."""

from __future__ import annotations

import functools
import grp
import operator
import os
import pathlib
import pwd
import re
import shlex
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from clusterjobs.clusters.source import ENDINGS
from clusterjobs.errors import InputError, Location, Problem, nearest, one_problem
from clusterjobs.script.site import SiteFile, SiteTemplates
from clusterjobs.version import __version__
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import MAX_BYTES, decode

if TYPE_CHECKING:
    import datetime

    from clusterjobs.clusters.facts import ClusterFacts
    from clusterjobs.sections.plan import Plan
    from clusterjobs.sites.policy import SiteRule
    from clusterjobs.sites.policy_check import User
    from clusterjobs.spec.load import LoadedSpec


VARIABLE = "CLUSTERJOBS_SITE"
SYSTEM_FOLDER = pathlib.Path("/etc/clusterjobs")
SITE_FILE = "site.yaml"
DEFAULTS_FILE = "defaults.yaml"
POLICY_FILE = "policy.yaml"
MEASUREMENTS_FILE = "measurements.jsonl"
CLUSTERS, TEMPLATES, TESTS = "clusters", "templates", "tests"


@dataclass(frozen=True)
class SiteFolders:
    """The site folders in use, the highest precedence first.

    What an admin wrote in them is read once: `impact` renders thousands of specs with it.
    """

    folders: tuple[pathlib.Path, ...] = ()

    def files(self, name: str) -> tuple[pathlib.Path, ...]:
        """The files of that name which exist, the highest precedence first.

        Raises InputError for one that is not a file, that every user may change, or that is below
        a folder that cannot be read.
        """
        found = (folder / name for folder in self.folders if is_file(folder / name))
        return tuple(map(trusted, found))

    def subfolders(self, name: str) -> tuple[pathlib.Path, ...]:
        """The folders of that name which exist, the highest precedence first.

        Raises InputError for one that is a file, that every user may change, or that is below a
        folder that cannot be read.
        """
        found = (folder / name for folder in self.folders if is_folder(folder / name))
        return tuple(map(trusted, found))

    @functools.cached_property
    def value_files(self) -> tuple[pathlib.Path, ...]:
        """The files that may be a site.yaml; without site folders, the user's own.

        Raises InputError.
        """
        own = user_folder()
        folders = self.folders or ((own,) if own else ())
        return tuple(trusted(folder / SITE_FILE) for folder in folders)

    @functools.cached_property
    def defaults(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the files with defaults. Raises InputError."""
        return read_sites(self.files(DEFAULTS_FILE))

    @functools.cached_property
    def clusters(self) -> dict[str, SiteCluster]:
        """The clusters by name. Raises InputError."""
        found: dict[str, SiteCluster] = {}
        for folder in self.subfolders(CLUSTERS):
            for name, file in _clusters_in(folder).items():
                above = found.get(name)
                shadowed = (*above.shadowed, file) if above else ()
                found[name] = SiteCluster(above.file if above else file, shadowed)
        return dict(sorted(found.items()))

    @functools.cached_property
    def cluster_files(self) -> dict[str, pathlib.Path]:
        """The config of each cluster. Raises InputError."""
        return {name: one.file for name, one in self.clusters.items()}

    @functools.cached_property
    def templates(self) -> SiteTemplates:
        """All templates, the highest precedence first. Raises InputError."""
        return SiteTemplates(_site_templates(self.subfolders(TEMPLATES)))

    @functools.cached_property
    def rules(self) -> tuple[SiteRule, ...]:
        """The rules of all policies: no folder can remove another's. Raises InputError."""
        rules: list[SiteRule] = []
        problems: list[Problem] = []
        for file in self.files(POLICY_FILE):
            try:
                rules += _rules(read_text(file), shown_path(file))
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)
        return tuple(rules)


def find_site_folders() -> SiteFolders:
    """`$CLUSTERJOBS_SITE`, the user's own and the system's, as far as they exist.

    Raises InputError if the variable names no folder, a folder cannot be read, or every user may
    write to it. A user who may not enter the home that is set (after `su`, or in a service) has no
    folder of their own.
    """
    named = os.environ.get(VARIABLE)
    if named and not is_folder(pathlib.Path(named)):
        raise one_problem(f"{VARIABLE} names no folder: {named}", hint="correct it, or unset it")
    own = user_folder()
    is_entered = own and os.access(own.parent, os.X_OK, effective_ids=True)
    users = [own] if own and is_entered else []
    folders = [*([pathlib.Path(named)] if named else []), *users, SYSTEM_FOLDER]
    found = dict.fromkeys(filter(is_folder, folders))
    return SiteFolders(tuple(map(trusted, found)))


def user_folder() -> pathlib.Path | None:
    """The user's own site folder, whether it exists or not; None for a user without a home."""
    config_home = os.environ.get("XDG_CONFIG_HOME")
    try:
        home = pathlib.Path(config_home) if config_home else pathlib.Path.home() / ".config"
    except RuntimeError:
        return None
    return home / "clusterjobs"


def is_file(path: pathlib.Path) -> bool:
    """Whether there is a file. Raises InputError if it is no regular file, or this is unknown."""
    mode = _mode(path)
    if mode is None:
        return False
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise one_problem(f"{path} is {kind}", hint=f"{path.name} must be a file")
    return True


def is_folder(path: pathlib.Path) -> bool:
    """Whether there is a folder. Raises InputError if it is a file, or this is unknown."""
    mode = _mode(path)
    if mode is None:
        return False
    if not stat.S_ISDIR(mode):
        raise one_problem(f"{path} is not a folder", hint="remove it, or make it a folder")
    return True


def trusted(path: pathlib.Path) -> pathlib.Path:
    """The path. Raises InputError if others may change it: its lines end up in job scripts.

    Only root and the caller may own it, what is above it, and the links that lead to it, because
    the owner of a folder can exchange what is in it. Others may write to a folder above it if they
    cannot exchange what is in it (sticky bit).
    """
    mode = _mode(path)
    if mode is not None and mode & stat.S_IWOTH:
        what = f"every user can write to {path}, and what is in it runs in the jobs of others"
        hint = f"chmod -R o-w {shlex.quote(str(path))}"
        raise one_problem(what, hint=hint)
    if mode is not None:
        whole = pathlib.Path.cwd() / path
        real = whole.resolve()
        # The owner of / is not 0 where root is another user, as in a namespace.
        owners = {0, os.geteuid(), pathlib.Path("/").stat().st_uid}
        for one in dict.fromkeys((whole, *whole.parents, real, *real.parents)):
            _check_parent(one, path, owners)
    return path


def _check_parent(one: pathlib.Path, path: pathlib.Path, owners: Collection[int]) -> None:
    state = one.lstat()
    if state.st_uid not in owners:
        what = f"{one} belongs to another user (number {state.st_uid}), who could change {path}"
        raise one_problem(what, hint="its owner must be root or you: copy it, or chown it")
    is_open = state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX
    if stat.S_ISDIR(state.st_mode) and is_open:
        what = f"every user can exchange what is in {one}, and so {path}"
        raise one_problem(what, hint=f"chmod o-w {shlex.quote(str(one))}")


def _mode(path: pathlib.Path) -> int | None:
    """The type and permissions, None if there is nothing. A link is followed."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        what = f"{path} is a link to {path.readlink()}, which does not exist"
        raise one_problem(what, hint="correct the link, or remove it") from None
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: pathlib.Path, error: OSError) -> InputError:
    """The problem of a file or folder that cannot be read."""
    what = f"cannot read {path}: {error.strerror}"
    where, hint = Location(str(path), 1, 1), "check the path, and who may read it"
    return one_problem(what, where, hint=hint)


# ------------------------------------------------------------------ files
# Reads the files named on the command line, and the site files.


STDIN = pathlib.Path("-")


def shown_path(path: pathlib.Path) -> str:
    """The path, relative to the working folder if it is below it."""
    try:
        return str(path.relative_to(pathlib.Path.cwd()))
    except ValueError:
        return str(path)


def shown_name(path: pathlib.Path) -> str:
    """The name of a file in messages."""
    return "<stdin>" if path == STDIN else str(path)


def site_files(beside: pathlib.Path, site: SiteFolders | None = None) -> list[pathlib.Path]:
    """The possible site.yaml files, the highest precedence first.

    Beside the file, in the working folder, and in the site folders (`site`, or those found).
    """
    own_files = (folder / SITE_FILE for folder in (beside.parent, pathlib.Path()))
    return list(dict.fromkeys([*own_files, *(site or find_site_folders()).value_files]))


def read_sites(files: Sequence[pathlib.Path]) -> tuple[tuple[str, str], ...]:
    """(name, text) of the files that exist."""
    return tuple((str(file), read_text(file)) for file in files if is_file(file))


def read_text(path: pathlib.Path) -> str:
    """A file's text; `-` is standard input. Raises InputError for a bad path or bad bytes."""
    return decode(read_bytes(path, MAX_BYTES + 1), shown_name(path))


def read_bytes(path: pathlib.Path, most: int) -> bytes:
    """The first bytes of a file, or of standard input. Raises InputError for a bad path."""
    try:
        if path == STDIN:
            return _read_once(sys.stdin.buffer, most)
        if path.is_fifo():
            from clusterjobs.files import open_or_wait  # most specs are files

            with open_or_wait(path) as file:
                return file.read(most)
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        raise one_problem(f"there is no file {path}", hint=_beside(path)) from None
    except IsADirectoryError:
        raise one_problem(f"{path} is a folder", hint="name the file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        where, hint = Location(str(path), 1, 1), "check the path, and who may read it"
        raise one_problem(f"cannot read {path}: {reason}", where, hint=hint) from None


@functools.lru_cache(maxsize=1)
def _read_once(stream: BinaryIO, most: int) -> bytes:
    """The bytes of a stream; kept, since `validate` reads a file twice."""
    return stream.read(most)


def _beside(path: pathlib.Path) -> str:
    folder = path.parent
    names = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    match = nearest(path.name, names, cutoff=0.7)
    return f"did you mean {folder / match}?" if match else f"looked in {folder.resolve()}"


# ------------------------------------------------------------------ values
# A site's values, which `{{ site.private_subnet }}` in a cluster config refers to.


def load_site(texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The values of several site.yaml, given as (file, text), the highest precedence first.

    Raises InputError.
    """
    values: dict[str, Any] = {}
    for file, text in texts:
        values = {**_values(file, text), **values}
    return values


@functools.lru_cache(maxsize=64)  # many specs of one site
def _values(file: str, text: str) -> Mapping[str, Any]:
    document = yaml_document.load(text, file)
    if document.value is None:
        return {}
    if not isinstance(document.value, dict):
        raise one_problem(
            "expected a mapping of names to values",
            document.locate(()),
            hint="write private_subnet: subnet-0123456789abcdef0",
        )
    for name, check in (("requires", wrong_version), ("parallelcluster", _wrong_release)):
        if name in document.value and (wrong := check(document.value[name])):
            raise InputError([Problem(wrong[0], document.locate((name,)), name, wrong[1])])
    return document.value


def _wrong_release(release: object) -> tuple[str, str] | None:
    from clusterjobs.clusters.parallelcluster.config import is_newer, wrong_release

    return None if is_newer(release) else wrong_release(release)


_CONDITION = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d+(?:\.\d+)*)")
_COMPARED = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def wrong_version(requires: object, version: str = __version__) -> tuple[str, str] | None:
    """Why this version of clusterjobs is not one that a site requires, with a hint; else None."""
    for part in str(requires).split(","):
        found = _CONDITION.fullmatch(part.strip())
        if not found:
            what = f"{str(requires)[:60]!r} is no condition for a version"
            return what, 'write requires: ">=0.3", or ">=0.3, <2"'
        if not _COMPARED[found[1]](_numbers(version), _numbers(found[2])):
            what = f"this site folder needs clusterjobs {requires}, and this is {version}"
            return what, "install a version that fits, or ask the admins of the site"
    return None


def _numbers(version: str) -> list[int]:
    """0.3 and 0.3.0 are the same."""
    numbers = [int(one) for one in re.findall(r"\d+", version)][:3]
    return numbers + [0] * (3 - len(numbers))


# ------------------------------------------------------------------ site clusters
# The clusters that site folders add by name: `clusters/NAME.yaml`.


class SiteCluster(NamedTuple):
    """A cluster's config, and the files of the same name in folders of lower precedence."""

    file: pathlib.Path
    shadowed: tuple[pathlib.Path, ...] = ()


def _clusters_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    try:
        named = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
    except OSError as error:
        raise unreadable(folder, error) from None
    files = map(trusted, filter(is_file, named))  # reading a pipe would wait for ever
    found: dict[str, pathlib.Path] = {}
    problems = []
    for file in files:
        if other := found.get(file.stem):
            what = f"two files give the cluster {file.stem}: {other.name} and {file.name}"
            where = Location(str(file), 1, 1)
            problems.append(Problem(what, where, hint="rename one of the two files"))
        found[file.stem] = file
    if problems:
        raise InputError(problems)
    return found


# ------------------------------------------------------------------ site templates
# Reads the templates of the site folders.


_ENDINGS = (".j2", ".sh")


def _site_templates(folders: Iterable[pathlib.Path]) -> tuple[SiteFile, ...]:
    files: list[SiteFile] = []
    problems: list[Problem] = []
    for folder in folders:
        for path in sorted(template_files(folder, {os.path.realpath(folder)})):
            try:
                files.append(_read(folder, path))
            except InputError as error:
                problems += error.problems
    inserted = [one for one in files if one.point and one.point != "directives"]
    if inserted:
        from clusterjobs.script.shell_check import insertion_problems

        problems += insertion_problems(inserted)
    if problems:
        raise InputError(problems)
    return tuple(files)


def _read(folder: pathlib.Path, path: pathlib.Path) -> SiteFile:
    from clusterjobs.script.site.merge import marker_problems  # for a site with templates alone

    is_file(path)  # raises for a folder or a pipe, and names a broken link
    trusted(path)
    text = read_text(path)
    if unresolved := marker_problems(text, str(path)):
        raise InputError(unresolved)
    return SiteFile(path.relative_to(folder).as_posix(), str(path), text)


def template_files(folder: pathlib.Path, seen: set[str]) -> Iterator[pathlib.Path]:
    """What has the name of a template; other files, such as a README, do not matter.

    Links to folders are followed, each folder once.
    """
    try:
        entries = [(path, path.is_dir()) for path in folder.iterdir()]
    except OSError as error:
        raise unreadable(folder, error) from None
    for path, is_folder in entries:
        if path.name.startswith("."):
            continue
        if path.name.endswith(_ENDINGS):
            yield path
        elif is_folder and (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield from template_files(trusted(path), seen)


# ------------------------------------------------------------------ policy files
# Reads the site's policies, and checks a job against them.
# What compares and parses is imported only if there are policies: most renders have none.


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
            rules = self.site.rules
        except InputError as error:
            return error.problems
        rules = rules_in_force(rules, self.user.day if self.user else "")
        if not rules:
            return ()
        from clusterjobs.sites.policy_check import JobValues, check_policies

        job = JobValues(loaded, plan, cluster.name, self._supposed_user, cluster.default_partition)
        return check_policies(rules, job)

    @functools.cached_property
    def _supposed_user(self) -> User:
        from clusterjobs.sites.policy_check import User

        return self.user or (current_user() if _depend_on_user(self.site.rules) else User(""))


def rules_in_force(rules: tuple[SiteRule, ...], day: str = "") -> tuple[SiteRule, ...]:
    """The rules of a day, by `from` and `until` of each and of its exemptions; of today for ""."""
    dated = (part for rule, _ in rules for part in (rule, *rule.exemptions))
    if not any(part.from_ or part.until for part in dated):
        return rules
    from clusterjobs.sites.policy_check import ANY_DAY

    if day == ANY_DAY:
        return rules
    day = day or today().isoformat()
    found = ((one.rule.on(day), one) for one in rules)
    return tuple(one._replace(rule=rule) for rule, one in found if rule)


def today() -> datetime.date:
    """The day by this machine's clock and zone."""
    import datetime

    return datetime.datetime.now().astimezone().date()


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
    selections = (one for rule, _ in rules for one in rule.selections)
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
