"""Runs an sbatch script in a bash that has no files, no network and no programs but stand-ins.

Each program that the script calls is replaced by a stand-in that records its arguments, its
environment and its line. Values that only a running job has (`SLURM_JOB_ID`, a variable that the
script never sets) are marks, which `with_references` turns into references of a spec.

The bash is the package bashkit, an interpreter with a virtual file system. What cannot be found
(a program, a folder, a variable) is added, and the script runs again.
"""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import one_problem
from clusterjobs.extras import how_to_install


def names_in(text: str) -> frozenset[str]:
    """The names of a text, which are separated by spaces."""
    return frozenset(text.split())


_RUNS = 40  # each adds what the one before did not find
_SECONDS = 5.0
_LINE = "CLUSTERJOBS_LINE"
_SUBMITTED_FROM = "/@@SLURM_SUBMIT_DIR@@"
FIRST_NODE = "@@MASTER_ADDR@@"
_MARK = re.compile(r"/?@@(\w+)@@")
_COMPUTED = re.compile(r"@@computed/(\d+)/([^@]*)@@")
# Numbers, since scripts calculate with them; no script has these by chance.
_NUMBERS = {
    "SLURM_JOB_ID": ("720394101", "{{ job.id }}"),
    "SLURM_JOBID": ("720394101", "{{ job.id }}"),
    "SLURM_ARRAY_JOB_ID": ("720394101", "{{ job.id }}"),
    "SLURM_ARRAY_TASK_ID": ("720394102", "{{ job.array_index }}"),
    "SLURM_NODEID": ("720394103", "{{ job.node_rank }}"),
    "SLURM_PROCID": ("720394104", ""),
    "SLURM_LOCALID": ("720394105", ""),
}
# What the interpreter itself does: builtins of bash, and programs that only read and print text.
_OF_BASH = names_in(
    "[ [[ : . alias awk basename bash break builtin cat cd command continue cut date "
    "declare dirname echo egrep eval exec exit export expr false fgrep find getopts grep "
    "head id jobs kill let local ls mapfile popd printf pushd pwd read readarray readonly "
    "return rev sed seq set sh shift shopt sleep sort source tac tail test tr trap "
    "true type typeset ulimit umask unalias uniq unset wait wc whoami xargs"
)
_KNOWN = ("HOME", "USER", "SCRATCH", "WORK", "TMPDIR", "LOGNAME")
# Of bashkit itself; a script that changes them changes nothing here.
_OF_THE_SHELL = frozenset(("PWD", "OLDPWD", "SHLVL", "_", _LINE, "HOSTNAME", "PATH", "SHELL"))


class Call(NamedTuple):
    """A program that the script called. `line`: 0 if it is not known.

    `environment`: the exported variables, without those that every job has.
    """

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    line: int
    stdin: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return (self.program, *self.arguments)


class Recorded(NamedTuple):
    """What the script did. `sourced`: files that it read into itself. `notes`: what was assumed."""

    calls: tuple[Call, ...]
    sourced: tuple[str, ...]
    functions: tuple[str, ...]
    in_substitutions: frozenset[str]
    notes: tuple[str, ...]


def with_variables(text: str) -> str:
    """Marks in a text as variables of the node, `${HOME}`, where no reference may be."""
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_NODEID"):
        text = text.replace(_NUMBERS[name][0], f"${{{name}}}")
    return _MARK.sub(lambda mark: f"${{{mark[1]}}}", text)


def with_references(text: str) -> str:
    """Marks in a text as references: `{{ env.HOME }}`, `{{ job.id }}`."""
    for number, reference in _NUMBERS.values():
        text = text.replace(number, reference) if reference else text
    return _MARK.sub(lambda mark: f"{{{{ env.{mark[1]} }}}}", text)


def shown_mark(text: str) -> str:
    """Marks in a text as `show` has the references that take their places: `$HOME`."""
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_NODEID"):
        text = text.replace(_NUMBERS[name][0], f"${name}")
    return _MARK.sub(lambda mark: f"${mark[1]}", text)


def computed_in(text: str) -> list[tuple[int, str]]:
    """(line, program) of values in a text that a program computes when the job runs."""
    return [(int(line), program) for line, program in _COMPUTED.findall(text)]


class Recording:
    """Runs of one script on `nodes` nodes with `gpus` GPUs each.

    `files`: other scripts beside it, by name. What one run did not find is there in the next.
    """

    def __init__(
        self, text: str, files: Mapping[str, str], nodes: int, gpus: int, folder: str = "."
    ) -> None:
        self._text = text
        self._start = posixpath.join(_SUBMITTED_FROM, folder)
        self._nodes, self._gpus = nodes, gpus
        self._programs: set[str] = set()
        self._folders: set[str] = {_SUBMITTED_FROM, self._start}
        self._files = {f"{_SUBMITTED_FROM}/{name}": found for name, found in files.items()}
        self._environment = {**_of_slurm(nodes, gpus), **_unset_names(text)}
        self._calls: list[Call] = []
        self._sourced: list[str] = []
        self._notes: list[str] = []
        self._forgives = False

    def all(self) -> Recorded:
        """What the script calls. Raises InputError if bash cannot read it."""
        try:
            analysis = _bash()().analyze(self._text)
        except _bashkit().BashError as broken:
            raise one_problem(f"bash cannot read the script: {broken}") from None
        called = {name for name in analysis.command_names if name}
        self._programs |= called - {*analysis.functions} - _OF_BASH
        for _ in range(_RUNS):
            error = self._once()
            if not self._add_missing(error):
                break
        inside = {one.name for one in analysis.commands if one.context == "substitution"}
        outside = {one.name for one in analysis.commands if one.context != "substitution"}
        return Recorded(
            tuple(self._calls),
            tuple(dict.fromkeys(self._sourced)),
            tuple(analysis.functions),
            frozenset(name for name in inside - outside if name),
            tuple(dict.fromkeys(self._notes)),
        )

    def again_without_exits(self) -> Recorded:
        """The same if the script ended before its launch: `exit` and `set -e` do nothing."""
        self._notes.append("the script ended before its launch: `exit` and `set -e` were ignored")
        self._text = re.sub(r"(?m)^(\s*)set -[a-z]*[eu].*$", r"\1:", self._text)
        self._text = re.sub(r"\bexit( +[^\s;)}&|]+)?", ":", self._text)
        return self.all()

    def _once(self) -> str:
        """Run it. Returns what it wrote to standard error."""
        self._calls, self._sourced = [], []
        bash = _bash()(
            cwd="/",
            env=self._environment,
            custom_builtins={
                **{name: self._stand_in for name in self._programs if "/" not in name},
                "tee": lambda context: context.stdin or "",
                "clusterjobs_program": self._by_path,
                "clusterjobs_sourced": self._source,
            },
            timeout_seconds=_SECONDS,
        )
        for folder in sorted(self._folders):
            bash.mkdir(folder, recursive=True)
        for path, content in self._files.items():
            bash.mkdir(posixpath.dirname(path), recursive=True)
            bash.write_file(path, content)
            bash.chmod(path, 0o755)
        trap = f"cd {shlex.quote(self._start)}; trap 'export {_LINE}=$LINENO' DEBUG\n"
        done = bash.execute_sync(trap + self._text)
        if done.error:
            self._notes.append(f"the script was not run to its end: {done.error}")
        return str(done.stderr)

    # ------------------------------------------------------------------ stand-ins

    def _stand_in(self, context: Any) -> Any:
        return self._called(context, context.name, list(context.argv))

    def _place(self, variable: tuple[str, str]) -> tuple[int, str]:
        """Variables in the order in which the script sets them: bashkit has none."""
        return self._text.find(f"{variable[0]}="), variable[0]

    def _by_path(self, context: Any) -> Any:
        return self._called(context, context.argv[0], list(context.argv[1:]))

    def _source(self, context: Any) -> str:
        self._sourced.append(context.argv[0])
        return ""

    def _called(self, context: Any, program: str, arguments: list[str]) -> Any:
        # The first line is ours.
        line = max(0, int(context.env.get(_LINE, "1") or 1) - 1)
        own = {
            name: value
            for name, value in sorted(context.env.items(), key=self._place)
            if name not in _OF_THE_SHELL and self._environment.get(name) != value
        }
        folder = posixpath.relpath(context.cwd, _SUBMITTED_FROM)
        folder = context.cwd if folder.startswith("..") else folder
        stdin = context.stdin or ""
        self._calls.append(Call(program, tuple(arguments), own, folder, line, stdin))
        return _bashkit().BuiltinResult(self._printed(program, arguments, line), exit_code=0)

    def _printed(self, program: str, arguments: Sequence[str], line: int) -> str:
        """What a program prints, for scripts that read it."""
        name = posixpath.basename(program)
        names = [FIRST_NODE, *(f"@@node_{one}@@" for one in range(2, self._nodes + 1))]
        if name == "scontrol" and "hostname" in " ".join(arguments):
            return "".join(f"{one}\n" for one in names)
        if name in ("hostname", "ip", "dig", "getent", "nslookup", "host"):
            return f"{FIRST_NODE}\n"
        if name == "srun" and _asks_for_address(arguments):
            return f"{FIRST_NODE}\n"
        if name == "nvidia-smi":
            return "".join(f"GPU {one}\n" for one in range(self._gpus))
        if name in ("which", "realpath", "readlink"):
            return f"{arguments[-1] if arguments else ''}\n"
        if name in ("module", "ml", "conda", "mamba", "micromamba", "sbatch", "wandb"):
            return ""
        return f"@@computed/{line}/{name}@@\n"

    # ------------------------------------------------------------------ what was missing

    def _add_missing(self, error: str) -> bool:
        """Add what the last run did not find; whether there was something new."""
        return True in [self._add(line) for line in error.splitlines()]

    def _add(self, line: str) -> bool:
        if found := re.search(r"(?:line \d+: )?(\S+): command not found", line):
            return _added(self._programs, found[1])
        if found := re.search(r"line \d+: (\w+): unbound variable", line):
            new = found[1] not in self._environment
            self._environment[found[1]] = f"@@{found[1]}@@"
            return new
        if found := re.search(r"(?:cd|pushd): (.+): No such file", line):
            return _added(self._folders, _absolute(found[1]))
        if found := re.search(r"line \d+: (.+): No such file or directory", line):
            path = _absolute(found[1])
            if _added(self._folders, posixpath.dirname(path)):
                return True
            new = path not in self._files
            self._files[path] = _FILE.format(quoted=shlex.quote(found[1]))
            return new
        return False


# A file that the script runs or reads, which is not here.
_FILE = """\
if [[ "$0" == bash ]]; then clusterjobs_sourced {quoted}; else clusterjobs_program {quoted} "$@"; fi
"""


def _added(found: set[str], one: str) -> bool:
    new = one not in found
    found.add(one)
    return new


def _absolute(path: str) -> str:
    return path if path.startswith("/") else posixpath.normpath(f"{_SUBMITTED_FROM}/{path}")


def _asks_for_address(arguments: Sequence[str]) -> bool:
    return any(one in ("hostname", "ip") or one.startswith("hostname ") for one in arguments)


def _of_slurm(nodes: int, gpus: int) -> dict[str, str]:
    """The variables that Slurm sets, and those that every user has."""
    counts = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_GPUS_ON_NODE": gpus}
    lists = dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), "@@SLURM_JOB_NODELIST@@")
    return {
        **{name: str(count) for name, count in counts.items()},
        **{name: number for name, (number, _) in _NUMBERS.items()},
        **lists,
        **{name: f"/@@{name}@@" for name in _KNOWN},
        "USER": "@@USER@@",
        "LOGNAME": "@@USER@@",
        "SLURM_SUBMIT_DIR": _SUBMITTED_FROM,
        "SLURM_JOB_NAME": "@@SLURM_JOB_NAME@@",
        "SLURM_CPUS_PER_TASK": "@@SLURM_CPUS_PER_TASK@@",
    }


_USED = re.compile(r"\$(?:\{(\w+)([^}]?)|([A-Za-z_]\w*))")
_SET = re.compile(
    r"(?m)(?:^|[\s;(&|])(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*|readonly\s+)?([A-Za-z_]\w*)\+?="
    r"|\bfor\s+(\w+)|\bread\s+(?:-\w+\s+)*(\w+)|\b(?:mapfile|readarray)\s+(?:-\w+\s+)*(\w+)"
)


def optional_names(text: str) -> list[tuple[str, int]]:
    """The variables that the script takes from sbatch's environment if they are there, else a
    default; each with the line of its first use."""
    code = re.sub(r"(?m)^\s*#.*$", "", text)
    others = {*_of_slurm(1, 0), *_BUILT_IN, *_unset_names(text)}
    others |= {
        name
        for names in _SET.findall(re.sub(r"\b(\w+)=[\"']?\$\{\1:?-", "", code))
        for name in names
    }
    found = {
        one[1]: code.count("\n", 0, one.start()) + 1
        for one in reversed([*_USED.finditer(code)])
        if one[1] and one[2] in ":-=" and one[2] and not one[1].isdigit() and one[1] not in others
    }
    slurm = ("SLURM_", "BASH")
    return sorted(
        (one for one in found.items() if not one[0].startswith(slurm)), key=lambda one: one[1]
    )


def _unset_names(text: str) -> dict[str, str]:
    """A mark for each variable that the script uses without a default and never sets."""
    code = re.sub(r"(?m)^\s*#.*$", "", text)
    known = {name for names in _SET.findall(code) for name in names if name}
    known |= {*re.findall(r"\$\{(\w+):?=", code)}  # sets it, too
    used = {
        braced or plain
        for braced, sign, plain in _USED.findall(code)
        if not sign or sign not in ":-+="
    }
    folders = set(re.findall(r"\$\{?(\w+)\}?/", code))
    return {
        name: f"/@@{name}@@" if name in folders else f"@@{name}@@"
        for name in sorted(used - known)
        if not name.startswith(("SLURM_", "BASH")) and not name.isdigit() and name not in _BUILT_IN
        if name not in _KNOWN
    }


_BUILT_IN = frozenset(
    ("RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "HOSTNAME", "PATH", "PWD", "IFS")
)


@functools.cache
def _bashkit() -> Any:
    try:
        import bashkit
    except ImportError:
        raise one_problem(
            "the package bashkit, which runs the script without touching anything, is missing",
            hint=how_to_install("import"),
        ) from None
    return bashkit


def _bash() -> Callable[..., Any]:
    found: Callable[..., Any] = _bashkit().Bash
    return found
