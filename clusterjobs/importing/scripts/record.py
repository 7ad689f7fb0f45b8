"""Runs an sbatch script in a bash that has no files, no network and no programs but stand-ins.

Each program that the script calls is replaced by a stand-in that records its arguments, its
environment and its line. Values that only a running job has (`SLURM_JOB_ID`, a variable that the
script never sets, what a program prints) are marks.

The bash is the package bashkit, an interpreter with a virtual file system. What cannot be found
(a program, a folder, a variable) is added, and the script runs again.
"""

import functools
import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from clusterjobs.errors import one_problem
from clusterjobs.extras import how_to_install
from clusterjobs.importing.scripts.directives import read_array, size_of
from clusterjobs.importing.scripts.marks import Mark, Marks
from clusterjobs.spec.reserved_names import COMPUTED


def names_in(text: str) -> frozenset[str]:
    """The names of a text, which are separated by spaces."""
    return frozenset(text.split())


_RUNS = 40  # each adds what the one before did not find
_SECONDS = 30.0  # bashkit ends endless loops by a count of commands; a busy machine is slow
_LINE = "CLUSTERJOBS_LINE"
FIRST_NODE = Mark("MASTER_ADDR")
_SUBMITTED_FROM = Mark("SLURM_SUBMIT_DIR")
_USER = Mark("USER")
OF_THE_SCRIPT = "an argument of the script"
_PER_RANK = "it differs in each rank"
# What the interpreter itself does: builtins of bash, and programs that only read and print text.
_OF_BASH = names_in(
    "[ [[ : . alias basename bash break builtin cd command continue "
    "declare dirname echo eval exec exit export false getopts "
    "jobs kill let local mapfile popd printf pushd pwd read readarray readonly "
    "return set sh shift shopt sleep source test trap "
    "true type typeset ulimit umask unalias unset wait xargs"
)
# They read and print text: what they print is known if they read only what the script gives them.
_FILTERS = names_in("awk cat cut egrep fgrep grep head rev sed sort tac tail tr uniq wc")
_CALCULATE = ("expr", "seq")
# Lines of which the script has one for each node or GPU; of the others the number is not known.
_LISTED = re.compile(r"^$|the address of node|nvidia-smi")
_KNOWN = ("HOME", "SCRATCH", "WORK", "TMPDIR", "SLURM_TMPDIR")  # the last: of a prolog
# Variables of bash that are another value in each run.
_CHANGE_NAMES = (
    "RANDOM SRANDOM SECONDS UID EUID PPID BASHPID EPOCHSECONDS EPOCHREALTIME HOSTNAME"
    " BASH_VERSION LINENO"
)
_CHANGES = re.compile(rf"\b({'|'.join(_CHANGE_NAMES.split())})\b")
_USES = re.compile(r"\$\{?[#!]?\w+|\(\(.*?\)\)")
_ELEMENT = re.compile(r"\$\{(\w+\[(?:[^\[\]{}@*]|\$\{\w+\})+\])\}")
_HAS_DEFAULT = re.compile(r"\$\{SLURM_ARRAY_TASK_ID:?[-+]")
# `$1`, but not in single quotes, where it may be of awk.
_ARGUMENT = re.compile(r"'[^'\n]*'|(?<!\\)\$(?:\{([0-9])\}|([0-9])(?!\d))")
_NUMBERED = re.compile(r"(%[-0]?)(\d*)([dis])")
_CHANGING = "CLUSTERJOBS_CHANGING_"
# Of bashkit itself; a script that changes them changes nothing here.
_OF_THE_SHELL = frozenset(("PWD", "OLDPWD", "SHLVL", "_", _LINE, "HOSTNAME", "SHELL"))


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
    """What the script did. `sourced`: files that it read into itself. `notes`: what was assumed.

    `undecided`: lines with a condition on what is not known here: a stand-in, a file, a program.
    `programs`: also those that it calls only in other cases.
    """

    calls: tuple[Call, ...]
    sourced: tuple[str, ...]
    functions: tuple[str, ...]
    in_substitutions: frozenset[str]
    notes: tuple[str, ...]
    undecided: tuple[int, ...] = ()
    programs: frozenset[str] = frozenset()


class Given(NamedTuple):
    """What a run of the script gets from outside.

    `code`: bash that sets the arguments and variables of sbatch's command line. `array_index`:
    "" if it is not known.
    """

    code: str = ""
    array_index: str = ""


NOTHING_GIVEN = Given()


class Recording:
    """Runs of one script, whose size is in its `options`.

    `folder`: where it starts. `in_step`: whether each node runs it. `files`: other scripts beside
    it, by name. What one run did not find is there in the next.
    """

    def __init__(
        self,
        text: str,
        files: Mapping[str, str],
        options: Mapping[str, str],
        marks: Marks,
        folder: str = "",
        in_step: bool = False,
        given: Given = NOTHING_GIVEN,
    ) -> None:
        self._given = given.code
        self._size, self._marks, self._in_step = size_of(options), marks, in_step
        text = re.sub(r"\$\$(?!\w)", "$PPID", text)
        text = _USES.sub(lambda use: _CHANGES.sub(rf"{_CHANGING}\1", use[0]), text)
        returned = marks.number(Mark("", "$?: what a program returns"))
        text = re.sub(r"(?<=\w=)\$\?", returned, text)
        text = _ARGUMENT.sub(self._or_argument, text)
        if marks.is_second:  # what printf pads differs, too
            text = re.sub(
                r"(?m)^.*\bprintf .*$",
                lambda line: _NUMBERED.sub(_printed_otherwise, line[0]),
                text,
            )
        self._text = _ELEMENT.sub(self._or_unknown, text)
        self._home = re.sub("/+", "/", marks.path(_SUBMITTED_FROM))
        self._start = posixpath.join(self._home, folder)
        self._programs: set[str] = set()
        self._folders: set[str] = {self._home, self._start}
        self._files = {f"{self._home}/{name}": found for name, found in files.items()}
        self._environment = {**_of_slurm(text, options, marks), **_unset_names(self._text, marks)}
        if line_of_index_default(text, options):
            del self._environment["SLURM_ARRAY_TASK_ID"]
        if given.array_index:
            self._environment |= _of_task(given.array_index, options)
        if in_step and (self._size.tasks_per_node or 1) == 1:
            self._environment |= {
                "SLURM_PROCID": marks.number(Mark("SLURM_NODEID")),
                "SLURM_LOCALID": "0",
            }
        self._calls: list[Call] = []
        self._sourced: list[str] = []
        self._notes: list[str] = []
        self._filtered: set[int] = set()  # lines with a filter whose result is unknown
        self._failing = 0  # the line whose programs fail

    def _or_unknown(self, element: re.Match[str]) -> str:
        """An element of an array: which one is known only if its index is."""
        mark = Mark("", f"the element {element[1]} of an array")
        return f"${{{element[1]}-{self._marks.text(mark)}}}"

    def _or_argument(self, found: re.Match[str]) -> str:
        """An argument of the script, if no function or `set` gives it."""
        number = found[1] or found[2]
        if not number:
            return found[0]
        mark = Mark("", f"${number}: {OF_THE_SCRIPT}")
        if number == "0":
            return self._marks.text(mark)
        return f"${{{number}-{self._marks.text(mark)}}}"

    def all(self) -> Recorded:
        """What the script calls. Raises InputError if bash cannot read it."""
        try:
            analysis = _bash()().analyze(self._text)
        except _bashkit().BashError as broken:
            raise one_problem(f"bash cannot read the script: {broken}") from None
        called = {name for name in analysis.command_names if name}
        self._programs |= called - {*analysis.functions} - _OF_BASH - _FILTERS - {*_CALCULATE}
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
            self._undecided(),
            frozenset((*self._programs, *(one.program for one in self._calls))),
        )

    def _undecided(self) -> tuple[int, ...]:
        lines = [_QUOTED.sub("''", line) for line in self._text.splitlines()]
        code = [re.sub(r"(^|\s)#.*", "", line) for line in lines]
        called = {call.line for call in self._calls} | self._filtered
        found = {n for n in called if 0 < n <= len(code) and _DECIDES.search(code[n - 1])}
        found |= {n for n, line in enumerate(code, 1) if "$?" in line and _CONDITION.search(line)}
        calls, sourced = self._calls, self._sourced
        for line in self._once(traces=True).splitlines():
            asked = _ASKED.match(line)
            if asked and (_OF_FILES.search(asked[2]) or self._is_open(asked[2])):
                found.add(int(asked[1]) - 1)
        self._calls, self._sourced = calls, sourced
        return tuple(sorted(found))

    def _is_open(self, condition: str) -> bool:
        """Whether the answer depends on a stand-in: only some variables always have a value."""
        marks = self._marks.found_in(condition)
        given = all(mark.name in _ALWAYS_SET for mark in marks)
        return bool(marks) and not (given and re.match(r"(! )?-[nz] \S+ '?\]", condition))

    def decided(self, line: int, is_true: bool) -> Recorded | None:
        """What the script does if the condition of a line is met; None if it cannot be decided."""
        text, notes = self._text, [*self._notes]
        lines = text.split("\n")
        lines[line - 1], count = _CONDITION.subn("true" if is_true else "false", lines[line - 1])
        is_called = line in {call.line for call in self._calls} | self._filtered
        if not (count or is_called) or _LOOPS.search(lines[line - 1]):
            return None
        self._text, self._failing = "\n".join(lines), 0 if is_true else line
        recorded = self.all()
        self._text, self._notes, self._failing = text, notes, 0
        return recorded

    def again_without_exits(self) -> Recorded:
        """Record again a script that ended before its launch: `exit` and `set -e` do nothing."""
        self._notes.append("the script ended before its launch: `exit` and `set -e` were ignored")
        self._text = re.sub(r"(?m)^(\s*)set -[a-z]*[eu].*$", r"\1:", self._text)
        self._text = re.sub(r"(?<![\w.-])exit(?![\w=-])( +[^\s;)}&|]+)?", ":", self._text)
        return self.all()

    def _once(self, traces: bool = False) -> str:
        """Run it. Returns what it wrote to standard error."""
        self._calls, self._sourced = [], []
        bash = _bash()(
            cwd="/",
            env=self._environment,
            custom_builtins={
                **{name: self._stand_in for name in self._programs if "/" not in name},
                **dict.fromkeys((*_FILTERS, *_CALCULATE), self._filter),
                **dict.fromkeys(("date", "find", "id", "ls", "whoami"), self._stand_in),
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
        start = f"cd {shlex.quote(self._start)}; {self._given}"
        trap = f"{start}trap 'export {_LINE}=$LINENO' DEBUG\n"
        text = self._text
        if traces:
            trap = f"{self._given}PS4='+{_TRACE}$LINENO '; set -x\n"
            text = _CASE.sub(r"[[ \1 == case ]] || :; case \1 in", text)
            text = _ARITHMETIC.sub(_with_values, text)
        done = bash.execute_sync(trap + text)
        if done.error and not traces:
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
        path, *names = context.argv
        self._sourced.append(" ".join([path, *names[: path.endswith("/bin/activate")]]))
        return ""

    def _called(self, context: Any, program: str, arguments: list[str]) -> Any:
        line = self._line(context)
        own = {
            name: value
            for name, value in sorted(context.env.items(), key=self._place)
            if name not in _OF_THE_SHELL and self._environment.get(name) != value
        }
        folder = posixpath.relpath(context.cwd, self._home)
        folder = context.cwd if folder.startswith("..") else folder
        stdin = context.stdin or ""
        self._calls.append(Call(program, tuple(arguments), own, folder, line, stdin))
        printed = self._printed(program, arguments, 0 if self._in_step else line)
        return _bashkit().BuiltinResult(printed, exit_code=int(line == self._failing > 0))

    def _printed(self, program: str, arguments: Sequence[str], line: int) -> str:
        """What a program prints, for scripts that read it."""
        name = posixpath.basename(program)
        unknown = Mark("", f"a value that {name} computes", line)
        first = self._marks.text(FIRST_NODE)
        if name == "scontrol" and "hostname" in " ".join(arguments):
            others = [
                self._marks.text(Mark("", f"the address of node {one}", line))
                for one in range(2, self._size.nodes + 1)
            ]
            return "".join(f"{one}\n" for one in (first, *others))
        if not self._in_step and name in ("hostname", "ip", "dig", "getent", "nslookup", "host"):
            return f"{first}\n"
        is_there = name == "srun" or (name == "ssh" and first in arguments)
        if is_there and _asks_for_address(arguments):
            return f"{first}\n"
        if name == "nvidia-smi" and self._size.gpus_per_node:
            return f"GPU {self._marks.text(unknown)}\n" * self._size.gpus_per_node
        if name == "whoami" or (name == "id" and arguments in (["-un"], ["-u", "-n"])):
            return f"{self._marks.text(_USER)}\n"
        if name == "which" and arguments:
            folder = Mark("", f"the folder of {arguments[-1]}", line)
            return f"{self._marks.path(folder)}/{arguments[-1]}\n"
        if name in ("module", "ml", "conda", "mamba", "micromamba", "sbatch", "wandb"):
            return ""
        if name == "mktemp" and line and not self._marks.found_in(" ".join(arguments)):
            made = Mark(f"{COMPUTED}{name}_{line}", command=(name, *arguments))
            return f"{self._marks.path(made)}\n"
        return f"{self._marks.text(unknown)}\n"

    def _filter(self, context: Any) -> Any:
        """A program on its input; what it prints is unknown if it wants a file or counts."""
        line = self._line(context)
        unknown = Mark("", f"a value that {context.name} computes", 0 if self._in_step else line)
        words = shlex.join([context.name, *context.argv])
        calculates = context.name in _CALCULATE
        given = "" if calculates else context.stdin
        files = {one: self._files.get(posixpath.join(context.cwd, one), "") for one in context.argv}
        files = {name: text for name, text in files.items() if text}
        if given is None and files:
            given = ""
        if given is not None:
            done = _IN_A_THREAD.submit(_filtered, words, given, files).result()
            marks = self._marks.found_in(words if calculates else given)
            if words == "wc -l":
                marks = [one for one in marks if not _LISTED.search(one.unknown)]
            lost = marks and not self._marks.found_in(done.stdout)
            if not done.stderr and not lost:
                return _bashkit().BuiltinResult(done.stdout, exit_code=done.exit_code)
        self._filtered.add(line)
        failed = int(line == self._failing > 0)
        return _bashkit().BuiltinResult(f"{self._marks.text(unknown)}\n", exit_code=failed)

    @staticmethod
    def _line(context: Any) -> int:
        """The line of a call. The first line is ours."""
        return max(0, int(context.env.get(_LINE, "1") or 1) - 1)

    # ------------------------------------------------------------------ what was missing

    def _add_missing(self, error: str) -> bool:
        """Add what the last run did not find; whether there was something new."""
        return True in [self._add(line) for line in error.splitlines()]

    def _add(self, line: str) -> bool:
        if found := re.search(r"(?:line \d+: )?(\S+): command not found", line):
            return _added(self._programs, found[1])
        if found := re.search(r"line \d+: (\w+): unbound variable", line):
            new = found[1] not in self._environment
            self._environment.setdefault(found[1], self._marks.text(Mark(found[1])))
            return new
        if found := re.search(r"(?:cd|pushd): (.+): No such file", line):
            return _added(self._folders, self._absolute(found[1]))
        if found := re.search(r"line (\d+): (.+): No such file or directory", line):
            name, content = found[2], self._marks.text(Mark("", f"the content of {found[2]}"))
            path = self._absolute(name)
            if _added(self._folders, posixpath.dirname(path)):
                return True
            new = path not in self._files
            is_read = _READS.search([*self._text.splitlines(), ""][int(found[1]) - 2])
            stub = _FILE.format(quoted=shlex.quote(name))
            self._files[path] = f"{content}\n" if is_read else stub
            return new
        return False

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._home, path))


# What a run with `set -x` prints of conditions, and how they are written.
_TRACE = "clusterjobs:"
_ASKED = re.compile(rf"\++{_TRACE}(\d+) (?:\[\[|'\['|\[|test|\(\() (.*)")
_OF_FILES = re.compile(r"(?:^|[\s(])-[defhrswxL] ")
_CONDITION = re.compile(
    r"\[\[ .*? \]\](?=[\s;)]|$)|(?<![\w\[$])\[ .*? \](?=[\s;)]|$)|(?<!\$)\(\(.*?\)\)|\btest [^;&|]+"
)
_CASE = re.compile(r"\bcase\s+(\S+)\s+in\b")
_ARITHMETIC = re.compile(r"(?<![$\w])(?<!for )\(\((.*?)\)\)")
_QUOTED = re.compile(r"'[^'\n]*'|\"(?:[^\"\\$`]|\\.|\$(?!\())*\"")  # without `$(...)`
_DECIDES = re.compile(r"\b(?:if|elif)\s|&&|\|\||(?:^|\s)!\s")
_LOOPS = re.compile(r"^\s*(?:while|until|for)\b|\bcase\b")
_ALWAYS_SET = ("HOME", "USER", "MASTER_ADDR", "SLURM_JOB_ID", "SLURM_SUBMIT_DIR")
# A file that the script runs, which is not here.
_FILE = """\
if [[ "$0" == bash ]]; then clusterjobs_sourced {quoted} "$@"; \
else clusterjobs_program {quoted} "$@"; fi
"""


def _printed_otherwise(form: re.Match[str]) -> str:
    """A form of printf that prints another text of all but numbers of one width."""
    return f"{form[1]}2{form[2]}{form[3]}" if form[2] else "%s"


def _with_values(arithmetic: re.Match[str]) -> str:
    """`((N > 8))` after a condition that has the values of its variables."""
    names = re.findall(r"[A-Za-z_]\w*", arithmetic[1])
    return f'[[ "{" ".join(f"${{{name}-}}" for name in names)}" == x ]] || :; {arithmetic[0]}'


_READS = re.compile(r"<(?![<(&])")


def _added(found: set[str], one: str) -> bool:
    new = one not in found
    found.add(one)
    return new


def _asks_for_address(arguments: Sequence[str]) -> bool:
    return any(one in ("hostname", "ip") or one.startswith("hostname ") for one in arguments)


def _of_slurm(text: str, options: Mapping[str, str], marks: Marks) -> dict[str, str]:
    """The variables that Slurm sets, and those that every user has.

    Slurm's are numbers if they follow from the directives. sbatch(1), OUTPUT ENVIRONMENT VARIABLES.
    """
    size = size_of(options)
    tasks = size.tasks_per_node
    total = options.get("ntasks") or (tasks and str(size.nodes * tasks))
    known = {
        "SLURM_NNODES": str(size.nodes),
        "SLURM_JOB_NUM_NODES": str(size.nodes),
        "SLURM_NTASKS": total,
        "SLURM_NPROCS": total,
        "SLURM_NTASKS_PER_NODE": options.get("ntasks-per-node"),
        "SLURM_CPUS_PER_TASK": options.get("cpus-per-task"),
        "SLURM_GPUS_ON_NODE": size.gpus_per_node and str(size.gpus_per_node),
        "SLURM_GPUS_PER_NODE": options.get("gpus-per-node"),
        "SLURM_GPUS": options.get("gpus"),
        "SLURM_JOB_NAME": options.get("job-name") or marks.text(Mark("SLURM_JOB_NAME")),
        "SLURM_JOB_PARTITION": options.get("partition"),
        "SLURM_JOB_ACCOUNT": options.get("account"),
    }
    found = {
        name: marks.number(Mark("", f"${name}: {_PER_RANK if name in _OF_RANKS else _OF_SLURM}"))
        for name in sorted({*re.findall(r"\b(SLURM\w+)", text)})
    }
    return {
        **found,
        **{name: value for name, value in known.items() if value},
        "SLURM_JOB_ID": marks.number(Mark("SLURM_JOB_ID")),
        "SLURM_JOBID": marks.number(Mark("SLURM_JOB_ID")),
        "SLURM_ARRAY_JOB_ID": marks.number(Mark("SLURM_ARRAY_JOB_ID")),
        "SLURM_ARRAY_TASK_ID": marks.number(Mark("SLURM_ARRAY_TASK_ID")),
        "SLURM_NODEID": marks.number(Mark("SLURM_NODEID")),
        "SLURM_JOB_NODELIST": marks.text(Mark("SLURM_JOB_NODELIST"), ",Z"),
        "SLURM_NODELIST": marks.text(Mark("SLURM_JOB_NODELIST"), ",Z"),
        "SLURM_SUBMIT_DIR": marks.path(_SUBMITTED_FROM),
        **{name: marks.path(Mark(name)) for name in _KNOWN},
        "USER": marks.text(_USER),
        "LOGNAME": marks.text(_USER),
    }


def _of_task(index: str, options: Mapping[str, str]) -> dict[str, str]:
    """The variables of one task of an array."""
    indexes, _ = read_array(options["array"])
    return {
        "SLURM_ARRAY_TASK_ID": index,
        "SLURM_ARRAY_TASK_COUNT": str(len(indexes)),
        "SLURM_ARRAY_TASK_MIN": str(indexes[0]),
        "SLURM_ARRAY_TASK_MAX": str(indexes[-1]),
    }


_OF_RANKS = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NODEID", "SLURM_TASK_PID")
_OF_SLURM = "only the running job knows it"


_USED = re.compile(r"\$(?:\{[#!]?(\w+)(:?[-+=])?|([A-Za-z_]\w*))")
_SET = re.compile(
    r"(?m)(?:^|[\s;(&|])(?:export\s+|local\s+|declare\s+(?:-\w+\s+)*|readonly\s+)?([A-Za-z_]\w*)\+?="
    r"|\bfor\s+(\w+)|\bread\s+(?:-\w+\s+)*(\w+(?:[ \t]+\w+)*)"
    r"|\b(?:mapfile|readarray)\s+(?:-\w+\s+)*(\w+)"
)


def _set_names(code: str) -> set[str]:
    """The variables that the code sets."""
    return {name for groups in _SET.findall(code) for name in " ".join(groups).split()}


def _without_comments(text: str) -> str:
    return re.sub(r"(?m)^\s*#.*$", "", text)


def extended_names(text: str, *, paths: bool) -> dict[str, int]:
    """The variables whose first value is their own from sbatch's environment and more: `A="$A b"`.

    Each with the line. `paths`: lists of folders, whose old values the job keeps; or all others,
    which are taken for empty.
    """
    code = _without_comments(text)
    assigned = _SET.findall(code)
    others = {name for groups in assigned for name in " ".join(groups[1:]).split()}
    others |= {*re.findall(r"\$\{(\w+):?=", code)}
    found = {}
    for name in {groups[0] for groups in assigned} - others:
        if name.endswith("PATH") is not paths:
            continue
        first = re.search(rf"(?<![\w$-]){name}(?:(\+=)(?!\()|=)(.*)", code)
        or_empty = rf"\$\{{{name}:?-\}}"
        own = rf"(?<!\\)\$(?:{name}\b|\{{{name}\}})|[^\"']{or_empty}|{or_empty} *[^\"'\s;#&|]"
        if first and (first[1] or re.search(own, first[2])):
            found[name] = code.count("\n", 0, first.start()) + 1
    return dict(sorted(found.items(), key=lambda one: one[1]))


def line_of_index_default(text: str, options: Mapping[str, str]) -> int:
    """The line of `${SLURM_ARRAY_TASK_ID:-0}` in a script without --array; 0 without one."""
    code = _without_comments(text)
    found = None if "array" in options else _HAS_DEFAULT.search(code)
    return code.count("\n", 0, found.start()) + 1 if found else 0


def optional_names(text: str) -> list[tuple[str, int]]:
    """The variables that the script takes from sbatch's environment if they are there, else a
    default; each with the line of its first use."""
    code = _without_comments(text)
    marks = Marks()
    others = {*_of_slurm(text, {}, marks), *_BUILT_IN, *_unset_names(text, marks)}
    others |= _set_names(_HAS_OWN_DEFAULT.sub("", code))
    found = {
        one[1]: code.count("\n", 0, one.start()) + 1
        for one in reversed([*_USED.finditer(code)])
        if one[1]
        and one[2] in ("-", ":-", "=", ":=")
        and not one[1].isdigit()
        and one[1] not in others
    }
    slurm = ("SLURM_", "BASH")
    return sorted(
        (one for one in found.items() if not one[0].startswith(slurm)), key=lambda one: one[1]
    )


# `LR=${LR:-1}`, `ARGS="--a ${ARGS:---b}"`
_HAS_OWN_DEFAULT = re.compile(r"\b(\w+)=(?:[\"']?\$\{\1:?-|[^\n;]*?\$\{\1:?-(?!\}))")
_IS_LIST = re.compile(
    r"<<<\s*\"?\$\{?(\w+)|\bin\s+\$\{?(\w+)|=\(\s*\$\{?(\w+)|\becho +\"?\$\{?(\w+)\}?\"? *\|"
)
_STARTS_A_PATH = re.compile(r"(?<![\w/.@%+})-])\$\{?(\w+)\}?/|\b(?:cd|pushd) +\"?\$\{?(\w+)")


def _unset_names(text: str, marks: Marks) -> dict[str, str]:
    """A mark for each variable that the script uses without a default and never sets."""
    code = _without_comments(text)
    known = _set_names(code)
    known |= {*re.findall(r"\$\{(\w+):?=", code)}  # sets it, too
    extended = extended_names(text, paths=True)
    known -= set(extended)
    known |= {"USER", "LOGNAME", *_KNOWN, *_BUILT_IN}
    calculated = {
        name
        for inside in re.findall(r"\(\(((?:[^()]|\([^()]*\))*)\)\)", code)
        for name in re.findall(r"[A-Za-z_]\w*", inside)
    }
    used = {braced or plain for braced, sign, plain in _USED.findall(code) if not sign}
    lists = {name for names in _IS_LIST.findall(code) for name in names}
    paths = {name for names in _STARTS_A_PATH.findall(code) for name in names}
    found = {}
    for name in sorted((used | calculated) - known):
        if name.startswith(("SLURM", "BASH")) or name.isdigit():
            continue
        if name.startswith(_CHANGING):
            what = f"${name.removeprefix(_CHANGING)}: another value in each run"
            is_node = name == f"{_CHANGING}HOSTNAME"
            found[name] = marks.text(FIRST_NODE) if is_node else marks.number(Mark("", what))
        elif name in calculated:
            found[name] = marks.number(Mark(name))
        elif name in lists:
            found[name] = marks.text(Mark(name), ",Z Z:Z")
        else:
            mark = Mark(name, is_extended=name in extended)
            found[name] = (marks.path if name in paths else marks.text)(mark)
    return found


_BUILT_IN = frozenset(
    ("RANDOM", "SECONDS", "LINENO", "UID", "EUID", "PPID", "HOSTNAME", "PWD", "IFS")
)


_IN_A_THREAD = ThreadPoolExecutor(1)  # bashkit runs no other bash in the thread of a stand-in


def _filtered(words: str, given: str, files: Mapping[str, str]) -> Any:
    """What a program prints that reads `given`, or these files by their names in `words`."""
    bash = _bash()(cwd="/work", timeout_seconds=_SECONDS)
    for name, text in {"/input": given, **files}.items():
        path = posixpath.join("/work", name)
        bash.mkdir(posixpath.dirname(path), recursive=True)
        bash.write_file(path, text)
    return bash.execute_sync(f"{words} < /input")


def words_of(code: str, environment: Mapping[str, str]) -> list[str]:
    """The words of a command, as bash expands them."""
    found: list[str] = []

    def words(context: Any) -> str:
        found.extend(context.argv)
        return ""

    bash = _bash()(env=dict(environment), custom_builtins={"words": words})
    bash.execute_sync(f"words {code}")
    return found


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
