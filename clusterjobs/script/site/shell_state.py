"""What lines of bash change in the shell that runs them: options, traps, functions, IFS, its end.

shfmt reads the code, so that quotes, `eval`, groups and branches do not hide a change. Nothing is
run. What happens in a subshell stays there. Of code that only the job knows (`source FILE`,
`eval "$(PROGRAM)"`) nothing is said.
"""

import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import one_problem

Node = Mapping[str, Any]


class Change(NamedTuple):
    """`kind`: the invariant that it breaks. `name`: of a function that is defined or removed.

    `warning`: it may be what the site wants.
    """

    line: int
    kind: str
    what: str
    hint: str
    name: str = ""
    warning: bool = False


# ------------------------------------------------------------------ syntax tree


def syntax_tree(code: str) -> Node:
    """The tree of shfmt. Raises InputError if shfmt is missing, or cannot read the code."""
    done = _run(_shfmt(), code)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().removeprefix("<standard input>:")
        raise one_problem(
            f"shfmt cannot read the job's script: {said}", hint="write it more simply"
        )
    found: Node = json.loads(done.stdout)
    return found


def _run(program: str, code: str) -> subprocess.CompletedProcess[bytes]:
    command = [program, "-ln", "bash", "--to-json"]
    return subprocess.run(command, input=code.encode(), capture_output=True, check=False)


def _shfmt() -> str:
    """The path of shfmt: beside this Python, where pip puts it, or on PATH.

    Raises InputError if none can be used.
    """
    beside = shutil.which("shfmt", path=str(pathlib.Path(sys.executable).parent))
    found = list(filter(None, (beside, shutil.which("shfmt"))))
    if usable := next(filter(_is_new_enough, found), None):
        return usable
    what = "shfmt, which reads the lines of a site, is not installed"
    if found:
        what = f"shfmt 3.14 or newer is needed to read the lines of a site, and {found[0]} is none"
    raise one_problem(what, hint='pip install "shfmt-py>=4.1", or a release of github.com/mvdan/sh')


@functools.cache
def _is_new_enough(program: str) -> bool:
    """Whether this shfmt names operators; before 3.14 it numbers them, in each release anew."""
    try:
        done = _run(program, "a | b\n")
    except OSError:
        return False
    return done.returncode == 0 and json.loads(done.stdout)["Stmts"][0]["Cmd"]["Op"] == "|"


@functools.lru_cache(maxsize=8)
def commands_of(code: str) -> frozenset[str]:
    """The names of all commands that the code calls, also in subshells and by a function.

    `run_ranks srun` calls both: the first argument of a function may be a command.
    """
    nodes = [*_nodes(syntax_tree(code))]
    functions = {one["Name"]["Value"] for one in nodes if one.get("Type") == "FuncDecl"}
    calls = [one["Args"] for one in nodes if one.get("Args") and "Parts" in one["Args"][0]]
    words = [*(args[0] for args in calls)]
    words += [args[1] for args in calls if args[1:] and _text(args[0], {}) in functions]
    return frozenset(name for word in words if "Parts" in word and (name := _text(word, {})))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, dict):
        yield value
        value = value.values()
    for one in value if not isinstance(value, (str, int, bool)) and value else ():
        if isinstance(one, (dict, list)):
            yield from _nodes(one)


# ------------------------------------------------------------------ words

_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
}


def _text(word: Node | None, known: Mapping[str, str | None]) -> str | None:
    """A word after bash has expanded it; None if that is known on the node alone."""
    parts = [_part(one, known) for one in (word or {}).get("Parts", ())]
    return None if None in parts else "".join(map(str, parts))


def _part(part: Node, known: Mapping[str, str | None]) -> str | None:
    kind, value = part["Type"], part.get("Value", "")
    if kind == "Lit":
        return re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    if kind == "SglQuoted":
        return _ESCAPES.sub(_escaped, value) if part.get("Dollar") else value
    if kind == "DblQuoted":
        return _text(part, known)
    is_plain = kind == "ParamExp" and not {*part} & {"Exp", "Index", "Slice", "Repl", "Length"}
    return known.get(part["Param"]["Value"]) if is_plain and not part.get("Excl") else None


def _escaped(found: re.Match[str]) -> str:
    text = found[1]
    if text[0] == "x":
        return chr(int(text[1:], 16))
    return chr(int(text, 8)) if text[0] in "01234567" else _LETTERS.get(text, text)


# ------------------------------------------------------------------ changes

_LETTER = {
    "a": "allexport",
    "b": "notify",
    "e": "errexit",
    "f": "noglob",
    "h": "hashall",
    "k": "keyword",
    "m": "monitor",
    "n": "noexec",
    "p": "privileged",
    "t": "onecmd",
    "u": "nounset",
    "v": "verbose",
    "x": "xtrace",
    "B": "braceexpand",
    "C": "noclobber",
    "E": "errtrace",
    "H": "histexpand",
    "P": "physical",
    "T": "functrace",
}
# The options that are set in a job's script, and those of `shopt` that are by default.
_ON = {"errexit", "nounset", "pipefail", "braceexpand", "hashall", "interactive-comments"}
_ON |= {"checkwinsize", "cmdhist", "extquote", "force_fignore", "globasciiranges", "globskipdots"}
_ON |= {"hostcomplete", "interactive_comments", "patsub_replacement", "progcomp", "promptvars"}
_ON |= {"sourcepath", "complete_fullquote"}
_TRACING = ("xtrace", "verbose")
_DEFAULT_IFS = (" \t\n", "")
_ASSIGNING = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--")
# The parts of a command that do not always run. shfmt names both sides of && and || X and Y.
_CONDITIONAL = {"BinaryCmd": ("Y",), "WhileClause": ("Do",), "ForClause": ("Do",)}
_OWN_SHELL = ("Subshell", "CmdSubst", "ProcSubst", "CoprocClause")
_FUNCTIONS = "the script calls a function or program of this name: choose another one"
_UNDONE = "put it in ( ), which is a shell of its own, or undo it in the same lines"


def state_changes(code: str) -> tuple[Change, ...]:
    """All changes that outlive the code, in the order of its lines. Raises InputError."""
    reader = _Reader()
    reader.read(syntax_tree(code))
    return tuple(sorted({*reader.found, *filter(None, reader.state.values())}))


class _Reader:
    """`found`: changes that nothing can undo. `state`: the others, by what is changed (an option,
    IFS, the folder); None where it is as before."""

    def __init__(self) -> None:
        self.found: list[Change] = []
        self.state: dict[str, Change | None] = {}
        self.known: dict[str, str | None] = {}  # variables with one value; None: with several
        self.line = 0  # of the `eval` that has the code
        self.function_name = "main"
        self.always = True  # what is read runs in every job

    def add(self, node: Node, kind: str, what: str, hint: str, name: str = "") -> None:
        self.found.append(self.change(node, kind, what, hint, name))

    def change(self, node: Node, kind: str, what: str, hint: str, name: str = "") -> Change:
        return Change(self.line or node["Pos"]["Line"], kind, what, hint, name)

    @property
    def is_main(self) -> bool:
        return self.function_name == "main"

    def read(self, node: Node | Sequence[Any]) -> None:
        """Read statements, or any part of them, in the order in which they run."""
        if not isinstance(node, dict):
            for one in node:
                if isinstance(one, (dict, list)):
                    self.read(one)
            return
        kind = node.get("Type")
        is_pipe = kind == "BinaryCmd" and node["Op"] in ("|", "|&")
        if is_pipe or kind in _OWN_SHELL or node.get("Background"):
            self.own_shell(node)
        elif kind == "FuncDecl":
            self.function(node)
        elif kind == "IfClause":
            self.read(node.get("Cond", []))
            self.branches([node["Then"], node.get("Else", [])])
        elif kind == "CaseClause":
            self.branches([item.get("Stmts", []) for item in node.get("Items", [])])
        else:
            self.command(node)
            for key, one in node.items():
                if key != "Redirs":
                    self.part(one, always=key not in _CONDITIONAL.get(kind or "", ()))

    def part(self, node: Any, always: bool) -> None:
        """Read a part of a command, which runs in every job if the command does and it is so."""
        outer, self.always = self.always, self.always and always
        self.read([node])
        self.always = outer

    def branches(self, branches: Sequence[Any]) -> None:
        """What holds afterwards, whichever of them ran."""
        before, ends = self.state, []
        for branch in branches:
            self.state = {**before}
            self.part(branch, always=False)
            ends.append(self.state)
        keys = {key for end in ends for key in end}
        self.state = {key: next((e[key] for e in ends if e.get(key)), None) for key in keys}

    def own_shell(self, node: Node) -> None:
        """Read a subshell. It may change what it likes, but what it traces is in the log, too."""
        inner = _Reader()
        inner.known, inner.line = {**self.known}, self.line
        for one in _nodes(node):
            if one.get("Type") == "CallExpr":
                inner.call(one, ())
        self.found += [one for one in inner.found if one.kind == "no-trace"]

    def function(self, node: Node) -> None:
        """What it leaves changed when it is called. The folder: of `main` alone, since helpers are
        often called in a subshell."""
        name, outer = node["Name"]["Value"], (self.state, self.function_name)
        self.add(node, "functions", f"this line replaces {name}", _FUNCTIONS, name)
        self.state, self.function_name = {}, name
        self.part(node["Body"], always=name == "main")
        self.found += [
            one for key, one in self.state.items() if one and (key != "folder" or name == "main")
        ]
        self.state, self.function_name = outer

    # ---- simple commands -------------------------------------------------------------------

    def command(self, node: Node) -> None:
        kind = node.get("Type")
        if (cmd := node.get("Cmd")) and cmd.get("Type") == "CallExpr":
            self.call(cmd, node.get("Redirs", ()))
        elif kind == "DeclClause" and self.is_main and node["Variant"]["Value"] != "local":
            for one in node.get("Args", ()):
                if name := one.get("Name", {}).get("Value"):
                    self.assigned(node, name, _text(one.get("Value"), self.known))
        elif kind == "WordIter":
            self.assigned(node["Name"], node["Name"]["Value"], None)
        elif kind in ("BinaryArithm", "UnaryArithm") and node["Op"] in _ASSIGNING:
            if target := _text(node["X"], {}):
                self.assigned(node["X"], target, "1")
        elif kind == "ParamExp" and (node.get("Exp") or {}).get("Op") in (":=", "="):
            self.assigned(node["Param"], node["Param"]["Value"], "1")

    def assigned(self, node: Node, name: str, value: str | None) -> None:
        self.known[name] = value if name not in self.known else None
        if name == "IFS":
            what = "this line changes IFS, by which the script splits lines"
            is_same = value in _DEFAULT_IFS[:1] or (value is None and self.state.get("IFS"))
            self.state["IFS"] = None if is_same else self.change(node, "shell-state", what, _UNDONE)

    def call(self, call: Node, redirections: Sequence[Node]) -> None:
        words = [_text(one, self.known) for one in call.get("Args", ())]
        if not words:
            for one in call.get("Assigns", ()):
                value = _text(one["Value"], self.known) if "Value" in one else ""
                self.assigned(call, one["Name"]["Value"], value)
            return
        only = call["Args"][0]["Parts"]
        if words[0] and len(only) == 1 and only[0]["Type"] in ("ParamExp", "Lit"):
            listed = re.fullmatch(r"\{(.+,.*)\}", words[0])  # {exit,0}
            first = listed[1].split(",") if listed else words[0].split()
            words = [*first, *words[1:]]
        while words and words[0] in ("command", "builtin", "-p", "--"):
            words = words[1:]
        if words == [None] and only[0].get("Param", {}).get("Value") in self.known:  # `$before`
            self.restored()
        if not words or words[0] is None:
            return
        name, rest = words[0], words[1:]
        method = getattr(self, f"call_{name}", None)
        if name == "exec":
            self.exec(call, rest, redirections)
        elif method:
            method(call, rest)

    # ---- how the shell ends ----------------------------------------------------------------

    def exec(self, call: Node, words: Sequence[str | None], redirections: Sequence[Node]) -> None:
        if words:
            what = "`exec` ends the shell, and no trap runs"
            self.add(call, "exit-trap", what, "run the program without `exec`")
        for one in redirections:
            number = (one.get("N") or {}).get("Value", "")
            number = number or ("0" if one["Op"].startswith("<") else "1")
            if number in ("0", "1", "2"):
                what = "this line redirects what the script reads or prints"
                hint = "redirect a group of commands: { ...; } > FILE"
                self.add(call, "shell-state", what, hint)

    def ends(self, call: Node, name: str, words: Sequence[str | None]) -> None:
        """Of another code than 0 and not in every job, it may be meant: a job that cannot run."""
        code = " ".join([name, *(one or "..." for one in words)])
        if self.function_name == "finish":
            what = f"`{code}` ends the job with another exit code"
            self.add(call, "exit-code", what, "remove it")
            return
        hint = "`fail MESSAGE` ends a job that cannot run, with the message"
        what = f"`{code}` ends {'every' if self.always else 'the'} job"
        change = self.change(call, "early-end", what, hint)
        self.found.append(change._replace(warning=words[:1] != ["0"] and not self.always))

    def call_exit(self, call: Node, words: Sequence[str | None]) -> None:
        self.ends(call, "exit", words)

    call_logout = call_exit

    def call_return(self, call: Node, words: Sequence[str | None]) -> None:
        if self.is_main:
            self.ends(call, "return", words)

    def call_kill(self, call: Node, _words: Sequence[str | None]) -> None:
        names = [one["Param"]["Value"] for one in _nodes(call) if one.get("Type") == "ParamExp"]
        if {"$", "BASHPID", "PPID"} & {*names}:
            what = "`kill $$` ends the shell, perhaps without its traps"
            self.add(call, "exit-trap", what, "`fail MESSAGE` ends a job that cannot run")

    # ---- code in words ---------------------------------------------------------------------

    def call_eval(self, call: Node, words: Sequence[str | None]) -> None:
        if None in words:
            if not any(one.get("Type") == "CmdSubst" for one in _nodes(call)):
                self.restored()
            return
        outer, self.line = self.line, self.line or call["Pos"]["Line"]
        self.read(syntax_tree(" ".join(map(str, words))))
        self.line = outer

    def call_source(self, call: Node, words: Sequence[str | None]) -> None:
        if words and words[0] and re.match(r"/dev/(stdin|fd)\b|/proc/self/fd\b", words[0]):
            what = "this line runs commands that it reads from a pipe or a here-document"
            self.add(call, "shell-state", what, "write the commands themselves")

    def call_bash(self, call: Node, words: Sequence[str | None]) -> None:
        options = [one for one in words if one and re.match(r"-\w*x", one)]
        if options and words and words[0] == options[0]:
            self.trace(call)

    call_sh = call_bash

    # ---- options ---------------------------------------------------------------------------

    def trace(self, call: Node) -> None:
        what, hint = "this line traces the commands", "print what you need with echo"
        self.add(call, "no-trace", what, hint)

    def option(self, call: Node, name: str, on: bool, shown: str) -> None:
        if name in _TRACING and on:
            self.trace(call)
        elif on == (name in _ON):
            self.state[name] = None
        else:
            is_strict = name in ("errexit", "nounset", "pipefail")
            what = f"`{shown}` ends the strict mode" if is_strict else f"`{shown}` stays in force"
            hint = "write `command || true` for a command that may fail" if is_strict else _UNDONE
            self.state[name] = self.change(call, "strict-mode", what, hint)

    def restored(self) -> None:
        """Options, by what only the job knows: `set "-$before"`, `eval "$before"`, `$before`."""
        kept = {key: one for key, one in self.state.items() if key in ("IFS", "folder")}
        self.state = {**dict.fromkeys(self.state), **kept}

    def call_set(self, call: Node, words: Sequence[str | None]) -> None:
        names = iter(words)
        for word in names:
            if word is None:
                self.restored()
            if not word or not re.match(r"[-+]\w", word):
                return
            for letter in word[1:]:
                name = next(names, None) if letter == "o" else _LETTER.get(letter)
                if name:
                    shown = f"set {word}" + (f" {name}" if letter == "o" else "")
                    self.option(call, name, word[0] == "-", shown)

    def call_shopt(self, call: Node, words: Sequence[str | None]) -> None:
        flags = "".join(one[1:] for one in words if one and one[0] == "-")
        for name in words if "s" in flags or "u" in flags else ():
            if name and name[0] != "-":
                shown = " ".join(["shopt", *(one or "..." for one in words)])
                self.option(call, name, "s" in flags, shown)

    def call_trap(self, call: Node, words: Sequence[str | None]) -> None:
        if not words or words[0] in ("-p", "-l"):
            return
        words = words[1:] if words[0] == "--" else words
        for word in words[1:] or words:
            name = (word or "").upper().removeprefix("SIG")
            if name in ("EXIT", "0"):
                hint = "use `after` in the spec, or sidecars, which `finish` ends"
                self.add(call, "exit-trap", "this line replaces the EXIT trap", hint)
            else:
                what = f"this line replaces the trap of {name or 'a signal'}"
                self.add(call, "signal-traps", what, "remove it")

    # ---- names and variables ---------------------------------------------------------------

    def call_unset(self, call: Node, words: Sequence[str | None]) -> None:
        for word in words:
            if word == "IFS":
                self.state["IFS"] = None
            elif word in ("MASTER_ADDR", "MASTER_PORT"):
                self.add(
                    call, "rendezvous", "this line removes the address of the ranks", "remove it"
                )
            elif word and word[0] != "-" and "-v" not in words:
                self.add(call, "functions", f"this line removes {word}", _FUNCTIONS, word)

    def call_alias(self, call: Node, words: Sequence[str | None]) -> None:
        for word in words:
            name = (word or "").partition("=")[0]
            if name and name[0] != "-":
                self.add(call, "functions", f"this line replaces {name}", _FUNCTIONS, name)

    call_enable = call_hash = call_alias

    def call_read(self, call: Node, words: Sequence[str | None]) -> None:
        if "IFS" in words:
            self.assigned(call, "IFS", "1")

    call_printf = call_mapfile = call_readarray = call_getopts = call_read

    def call_cd(self, call: Node, words: Sequence[str | None]) -> None:
        is_back = "-" in words or None in words  # `cd "$before"`
        if is_back and self.state.get("folder"):
            self.state["folder"] = None
        else:
            what = "this line changes the folder in which the ranks start"
            self.state["folder"] = self.change(call, "shell-state", what, "( cd FOLDER && ...; )")

    call_pushd = call_cd

    def call_popd(self, _call: Node, _words: Sequence[str | None]) -> None:
        self.state["folder"] = None


setattr(_Reader, "call_.", _Reader.call_source)
