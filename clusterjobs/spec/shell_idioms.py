"""What a shell would expand in a value and clusterjobs does not, with what to write instead.

Paths and `env` refuse it: text.expanding() has what they expand. Arguments are passed on as they
are, with a warning, because programs give such text a meaning of their own, as Hydra does. So are
`commands` in backticks, everywhere: no other spelling would stand for them.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from clusterjobs.spec.reserved_names import RESERVED_NAMES, USEFUL_NAMES, is_of_the_script
from clusterjobs.text import IN_CAPITALS, NODE_VARIABLE, Value, literals

_IDIOM = re.compile(
    r"(?P<command>\$\([^()]*\)?)|(?P<backticks>`[^`\n]+`)"
    r"|(?P<braces>\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}?)"
    rf"|(?P<bare>\${IN_CAPITALS})"
    r"|(?P<user>(?:\A|(?<=[:=]))~[a-z_][\w-]*/)"
    r"|(?P<home>\A~(?=/|\Z)|(?<=[:=])~(?=/))"
)
_OPERATION = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)(?:(?P<sign>:?[-+?=])(?P<rest>[^{}]*)|)\}")
_PRINTED = {"pwd": "PWD", "hostname": "SLURMD_NODENAME", "whoami": "USER", "id -un": "USER"}


class Idiom(NamedTuple):
    """`found` in a value, and what to write `instead`."""

    found: str
    instead: str


def not_expanded(value: Value) -> Idiom | None:
    """The first idiom of a path, or of a variable's value, that the node does not expand.

    Not `command`, which cannot be written in another way.
    """
    for index, text in enumerate(literals(value)):
        others = NODE_VARIABLE.sub(lambda one: "x" * len(one[0]), text)
        for found in _IDIOM.finditer(others):
            is_expanded = found["home"] and found.start() == index == 0
            if not (is_expanded or found["backticks"]):
                escaped = f", or ${found[0]} for that text itself" if found[0][0] == "$" else ""
                return Idiom(found[0], _instead(found, _in_braces) + escaped)
    return None


def passed_on(value: Value) -> Idiom | None:
    """The first idiom of an argument: the program gets it as it is."""
    for text in literals(value):
        if found := _IDIOM.search(text):
            return Idiom(found[0], _instead(found, _as_reference))
    return None


def _instead(found: re.Match[str], written: Callable[[str, str | None], str]) -> str:
    """`written`: how a variable, with or without a default, is written in this place."""
    if found["user"]:
        return "write the path of that home folder"
    if found["home"]:
        return f"write {written('HOME', None)}"
    if found["bare"]:
        return f"write {written(found[0][1:], None)}"
    if name := _PRINTED.get(found[0].strip("$()`").strip()):
        return f"write {written(name, None)}"
    operation = _OPERATION.fullmatch(found[0])
    if operation is None:
        return f"run it in setup: ['export NAME={found[0]}'], and write {written('NAME', None)}"
    name, sign, rest = operation.group("name", "sign", "rest")
    if sign in (None, ":?", "?"):
        return f"write {_as_reference(name, None)}"
    if "+" not in sign:
        return f"write {written(name, rest)}"
    before, after = rest.startswith(":"), rest.endswith(":")  # of a search path
    return f"write {':' * before}{written(name, '')}{':' * after}"


def _in_braces(name: str, default: str | None) -> str:
    return f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"


# What references call the variables of Slurm.
_OF_THE_JOB = {
    "SLURM_JOB_ID": "job.id",
    "SLURM_JOBID": "job.id",
    "SLURM_ARRAY_TASK_ID": "job.array_index",
    "SLURM_NODEID": "job.node_rank",
}


def _as_reference(name: str, default: str | None) -> str:
    if known := _OF_THE_JOB.get(name):
        return f"{{{{ {known} }}}}"
    is_reserved = name in RESERVED_NAMES and name not in USEFUL_NAMES
    if is_reserved or is_of_the_script(name) or name.startswith("PYTHON"):
        return f"[bash, -c, '...'] with ${name} in the code"
    otherwise = "" if default is None else f" | default('{default}')"
    return f"{{{{ env.{name}{otherwise} }}}}"
