"""The environment of the ranks: software, variables, secrets.

A variable under `env:` can be forced, which sets a reserved one on purpose:
`CUDA_VISIBLE_DEVICES: {value: "0,1", force: true, reason: one rank uses two GPUs}`.
"""

import functools
import re
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    model_validator,
)

from clusterjobs.spec import field_types
from clusterjobs.spec import field_types as commands
from clusterjobs.spec.field_types import plain
from clusterjobs.spec.keys.container import Container
from clusterjobs.spec.model import (
    NULL,
    TEXT,
    Also,
    ExpandedByNode,
    Key,
    Only,
    SpecModel,
    text_like,
)
from clusterjobs.spec.references import nodes_in_range
from clusterjobs.spec.reserved_names import FORCEABLE, NOT_RESERVED, environment_name
from clusterjobs.text import Value

# No `from __future__ import annotations`: pydantic would have to parse each annotation at start.

_EXAMPLE = '{value: "0,1", force: true, reason: why}'


class Forced(NamedTuple):
    """The value of a reserved variable that the spec sets all the same, and why."""

    value: Value
    reason: str


class SiteValue(NamedTuple):
    """The value of a variable that the cluster sets for its jobs, and why."""

    value: Value
    reason: str


def text_of(value: Value | Forced | SiteValue) -> Value:
    """The value alone."""
    return value.value if isinstance(value, (Forced, SiteValue)) else value


def _value(value: Any) -> Value | Forced:
    if not isinstance(value, dict):
        return field_types.expandable_text(value)
    if unknown := sorted(map(str, value.keys() - {"value", "force", "reason"})):
        raise ValueError(f"unknown key {unknown[0]}: write {_EXAMPLE}")
    if value.get("force") is not True:
        raise ValueError("expected text, or a value that is forced: write " + _EXAMPLE)
    for key in ("value", "reason"):
        if value.get(key) in (None, ""):
            raise ValueError(f"{key} is missing: write {_EXAMPLE}")
    reason = field_types.plain(value["reason"])
    if bad := field_types.first_control_character(reason):
        raise ValueError(f"the reason contains {bad}: write it in one line")
    return Forced(field_types.expandable_text(value["value"]), reason)


def _name(value: str) -> str:
    """Names that may be forced pass: the plan refuses them if they are not."""
    return value if value in FORCEABLE else environment_name(value)


EnvName = Annotated[
    str,
    AfterValidator(_name),
    Only(text_like(rf"{'|'.join(FORCEABLE)}|{NOT_RESERVED}[A-Za-z_][A-Za-z0-9_]*")),
]
EnvValue: TypeAlias = Annotated[
    Value | Forced | SiteValue,
    PlainValidator(_value),
    ExpandedByNode(),
    PlainSerializer(text_of, return_type=Any),
    Also(
        {
            "type": "object",
            "properties": {"value": TEXT, "force": {"const": True}, "reason": TEXT},
            "required": ["value", "force", "reason"],
            "additionalProperties": False,
        }
    ),
]


# ------------------------------------------------------------------ module items
# The items of `software.modules`: names to load, and other commands of `module`.


# A command -> how many names may follow it, the rule in words, and an example.
COMMANDS: dict[str, tuple[range, str, str]] = {
    "purge": (range(1), "takes no name", "purge"),
    "--force purge": (range(1), "takes no name", "--force purge"),
    "reset": (range(1), "takes no name", "reset"),
    "restore": (range(2), "takes at most one name", "restore my-modules"),
    "use": (range(1, 10), "needs a folder", "use /opt/modulefiles"),
    "unload": (range(1, 10), "needs a name", "unload gcc"),
    "swap": (range(1, 3), "needs one or two names", "swap gcc/12 gcc/13"),
}
_TYPED = re.compile("(?:(?:module|ml|load) +)+")  # as in a shell
_NAME = re.compile(r"[\w@%+=,./][\w@%+=:,./~^()-]*")


def command_and_names(item: str) -> tuple[str, tuple[str, ...]]:
    """`use /a` -> ("use", ("/a",)); a name alone is loaded."""
    for command in COMMANDS:
        if item == command or item.startswith(f"{command} "):
            return command, tuple(item.removeprefix(command).split())
    return "load", (item,)


def module_item(value: Any) -> str:
    """The name of a module file, or one of COMMANDS.

    Old module commands pass names to a shell unquoted.
    """
    text = plain(value)
    if typed := _TYPED.match(text):
        raise ValueError(f"not a module name: write {text[typed.end() :]}")
    command, names = command_and_names(text)
    if command in COMMANDS:
        numbers, rule, example = COMMANDS[command]
        if len(names) not in numbers:
            raise ValueError(f"{command} {rule}: for example {example}")
    if not all(map(_NAME.fullmatch, names)):
        raise ValueError("not a module name: remove spaces, quotes and other shell characters")
    return text


ModuleItem = Annotated[
    str,
    BeforeValidator(module_item),
    Only(
        text_like(
            rf"{_NAME.pattern}|(?:--force purge|restore|use|unload|swap)(?: +{_NAME.pattern})*"
        )
    ),
]


# ------------------------------------------------------------------ limits

# Name in limits.conf and of Slurm's RLIMIT_ -> the option of bash's `ulimit`. Sizes are KiB.
LIMITS = {
    "as": "v",
    "core": "c",
    "cpu": "t",
    "data": "d",
    "fsize": "f",
    "memlock": "l",
    "nofile": "n",
    "nproc": "u",
    "stack": "s",
}
NOT_IN_KIB = ("cpu", "nofile", "nproc")  # seconds and numbers
_MAX_LIMIT = 2**40


def limit_name(name: str) -> str:
    if name not in LIMITS:
        option = name.lstrip("-")
        meant = next((one for one, letter in LIMITS.items() if letter == option), "")
        valid = f"write {meant}" if meant else f"valid: {', '.join(LIMITS)}"
        raise ValueError(f"no limit {name}: {valid}")
    return name


def limit(value: Any) -> str:
    """`unlimited`, or a number in the unit of `ulimit`."""
    if value == "unlimited":
        return "unlimited"
    number = field_types.integer(value)
    if not 0 <= number <= _MAX_LIMIT:
        raise ValueError(f"expected unlimited, or a number from 0 to {_MAX_LIMIT}")
    return str(number)


LimitName = Annotated[str, AfterValidator(limit_name), Only({"enum": [*LIMITS]})]
Limit = Annotated[
    str,
    BeforeValidator(limit),
    Only({"const": "unlimited"}, {"type": "integer", "minimum": 0, "maximum": _MAX_LIMIT}),
]


# ------------------------------------------------------------------ keys


class Software(SpecModel):
    """The software environment of the job: module files first, then conda or a venv."""

    venv: Annotated[
        field_types.Venv | None,
        Key(
            "the folder of a venv; with a container, inside it",
            "/fsx/venvs/torch",
            also_called=("virtualenv", "virtual_env"),
        ),
    ] = None
    conda: Annotated[
        field_types.Path | None,
        Key(
            "the folder of a conda environment",
            "/fsx/conda/torch",
            also_called=("conda_env", "conda_environment"),
        ),
    ] = None
    modules: Annotated[
        tuple[ModuleItem, ...],
        Key(
            "module files to load, `purge`, `reset`, `restore my-modules`, "
            "`use /opt/modulefiles`, `unload gcc`, "
            "`swap gcc/12 gcc/13`",
            "[purge, cuda/12.4]",
            adds_to="items",
            also_called=("module", "module_load"),
        ),
    ] = ()
    source: Annotated[
        tuple[field_types.Path, ...],
        Key(
            "files of bash that are read before the job changes to `workdir`",
            "[/etc/profile.d/site.sh]",
            adds_to="items",
            see="#files-of-bash",
        ),
    ] = ()
    setup: Annotated[
        commands.Code,
        Key("lines of bash", "[ulimit -n 65536]", adds_to="lines", references="none"),
    ] = ()
    requires: Annotated[
        dict[field_types.PackageName, field_types.PackageVersion],
        Key(
            "Python packages and the versions, or their beginnings, that the preflight checks. "
            "The version of torch also selects the names of the flight recorder's variables, since "
            "newer versions warn about the old names",
            '{torch: "2.6"}',
        ),
    ] = {}
    container: Annotated[
        Container | None,
        Key(
            "the image that the ranks run in",
            "{runtime: pyxis, image: /fsx/images/pytorch.sqsh}",
            see="containers.md",
        ),
    ] = None


class Secret(SpecModel):
    """The place where the job takes a secret's value from; by default, the environment."""

    file: Annotated[
        field_types.Path | None,
        Key(
            "a file with the value",
            '"${HOME}/.hf_token"',
            default_is="the environment of sbatch",
            excludes=("command",),
        ),
    ] = None
    command: Annotated[
        commands.Command | None,
        Key("a command that prints the value", "[pass, show, hf]"),
    ] = None


_COMPUTED = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,60}", re.ASCII)


def _computed_name(value: str) -> str:
    if not _COMPUTED.fullmatch(value):
        raise ValueError("a value's name has letters, digits and _, and starts with a letter")
    return value


ComputedName: TypeAlias = Annotated[
    str, AfterValidator(_computed_name), Only(text_like(_COMPUTED.pattern))
]


def _range_of_nodes(value: str) -> str:
    if not nodes_in_range(value):
        raise ValueError(f"{value!r} is no number of nodes: write 4, 2-7, or 8- for 8 and more")
    return value


class Computed(SpecModel):
    """A value that a command prints on the first node before the ranks start, or one of a table."""

    command: Annotated[
        commands.Command | None,
        Key("a command that prints the value", "[yq, .steps, config.yaml]"),
    ] = None
    by_nodes: Annotated[
        dict[
            Annotated[str, AfterValidator(_range_of_nodes), Only(text_like("[0-9]+(?:-[0-9]*)?"))],
            field_types.AnyText | None,
        ],
        Key(
            "the value for each number of nodes, `4`, `2-7` or `8-`: the first that fits; `null` "
            "leaves out the key that has it",
            "{1: 3e-4, 2-7: 2e-4, 8-: 1e-4}",
            excludes=("command",),
        ),
    ] = {}

    @model_validator(mode="after")
    def _has_one(self) -> "Computed":
        if bool(self.command) == bool(self.by_nodes):
            raise ValueError("a value has one source: write command: [...], or by_nodes: {...}")
        return self


_VARIABLE = text_like(rf"{NOT_RESERVED}[A-Za-z_][A-Za-z0-9_]*")


def _secrets(value: Any) -> Any:
    """A list of names, or a mapping; a name without a value is like a name in the list."""
    if isinstance(value, dict):
        return {name: {} if item is None else item for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if any(isinstance(name, (dict, list)) for name in value):
        raise ValueError("expected a list of names: write [A_KEY], or {A_KEY: {file: /path}}")
    return {name: {} for name in value}


class EnvironmentKeys:
    """The software and the variables of the ranks."""

    software: Annotated[
        Software,
        Key(
            "the environment of the ranks, made in this order: `source`, `modules`, `setup`, then "
            "`conda` or `venv`. Or a `container`",
            "{venv: /fsx/venvs/torch}",
            schedules=False,
            default_is="the shell's own",
            belongs_with=("launch", "nodes"),
            is_section=True,
            beside={
                "container": "software: "
                "{container: {runtime: pyxis, image: /fsx/images/pytorch.sqsh}}"
            },
        ),
    ] = Field(default_factory=functools.cache(Software))
    setup: Annotated[
        commands.Code,
        Key(
            "lines of bash that run before the launch",
            "[ulimit -l unlimited]",
            schedules=False,
            adds_to="lines",
            references="none",
        ),
    ] = ()
    ulimit: Annotated[
        dict[LimitName, Limit],
        Key(
            f"limits of the ranks: {', '.join(f'`{one}`' for one in LIMITS)}; `unlimited`, or a "
            "number as for `ulimit`: sizes in KiB, `cpu` in seconds",
            "{memlock: unlimited, stack: 8192}",
            schedules=False,
            see="#limits",
        ),
    ] = {}
    env: Annotated[
        dict[EnvName, EnvValue],
        Key(
            "environment variables of the ranks; `{value: ..., force: true, reason: ...}` for a "
            "[reserved one](#reserved-variables)",
            "{NCCL_DEBUG: INFO}",
            schedules=False,
            belongs_with=("variables",),
            references="ranks",
            instead_of={"export": "env: {NAME: value}"},
            also_called=("environment", "env_vars", "environment_variables"),
        ),
    ] = {}
    values: Annotated[
        dict[ComputedName, Computed],
        Key(
            "values for `{{ values.NAME }}`, which a command prints when the job runs, or which "
            "follow from the number of nodes: names, each with one of the keys below",
            "{steps: {command: [python3, count_steps.py]}}",
            schedules=False,
            allows_null=True,
            see="#values-that-a-command-prints",
        ),
    ] = {}
    secrets: Annotated[
        dict[field_types.EnvironmentName, Annotated[Secret, Also(NULL)]],
        BeforeValidator(_secrets),
        Also({"type": "array", "items": _VARIABLE}),
        Key(
            "names of variables whose values are read when the job runs: a list, or names with the "
            "keys below",
            "[WANDB_API_KEY]",
            schedules=False,
            belongs_with=("variables",),
            allows_null=True,
            see="#secrets",
        ),
    ] = {}
