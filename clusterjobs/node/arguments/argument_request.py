"""What is asked of a framework's parser, and how its refusals become problems."""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.util
import json
import os
import re
import sys
import traceback
import types
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Type


class NotCheckedError(Exception):
    """The check cannot answer here; the message says why."""


class RefusedError(Exception):
    """argparse's own error, in place of its exit."""


# What a parser and its validation raise for wrong arguments. Others, such as an ImportError or an
# AttributeError, are rather of the environment, or of this check.
REFUSALS: Tuple[Type[BaseException], ...] = (
    RefusedError,
    SystemExit,
    AssertionError,
    ValueError,
    TypeError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    argparse.ArgumentTypeError,
)
# Messages about the machine: a node without its GPUs, or a login node, says nothing of arguments.
OF_THE_MACHINE = re.compile(
    r"\bcuda\b(?!_)|nvidia|\bgpus?\b|\bhip\b|\bxpu\b|\bnpu\b|not installed|install |not available|"
    r"no module named|cannot import|connection|could not reach|offline|huggingface\.co|"
    r"<frozen os>|no such file|permission denied|not compiled|transformer.?engine|\bapex\b",
    re.IGNORECASE,
)


# A flag, or the values that are right: such a message is about the arguments.
OF_ARGUMENTS = re.compile(
    r"(?<![\w-])--[a-z]|is invalid|invalid choice|must be (?:one of|\S+ or)\b|allowed .*values",
    re.IGNORECASE,
)


def is_of_the_machine(message: str, source: str = "") -> bool:
    """Whether a message is about this machine, and not about the arguments."""
    is_clear = OF_ARGUMENTS.search(message)
    return not is_clear and bool(OF_THE_MACHINE.search(message + source))


class Request:
    """The command of a rank, the sizes of the job, and the problems that were found.

    `words`: the command, with the script, or `-m` and a module, first if it is Python's.
    `settings`: variables of the ranks. `folder`: the job's. `files`: its config files, with their
    paths. `unknown`: arguments whose values only the job gives; they have a stand-in here, and no
    problem is reported of them.
    """

    def __init__(self, asked: Dict[str, Any]) -> None:
        self.title: str = asked["title"]
        self.variables: Dict[str, str] = {**os.environ, **asked.get("variables", {})}
        self.unknown: set[str] = set()
        self.words: List[str] = self._expanded(asked["words"])
        self.launcher: str = asked["launcher"]
        self.launcher_words: List[str] = self._expanded(asked["launcher_words"])
        self.settings = {
            name: self._expanded([value])[0] for name, value in asked["settings"].items()
        }
        self.folder = self._expanded([asked["folder"]])[0]
        self.files = {name: os.path.join(self.folder, name) for name in asked["files"]}
        self.pipeline: int = asked["pipeline"]
        self.nodes: int = asked["nodes"]
        self.ranks_per_node: int = asked["ranks_per_node"]
        self.world_size = self.nodes * self.ranks_per_node
        self.capability: Sequence[int] = asked["capability"]
        self.runs_help: bool = asked["runs_help"]
        self.origins: Dict[str, Any] = asked["origins"]
        self.read_variables: List[str] = asked["read_variables"]  # names in `origins`
        self.problems: List[Dict[str, str]] = []
        self.version = ""

    def _expanded(self, words: List[Any]) -> List[str]:
        """The words with the values of their variables: `["--save", ["$job_dir", "/a"]]`."""
        found: List[str] = []
        for word in words:
            text = ""
            for part in [word] if isinstance(word, str) else word:
                text += part if isinstance(part, str) else self._value(part, found)
            found.append(text)
        return found

    def _value(self, part: Dict[str, Any], before: List[str]) -> str:
        value = self.variables.get(part["variable"])
        if not value and "default" in part:
            return self._expanded([part["default"]])[0]
        if not value:
            flag = next((one for one in reversed(before) if one.startswith("-")), "")
            self.unknown.update([key_of(flag)] if flag else [])
            return "1"  # a number, a text and a file name
        return value

    # -------------------------------------------------------------- the process

    def prepare(self) -> None:
        """Make this process look like the first rank, on CPUs."""
        for name, value in self.settings.items():
            os.environ.setdefault(name, value)
        ranks = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": self.world_size}
        ranks.update(SLURM_PROCID=0, SLURM_LOCALID=0, SLURM_NTASKS=self.world_size)
        ranks.update(LOCAL_WORLD_SIZE=self.ranks_per_node, LOCAL_SIZE=self.ranks_per_node)
        os.environ.update({name: str(value) for name, value in ranks.items()})
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "29500")
        hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"}
        os.environ.update(hidden, JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1", WANDB_MODE="disabled")
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != here]
        sys.path.insert(0, self.script_folder)
        argparse.ArgumentParser.error = refuse  # type: ignore[method-assign,assignment]
        sys.argv = list(self.words)

    @property
    def script(self) -> str:
        """The path of the script, or of the module's file."""
        if not self._is_module:
            return self.words[0]
        name = self.words[1]
        try:
            found = importlib.util.find_spec(name)
            if found and found.submodule_search_locations:
                found = importlib.util.find_spec(f"{name}.__main__")
        except Exception as error:
            raise NotCheckedError(f"the module {name}: {described(error)}") from error
        if not found or not found.origin:
            raise NotCheckedError(f"there is no module {name}")
        return found.origin

    @property
    def _is_module(self) -> bool:
        return self.words[:1] in (["-m"], ["--module"])

    @property
    def script_folder(self) -> str:
        """Where the script imports from first."""
        script = self.words[0] if self.words else ""
        return os.path.dirname(os.path.abspath(script)) if script.endswith(".py") else os.getcwd()

    @property
    def arguments(self) -> List[str]:
        """The words after the script or program."""
        return self.words[1 + self._is_module :]

    # -------------------------------------------------------------- problems

    def problem(self, message: str, source: str = "", flag: Optional[str] = None) -> None:
        """Report one problem; without a flag, the one that the message or the source names."""
        flags = self.flags_in(message, source) if flag is None else [flag]
        shown = next((one for one in flags if key_of(one) not in self.unknown), None)
        if flags and shown is None:
            return  # of a value that only the job has
        shown = shown or ""
        one = {"flag": shown, "message": message, "source": source, "origin": self.origin_of(shown)}
        if one not in self.problems:
            self.problems.append(one)

    def flags_in(self, message: str, source: str) -> List[str]:
        """The given flags that a message or a line of source names, the most certain first."""
        given = {key_of(word): word.partition("=")[0] for word in self.words if is_flag(word)}
        plain = [word.partition("=")[0] for word in self.words if "=" in word]
        given.update((key_of(word), word) for word in plain if not is_flag(word))
        known = {key_of(name): name for name in self.origins if is_flag(name)}
        texts = [*re.findall(r"--?[A-Za-z][\w.-]*", message), *NAME.findall(message)]
        texts += re.findall(r"\b(?:args|self|config|cfg)\.([a-z_][\w.]*)", source)
        keys = [key_of(text) for text in [*texts, *NAME.findall(source)]]
        found = [given[key] for key in keys if key in given]
        ends = {key.rpartition(".")[2]: flag for key, flag in given.items()}
        found += [ends[key.rpartition(".")[2]] for key in keys if key.rpartition(".")[2] in ends]
        found += [known[key] for key in keys if key in known]
        parts = [part for key in keys if "." in key for part in key.split(".")]
        found += [given[part] for part in parts if part in given]
        values = set(re.findall(r"'([^']+)'", message))
        flags = ["", *self.words]
        found += [flag for flag, word in zip(flags, self.words) if word in values and is_flag(flag)]
        # `lr_warmup_steps`, which was made of --lr-warmup-iters.
        starts = [key.rpartition("_")[0] for key in keys if key.count("_") > 1]
        found += [
            flag
            for start in starts
            for key, flag in given.items()
            if key.rpartition("_")[0] == start
        ]
        return list(dict.fromkeys(found))

    def keys_in(self, message: str) -> List[str]:
        """The keys of config files and variables that a message names, the most certain first."""
        ends: Dict[str, str] = {}
        for name in self.origins:
            if not is_flag(name):
                end = name.rpartition(".")[2]
                ends.setdefault(end, name)
                ends.setdefault(_PREFIX.sub("", end).lower(), name)
        flags = [key_of(one) for one in re.findall(r"--?[A-Za-z][\w-]*", message)]
        quoted = re.findall(r"['\"`]([\w.]+)['\"`]", message)
        names = [*flags, *quoted, *re.findall(r"\w+(?:\.\w+)*", message)]
        parts = [part for name in names for part in reversed(name.split("."))]
        found = [ends[part] for part in parts if part in ends]
        variables = [one for one in self.read_variables if says(message, one.partition("env.")[2])]
        return list(dict.fromkeys([*found, *variables, *self.keys_with_value_in(message)]))

    def keys_with_value_in(self, message: str) -> Iterator[str]:
        """The keys of config files and the variables of settings whose text a message has."""
        values = {**os.environ, **self.settings}
        for name in self.read_variables:
            if says(message, values.get(name.partition("env.")[2], "")):
                yield name
        ends = {name.rpartition(".")[2]: name for name in self.origins if not is_flag(name)}
        for file in self.files.values():
            for key, value in leaves(file):
                if key in ends and says(message, str(value)):
                    yield ends[key]

    def origin_of(self, flag: str) -> str:
        """The name of `origins` that the flag is from; `torchtitan.config` for --config."""
        if flag in self.origins:
            return flag
        own = [name for name in self.origins if name.count(".") == 1 and is_flag(flag)]
        alike = {name.rpartition(".")[2]: name for name in own}
        alike.update((key_of(name), name) for name in self.origins if is_flag(name))
        return alike.get(key_of(flag), "") if flag else ""

    @contextlib.contextmanager
    def refusals(
        self, *more: Type[BaseException], config: str = "", key: str = ""
    ) -> Iterator[None]:
        """What the framework raises inside is a problem, unless it is about this machine.

        `more`: further kinds of errors. `config`: the title of the config file that is read inside,
        and `key` the part of it.
        """
        found = len(self.problems)
        try:
            yield
        except DoneError:
            return
        except (*REFUSALS, *more) as error:
            if isinstance(error, SystemExit) and not error.code:
                return
            source = source_of(error)
            is_of_values = type(error).__name__ == "ValidationError"  # pydantic's
            for message in messages_of(error):
                if not is_of_values and is_of_the_machine(message, source):
                    raise NotCheckedError(f"{message} ({source})") from error
                if config:
                    keys = self.keys_in(message) or self.keys_in(key)
                    self.problem(f"{config}: {message}", source, (keys or [""])[0])
                else:
                    self.problem(message, source)
            if len(self.problems) == found:
                raise NotCheckedError(message_of(error)) from error

    def parse(self, parser: Callable[[List[str]], Any], words: List[str]) -> Any:
        """`parser(words)`; a wrong argument is reported and left out, to find the other ones.

        What was left out changes what follows, so that nothing else is reported then.
        """
        for _ in range(20):
            try:
                parsed = parser(words)
            except RefusedError as error:
                message, source = str(error), ""
            except REFUSALS as error:
                message, source = message_of(error), source_of(error)
                if self.problems and not _UNRECOGNIZED.match(message):
                    break
                if is_of_the_machine(message) or not self.flags_in(message, source):
                    raise
            else:
                if self.problems:
                    break
                return parsed
            wrong = unrecognized(message, words) or self.flags_in(message, source)[:1]
            for flag in wrong:
                self.problem(of_one(message, flag), source, flag)
            if not wrong:
                variables = [one for one in self.keys_in(message) if one in self.read_variables]
                self.problem(message, source, variables[0] if variables else None)
            fewer = without(words, wrong)
            if fewer == words:
                break
            words = fewer
        raise DoneError


# Of variables that are options, and of Accelerate's keys. Messages name them without it.
_PREFIX = re.compile(
    r"^(?:PL_TRAINER|PET|ACCELERATE|zero|fsdp|dynamo|parallelism_config)_(?!config)"
)


class DoneError(Exception):
    """All that can be found has been reported."""


NAME = re.compile(r"\b[a-zA-Z][a-zA-Z0-9]*(?:[_.-][a-zA-Z0-9]+)+\b|\b[a-z]{2,}\b")


def is_flag(word: str) -> bool:
    """`--lr`, `-a`; not a number."""
    return bool(re.match(r"--?[A-Za-z]", word))


def says(message: str, value: str) -> bool:
    """Whether the message has this text, which must be more than a number."""
    found = re.search(r"\D", value) and value.lower() not in ("true", "false", "auto", "none")
    return bool(found and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message, re.IGNORECASE))


def leaves(file: str) -> Iterator[Tuple[str, Any]]:
    """The keys of a JSON file, at any depth, that have a plain value; none of another file."""
    try:
        with open(file, encoding="utf-8") as opened:
            parts = [json.load(opened)]
    except (OSError, ValueError):
        return
    for part in parts:
        for key, value in part.items() if isinstance(part, dict) else ():
            if isinstance(value, dict):
                parts.append(value)
            else:
                yield key, value


def with_files_without(name: str, asked: Dict[str, Any], folder: str) -> Dict[str, Any]:
    """What is asked, with copies of the job's config files in this folder, which lack a key."""
    end = key_of(name.rpartition(".")[2])
    for file, path in Request(asked).files.items():
        try:
            with open(path, encoding="utf-8") as opened:
                keys = json.load(opened)
        except (OSError, ValueError):
            continue
        parts = [keys]
        for part in parts:
            for key in [*part] if isinstance(part, dict) else []:
                if key_of(key) == end:
                    del part[key]
                else:
                    parts.append(part[key])
        with open(os.path.join(folder, file), "w", encoding="utf-8") as copy:
            json.dump(keys, copy)
    variables = {part["variable"]: folder for part in asked["folder"] if isinstance(part, dict)}
    return {**asked, "variables": {**asked.get("variables", {}), **variables}}


def key_of(name: str) -> str:
    """`--micro-batch-size=4` -> micro_batch_size."""
    return name.lstrip("-+~").partition("=")[0].replace("-", "_")


def refuse(_parser: argparse.ArgumentParser, message: str) -> None:
    """In place of argparse's own error, which prints and exits."""
    raise RefusedError(message)


def unrecognized(message: str, words: Sequence[str]) -> List[str]:
    """The flags that argparse does not have."""
    if not _UNRECOGNIZED.match(message):
        return []
    said = re.findall(r"[^\s,'\[\]]+", message.partition(":")[2])
    return [word for word in words if word in said and is_flag(word)] or said[:1]


_UNRECOGNIZED = re.compile(
    r"unrecognized arguments?:|Some specified arguments are not used by the HfArgumentParser:"
)


def of_one(message: str, flag: str) -> str:
    """The part of a message about several flags that is about one."""
    return f"unrecognized argument {flag}" if _UNRECOGNIZED.match(message) else message


def without(words: Sequence[str], flags: Sequence[str]) -> List[str]:
    """The words without these flags and their values; what follows `--flag=value` is no value."""
    found: List[str] = []
    drops = False
    for word in words:
        if is_flag(word):
            is_left_out = word.partition("=")[0] in flags or word in flags
            drops = is_left_out and "=" not in word
        else:
            is_left_out = drops or word in flags
        if not is_left_out:
            found.append(word)
    return found


# ------------------------------------------------------------------ errors


def messages_of(error: BaseException) -> List[str]:
    """What an error says; pydantic's says several things."""
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):
        return [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}, not {one.get('input')!r}"[
                :300
            ].lstrip(": ")
            for one in error.errors()
        ]
    return [message_of(error)]


def message_of(error: BaseException) -> str:
    """The error's message on one line; of an assertion without one, its condition."""
    text = str(error).strip()
    if isinstance(error, SystemExit):
        text = f"it ended with exit code {text}" if text.isdecimal() else text
    elif isinstance(error, KeyError):
        text = f"unknown: {text}"
    elif isinstance(error, AssertionError) and not text:
        text = "this must hold: " + source_of(error).partition(": assert ")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:1000] or type(error).__name__


HERE = os.path.dirname(os.path.abspath(__file__))
# What others call: the line of the framework that called it says more.
_LIBRARIES = re.compile(
    r"/(?:pydantic|omegaconf|hydra|tyro|jsonargparse|torch)/|/lib/python3\.\d+/[^/]+\.py"
)


def source_of(error: BaseException) -> str:
    """`megatron/training/arguments.py:812: assert args.x > 0`: the line that raised the error."""
    if isinstance(error, RefusedError) or error.__traceback__ is None:
        return ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.dirname(os.path.abspath(frame.filename)) != HERE
    ]
    own = [frame for frame in frames if not _LIBRARIES.search(frame.filename)] or frames
    if not own:
        return ""
    last = own[-1]
    line = whole_assertion(last) if isinstance(error, AssertionError) else last.line
    return f"{short_path(last.filename)}:{last.lineno}: {line or ''}".rstrip(": ")


def whole_assertion(frame: traceback.FrameSummary) -> str:
    """An assertion up to the end of its condition, which may have several lines."""
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        with open(frame.filename, encoding="utf-8") as opened:
            text = opened.read()
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            end = getattr(getattr(node, "test", None), "end_lineno", 0)  # since Python 3.8
            if isinstance(node, ast.Assert) and node.lineno <= (frame.lineno or 0) <= end:
                return " ".join(line.strip() for line in lines[node.lineno - 1 : end])
    return frame.line or ""


def short_path(path: str) -> str:
    """The path as it is below the folder that Python imports from."""
    folders = [one for one in map(os.path.abspath, sys.path) if path.startswith(one + os.sep)]
    return os.path.relpath(path, max(folders, key=len)) if folders else path


def described(error: BaseException) -> str:
    """An error that is no refusal."""
    source = source_of(error)
    return f"{type(error).__name__}: {message_of(error)}" + (f" ({source})" if source else "")


# ------------------------------------------------------------------ stand-ins


def imported(name: str, framework: str) -> Any:
    """A module of the framework, or NotCheckedError."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        python = sys.executable
        why = f"{framework} cannot be imported by {python}: {described(error)}"
        raise NotCheckedError(why) from error


class _StandInType(type):
    """The type of classes that have every name, decorate by doing nothing, and are no instance."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandInType(name, (), {})

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        is_function = len(arguments) == 1 and callable(arguments[0]) and not named
        return arguments[0] if is_function else cls

    def __getitem__(cls, _key: Any) -> Any:
        return cls


class StandIn(types.ModuleType):
    """A module that has every name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: List[str] = []
        self.__version__ = "99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandInType(name, (), {})


class _Finder:
    """Finds the modules that have a stand-in, and all below them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        if name == self.name or name.startswith(f"{self.name}."):
            return importlib.util.spec_from_loader(name, self)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def stand_in_if_missing(*names: str) -> None:
    """Give modules that need a GPU a stand-in where they are not installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            sys.meta_path.append(_Finder(name))
