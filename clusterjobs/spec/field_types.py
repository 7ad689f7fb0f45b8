"""The types of single values in a spec: text, paths, names, time limits, counts.

Each function takes a value that YAML gave and returns the checked one, or raises ValueError: what
is wrong and, after a colon, what to write instead.
"""

import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    PlainValidator,
    Tag,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from clusterjobs.slurm.options import is_slurm_time, seconds_of
from clusterjobs.spec.model import FLAG, TEXT, TEXTS, Also, ExpandedByNode, Only, text_like
from clusterjobs.spec.references import as_text
from clusterjobs.spec.reserved_names import (
    NOT_RESERVED,
    environment_name,
    parameter_name,
)
from clusterjobs.text import Text, Value, expanding, literals, show, split_text

MAX_ITEMS = 500  # of lists whose items are compared with each other
MAX_NAME_BYTES = 200  # a file name has at most 255 bytes, and the log's name also has the job id
MAX_FILE_NAME_BYTES = 255
MAX_PATH_BYTES = 4_000  # PATH_MAX is 4,096, and the script appends to some paths
MAX_OPTION_BYTES = 1_000  # slurmctld refuses comments, accounts and names of 1,024 and more
MAX_WORD_BYTES = 131_071  # Linux's limit for one argument or variable (MAX_ARG_STRLEN)


def scalar_text(value: Any) -> Value:
    """A single value as text. Numbers keep the way they were written."""
    if isinstance(value, bool):
        raise ValueError(f'expected text, not a boolean: quote it, "{as_text(value)}"')
    if value is None:
        raise ValueError('the value is missing: write one, or "" for empty text')
    if isinstance(value, (Mapping, list)):
        found = "list" if isinstance(value, list) else "mapping"
        raise ValueError(f"expected a single value, not a {found}")
    text = value if isinstance(value, Text) else as_text(value)
    if len(show(text).encode()) > MAX_WORD_BYTES:
        raise ValueError(f"longer than Linux allows ({MAX_WORD_BYTES:,} bytes): put it in a file")
    return text


MODULE = re.compile(r"-m ([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")

_FIXED = "expected text that is known before the job runs: write it out"


def literal_text(value: Any, refusal: str = _FIXED) -> str:
    """Text that may have no references. `refusal`: the message if it has some."""
    text = scalar_text(value)
    if isinstance(text, Text):
        raise ValueError(refusal)
    return text


def path(value: Any) -> Value:
    """A path on the cluster: text as in `expandable_text`."""
    text = scalar_text(value)
    if not text:
        raise ValueError("the path is empty: write one, or remove the key")
    shown = show(text)
    if bad := first_control_character(shown):
        raise ValueError(f"the path contains {bad}: remove it")
    if text.startswith("-"):
        raise ValueError("the path starts with '-', as an option does: write ./ before it")
    if len(shown.encode()) > MAX_PATH_BYTES:
        raise ValueError(f"a path of more than {MAX_PATH_BYTES:,} bytes: shorten it")
    if any(len(part.encode()) > MAX_FILE_NAME_BYTES for part in shown.split("/")):
        raise ValueError(f"a file name of more than {MAX_FILE_NAME_BYTES} bytes: shorten it")
    return _expandable(text)


def script(value: Any) -> Value:
    """The path of a script, or `-m package.module` as Python takes it."""
    text = scalar_text(value)
    return text if module_of(text) else path(value)


def module_of(value: Value) -> str:
    """The module of a script `-m package.module`; "" of any other."""
    found = MODULE.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else ""


def expandable_text(value: Any) -> Value:
    """Text in which the node expands `${NAME}`, `${NAME:-default}` and a leading `~`."""
    return _expandable(scalar_text(value))


def _expandable(text: Value) -> Value:
    if not any(sign in show(text) for sign in "$~"):
        return text
    from clusterjobs.spec.shell_idioms import not_expanded  # few values have these signs

    if idiom := not_expanded(text):
        raise ValueError(f"{idiom.found} is not expanded here: {idiom.instead}")
    return text


def literal_path(value: Any, refusal: str = _FIXED) -> str:
    """A path that may have no references. `refusal`: the message if it has some."""
    return literal_text(path(value), refusal)


def search_path(value: Any) -> Value:
    """A folder that is added to PATH, where a colon separates folders."""
    text = path(value)
    if any(":" in one for one in literals(expanding(text))):
        raise ValueError("the path contains ':', which separates PATH's folders: rename the folder")
    return text


def venv(value: Any) -> Value:
    """The folder of a venv, which is added to PATH."""
    text = search_path(value)
    for inside in ("/bin/activate", "/bin/python", "/bin/python3", "/bin"):
        if show(text).endswith(inside):
            raise ValueError(f"the venv is a folder: write {show(text).removesuffix(inside)}")
    return text


_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_VERSION = re.compile(r"\d+(?:\.[0-9A-Za-z]+)*", re.ASCII)


def package_name(value: str) -> str:
    """The name of a Python package, as pip knows it."""
    if not _PACKAGE.fullmatch(value):
        raise ValueError("a package name has only letters, digits, '.', '_' and '-'")
    return value


def package_version(value: Any) -> str:
    """A version or its beginning: 2.6 includes 2.6.1."""
    text = plain(value)
    if not _VERSION.fullmatch(text):
        raise ValueError(f'{show(text)!r} is not a version: write one or its beginning, "2.6"')
    return text


_USER = re.compile(r"(\w[\w.-]*\\)?\w[\w.@+-]*( [\w.@+-]+)*", re.ASCII)


def user_name(value: Any) -> str:
    r"""The name or number of a user or a group; in quotes, a script has it as it is.

    A directory service has names such as `CORP\ml team`.
    """
    text = plain(value)
    if not _USER.fullmatch(text):
        raise ValueError(f"{text!r} is not the name of a group or a user: see `id`")
    return text


_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)


def interface(value: Any) -> str:
    """The name of a network interface; Linux allows 15 characters."""
    text = plain(value)
    if not _INTERFACE.fullmatch(text):
        raise ValueError(f"{text!r} is not a network interface: see `ip link`, for example ens5")
    return text


def flag(value: Any) -> bool:
    """A boolean of YAML 1.2."""
    if value in ("yes", "on", "no", "off"):
        meant = "true" if value in ("yes", "on") else "false"
        raise ValueError(f"expected true or false: write {meant}")
    if not isinstance(value, bool):
        raise ValueError("expected true or false: write one of them without quotes")
    return value


def job_name(value: Any) -> str:
    """The experiment's name: Slurm's job name, and part of paths."""
    text = literal_text(
        value, "the name is fixed when the job is rendered: remove the value of the running job"
    )
    if not text.strip() or text in (".", ".."):
        raise ValueError("the name is empty: write one for the job and its folders, my-run")
    if text[0] == "-" or "/" in text or text != text.strip():
        raise ValueError("not a job name: remove '/', a leading '-' and spaces at the ends")
    if bad := first_control_character(text):
        raise ValueError(f"the name contains {bad}: remove it")
    if len(text.encode()) > MAX_NAME_BYTES:
        raise ValueError(
            f"longer than {MAX_NAME_BYTES} bytes: shorten it, it is part of file names"
        )
    return text


def first_control_character(text: str) -> str | None:
    """The name of the first control or line-breaking character in `text`."""
    names = {"\n": "a line break", "\t": "a tab", "\r": "a carriage return"}
    for character in text:
        if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
            return names.get(character, f"the control character U+{ord(character):04X}")
    return None


def time_limit(value: Any) -> str:
    """Slurm's --time: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:...]."""
    text = scalar_text(value)
    if isinstance(text, Text) or not is_slurm_time(text):
        meant = _in_slurms_form(show(text)) or "90 (minutes), 12:00:00 or 2-00:00:00"
        raise ValueError(f"{show(text)!r} is not a Slurm time: write {meant}")
    if not text.strip("0:-"):
        raise ValueError("Slurm reads zero as no limit: remove time_limit, or write UNLIMITED")
    if (seconds_of(text) or 0) > 2**31 - 60:  # sbatch of Slurm 22.05 makes a longer one of it
        raise ValueError("Slurm reads at most 24,855 days: write a shorter time, or UNLIMITED")
    return text


_LENGTH = re.compile(
    r"(\d{1,6}(?:\.\d{1,3})?) ?(m|h|d|w)(?:in(?:ute)?|r|our|ay|eek)?s?", re.IGNORECASE
)
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _in_slurms_form(text: str) -> str:
    """`2-00:00:00` of `2 days` and `48h`; "" of another text."""
    if not (found := _LENGTH.fullmatch(text.strip())):
        return ""
    minutes = round(float(found[1]) * _SECONDS[found[2].lower()] / 60)
    days, rest = divmod(minutes, 1440)
    return f"{f'{days}-' if days else ''}{rest // 60:02}:{rest % 60:02}:00"


_OPTION = re.compile(r"[A-Za-z]|[a-z][a-z0-9-]*")


def directive_name(value: str) -> str:
    """The name of an sbatch or srun option, without its dashes."""
    if not _OPTION.fullmatch(value):
        name = value.lstrip("-").replace("_", "-")
        meant = name if _OPTION.fullmatch(name) else "a long name, mail-type"
        raise ValueError(f"not an option's name: write {meant}")
    return value


def option_value(value: Any) -> str | bool:
    """An sbatch or srun option's value: true for a bare flag, false to leave it out."""
    if isinstance(value, bool):
        return value
    text = literal_text(
        value, "options are fixed when the job is rendered: remove the value of the running job"
    )
    if bad := first_control_character(text):
        raise ValueError(f"the option contains {bad}: remove it")
    if len(text.encode()) > MAX_OPTION_BYTES:
        raise ValueError(f"longer than Slurm accepts ({MAX_OPTION_BYTES:,} bytes): shorten it")
    return text


def argument(value: Any) -> Value | bool | tuple[Value, ...]:
    """An argument's value: text, several texts, true for a bare flag, false to leave it out."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list):
        return tuple(scalar_text(item) for item in value)
    if value is None:
        raise ValueError("the value is missing: write true for a bare flag, or false for none")
    return scalar_text(value)


def argument_name(value: str) -> str:
    """The name of an argument, without its dashes."""
    if not (words := value.split()):
        raise ValueError("an argument needs a name that is known before the job runs: write it out")
    if words != [value]:
        example = f"{words[0]}: {' '.join(words[1:])}" if words[1:] else words[0]
        raise ValueError(f"the name of an argument has no blanks: write {example}")
    return value


def plain(value: Any) -> str:
    """Text that clusterjobs itself reads, so that it must be known when the job is rendered."""
    text = literal_text(value, _PLAIN)
    if not text:
        raise ValueError(_PLAIN)
    return text


_PLAIN = "expected text that is not empty and is known before the job runs: write it out"


class NotAnIntegerError(ValueError):
    """A value of another kind, where a key without an example of its own takes integers."""


def integer(value: Any) -> Any:
    if isinstance(value, Text):
        raise ValueError(
            "this number must be known before the job runs: write it, or change it with --set"
        )
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:
        raise ValueError(f"expected an integer, not text: write {int(value)} without quotes")
    if isinstance(value, bool) or not isinstance(value, int):
        is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e9
        instead = f": write {int(value)}" if is_whole else ""
        raise NotAnIntegerError(f"expected an integer{instead}")
    return int(value)


def queue(value: Any) -> str:
    if value is False:
        raise ValueError(
            "expected a name: to write no --partition, write sbatch: {partition: false}"
        )
    return plain(value)


AnyText = Annotated[Value, PlainValidator(scalar_text)]
ExpandableText = Annotated[Value, PlainValidator(expandable_text), ExpandedByNode()]
LiteralText = Annotated[str, BeforeValidator(literal_text)]
Plain = Annotated[str, BeforeValidator(plain), Only({**TEXT, "minLength": 1})]
Queue = Annotated[str, BeforeValidator(queue), Only({**TEXT, "minLength": 1})]
# Neither `$(pwd)` nor `$HOME` nor `~other/`: shell_idioms.py says what to write instead.
EXPANDABLE = r"(?!~[a-z_])(?!(?:[\s\S]*[^$])?\$(?:\(|[A-Z]{2}))"
PATH_PATTERN = rf"(?!-){EXPANDABLE}[^\x00-\x1f]+"
Script = Annotated[
    Value,
    PlainValidator(script),
    ExpandedByNode(),
    Only(text_like(rf"(?:{MODULE.pattern}|{PATH_PATTERN})")),
]
Path = Annotated[Value, PlainValidator(path), ExpandedByNode(), Only(text_like(PATH_PATTERN))]
SearchPath = Annotated[
    Value, PlainValidator(search_path), ExpandedByNode(), Only(text_like(PATH_PATTERN))
]
Venv = Annotated[
    Value,
    PlainValidator(venv),
    ExpandedByNode(),
    Only(text_like(rf"(?!.*/bin(?:/activate|/python3?)?$){PATH_PATTERN}")),
]
Interface = Annotated[str, BeforeValidator(interface), Only(text_like(_INTERFACE.pattern))]
UserName = Annotated[str, BeforeValidator(user_name), Only(text_like(_USER.pattern))]
Flag = Annotated[bool, BeforeValidator(flag)]
PackageName = Annotated[str, AfterValidator(package_name)]
PackageVersion = Annotated[
    str,
    BeforeValidator(package_version),
    Only(text_like(_VERSION.pattern)),
]
JobName = Annotated[
    str,
    BeforeValidator(job_name),
    Only(
        {
            "type": "string",
            "maxLength": MAX_NAME_BYTES,
            "pattern": r"^[^-/\s\x00-\x1f][^/\x00-\x1f]*$",
        },
        {"type": "number"},
    ),
]
TimeLimit = Annotated[
    str,
    BeforeValidator(time_limit),
    Only(
        {"type": "string", "pattern": r"^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$|^(UNLIMITED|INFINITE)$"},
        {"type": "integer", "minimum": 1},
    ),
]
EnvironmentName = Annotated[
    str, AfterValidator(environment_name), Only(text_like(rf"{NOT_RESERVED}[A-Za-z_][A-Za-z0-9_]*"))
]
ParameterName = Annotated[
    str, AfterValidator(parameter_name), Only(text_like(rf"{NOT_RESERVED}[A-Z][A-Z0-9_]*"))
]
OptionName = Annotated[str, AfterValidator(directive_name), Only(text_like(_OPTION.pattern))]
OptionValue = Annotated[
    str | bool, BeforeValidator(option_value), Only(FLAG, text_like(r"[^\x00-\x1f]*"))
]
ArgumentName = Annotated[str, AfterValidator(argument_name)]
ArgumentValue = Annotated[Value | bool | tuple[Value, ...], PlainValidator(argument)]
Count = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(integer)]
CountOrNone = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(integer)]
Budget = Annotated[int, Field(ge=0, le=1_000_000), BeforeValidator(integer)]
Port = Annotated[int, Field(ge=1, le=65_535), BeforeValidator(integer)]
Stage = Annotated[int, Field(ge=0, le=3), BeforeValidator(integer)]
Arguments = Annotated[
    Annotated[dict[ArgumentName, ArgumentValue], Tag("map")]
    | Annotated[tuple[AnyText, ...], Tag("list")],
    Discriminator(lambda value: "list" if isinstance(value, (list, tuple)) else "map"),
]


# ------------------------------------------------------------------ seconds
# Numbers of seconds in a spec: a time with a unit is refused with the number to write instead.


_WITH_UNIT = re.compile(
    r"([0-9]{1,6}) ?(?:(s)(?:ec(?:ond)?s?)?|(m)(?:in(?:ute)?s?)?|(h)(?:ours?|rs?)?|(d)(?:ays?)?)",
    re.ASCII | re.IGNORECASE,
)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _refuse_units(value: Any) -> Any:
    """`30m` and `00:30:00` are not read: elsewhere `30` means minutes to Slurm, here seconds."""
    if isinstance(value, str) and (seconds := _seconds_in(value.strip())) is not None:
        raise ValueError(f"{value!r} is not a number of seconds: write {seconds}")
    return value


def _seconds_in(text: str) -> int | None:
    if found := _WITH_UNIT.fullmatch(text):
        return int(found[1]) * _SECONDS[found[found.lastindex or 2].lower()]
    return seconds_of(text) if ":" in text else None


Seconds = Annotated[Count, BeforeValidator(_refuse_units)]


# ------------------------------------------------------------------ sizes
# Numbers of MiB, GiB or GB: a size with a unit is refused with the number to write instead.


_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([KMGT])(i?)(B?)(?:ytes)?", re.IGNORECASE)
_BYTES = {"MiB": 2**20, "GiB": 2**30, "GB": 10**9}


def size_in(unit: str) -> Callable[[Any], Any]:
    """Refuses `512GB` where a number of `unit` is expected. To Slurm, `512G` are GiB."""

    def check(value: Any) -> Any:
        found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
        if not found:
            return value
        power = "KMGT".index(found[2].upper()) + 1
        both = [round(float(found[1]) * base**power / _BYTES[unit]) for base in (1000, 1024)]
        exact, other = both if found[4] and not found[3] else reversed(both)
        binary = f"{found[1]} {found[2].upper()}iB"
        is_sure = found[3] or exact == other or unit == "GB"
        further = "" if is_sure or not found[4] else f", or {other} if it has {binary}"
        raise ValueError(
            f"{value!r} has a unit, and this key counts {unit}: write {exact}{further}"
        )

    return check


# ------------------------------------------------------------------ gpu count
# The number of GPUs in a spec, with or without Slurm's type of them: `4`, `a100:4`.


class Gpus(int):
    """A number of GPUs; `type` as in Slurm's Gres, "" if the spec names none."""

    type = ""


_TYPED_GPUS = re.compile(r"([A-Za-z][\w.-]*):([0-9]{1,6})", re.ASCII)


def gpus(value: Any, checked: ValidatorFunctionWrapHandler) -> Gpus:
    """`4`, or with Slurm's type of the GPUs, `a100:4`."""
    if value is False:
        raise ValueError(
            "expected a number: to request no GPUs from Slurm, write sbatch: {gpus-per-node: false}"
        )
    typed = _TYPED_GPUS.fullmatch(value) if isinstance(value, str) else None
    number = Gpus(checked(int(typed[2]) if typed else value))
    number.type = typed[1] if typed else ""
    return number


def gpu_type(number: int | None) -> str:
    """The type that `gpus_per_node` names, else ""."""
    return number.type if isinstance(number, Gpus) else ""


GpuCount = Annotated[
    CountOrNone, WrapValidator(gpus), Also({"type": "string", "pattern": "^[A-Za-z].*:[0-9]+$"})
]


# ------------------------------------------------------------------ commands
# The types of what a spec runs: commands, which are never code, and lines of bash.
# Nothing is expanded or executed.


_SHELL_SIGNS = re.compile(r"[|&;<>`]|\$\(")


def command(value: Any) -> tuple[Value, ...]:
    """A program with its arguments: a list, or text that is split as a shell splits it.

    Nothing in it is executed by a shell. Text with a pipe, a redirection or a substitution was
    probably meant as code, so it is refused.
    """
    if isinstance(value, list):
        words = tuple(scalar_text(item) for item in value)
    else:
        text = scalar_text(value)
        if sign := _SHELL_SIGNS.search(_without_quotes(show(text))):
            raise ValueError(
                f"{sign.group()!r} is shell code, and a command is only a program and arguments: "
                'put code under setup:, or write a list, [prog, "a;b"]'
            )
        try:
            words = tuple(split_text(text, shlex.split))
        except ValueError:
            raise ValueError("a quote is not closed: write a list, [prog, it's]") from None
    if not words or not words[0]:
        raise ValueError("the command is empty: write a program and its arguments, ./train --fast")
    _require_program(words[0])
    if key := _SHELL_FUNCTIONS.get(words[:2]) or _SHELL_FUNCTIONS.get(words[:1]):
        raise ValueError(f"{show(words[0])} is a function of a shell, not a program: write {key}")
    return words


# They would change the environment of a shell; a script has these functions only from its profile.
_SHELL_FUNCTIONS: dict[tuple[Value, ...], str] = {
    ("module",): "software: {modules: [NAME/VERSION]}",
    ("ml",): "software: {modules: [NAME/VERSION]}",
    ("conda", "activate"): "software: {conda: NAME}",
}


# Builtins that bash would run in the script's own process instead of a program of that name.
# `echo`, `printf`, `test`, `true`, `kill` and `pwd` exist as programs too, and do the same.
_BUILTINS = re.compile(
    "[.:]|alias|bg|bind|break|builtin|caller|cd|command|compgen|complete|compopt|continue|declare"
    "|dirs|disown|enable|eval|exec|exit|export|fc|fg|getopts|hash|help|history|jobs|let|local"
    "|logout|mapfile|popd|pushd|read|readarray|readonly|return|set|shift|shopt|source|suspend"
    "|times|trap|type|typeset|ulimit|umask|unalias|unset|wait"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def _require_program(program: Value) -> None:
    name = show(program)
    if _BUILTINS.fullmatch(name):
        raise ValueError(
            f"{name} is a shell builtin, not a program: put code under setup:, or write "
            '[bash, -c, "..."]'
        )
    if _ASSIGNMENT.match(name):
        raise ValueError(f"{name!r} is not a program: write [env, A=b, prog]")


def _without_quotes(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"|\\.", "", text)


_KINDS: dict[type, str] = {dict: "a mapping", list: "a list"}  # `- echo a: b` is a mapping


_NO_BLANK = re.compile(r"-([A-Za-z_]\w*)")  # `setup: -ulimit` is text, and no list


def lines_of_code(value: Any) -> tuple[str, ...]:
    """Lines of bash, the only code in a spec: a list of lines or one block of text."""
    lines = value if isinstance(value, list) else [value]
    for line in lines:
        if isinstance(line, Text):
            raise ValueError("code takes shell variables, not references: write $NAME")
        if not isinstance(line, str):
            found = _KINDS.get(type(line)) or as_text(line) or "nothing"
            raise ValueError(f"expected a line of bash, not {found}: quote it")
        if word := _NO_BLANK.match(line):
            raise ValueError(
                f"{word[0]!r} is no command: write a blank after the dash of a list, - {word[1]}"
            )
        if "\r" in line:
            raise ValueError("a carriage return in a line of bash: save the file with LF line ends")
    return tuple(text for line in lines for text in line.rstrip("\n").split("\n"))


# A program and arguments: quotes that are closed, and outside of them no code of a shell.
_PROGRAM = rf"(?!(?:{_BUILTINS.pattern}|module|ml)(?:\s|$)|[A-Za-z_]\w*\+?=)"
_UNQUOTED = r"[^|&;<>`'\"\\$]|\$(?!\()|\\[\s\S]|'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\""
_LINE = {"type": "string", "pattern": "^(?!-[A-Za-z_])"}
Command = Annotated[
    tuple[Value, ...],
    PlainValidator(command),
    Only(
        {**TEXTS, "minItems": 1, "prefixItems": [text_like(rf"{_PROGRAM}[\s\S]+")]},
        text_like(rf"\s*{_PROGRAM}(?=\S)(?:{_UNQUOTED})+"),
    ),
]
Code = Annotated[
    tuple[str, ...],
    BeforeValidator(lines_of_code),
    Only(_LINE, {"type": "array", "items": _LINE}),
]
