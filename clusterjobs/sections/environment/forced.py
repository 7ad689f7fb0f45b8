"""Reserved variables that a spec sets all the same, with `force: true` and a reason."""

from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.frameworks.base import TOKEN, Variable
from clusterjobs.sections.context import Context
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.environment import EnvValue, Forced, text_of
from clusterjobs.spec.known_references import NODE_RANK, OF_THE_RANKS
from clusterjobs.spec.reserved_names import FORCEABLE, FORCED_FOR_RANKS, RESERVED_NAMES
from clusterjobs.text import Text, Value, expanding, joined, show, variable_names
from clusterjobs.yaml.document import Path


def check_forced(context: Context) -> None:
    """Refuse reserved variables that are not forced, and those that cannot be forced here."""
    per_node = context.placement.per_node
    for name, given in context.spec.env.items():
        path, value = ("env", name), text_of(given)
        if not isinstance(given, Forced):
            if name in FORCEABLE:
                from clusterjobs.yaml.edit import scalar  # few specs set such a variable

                hint = f"{RESERVED_NAMES[name]}; to set it all the same, write {name}: "
                hint += f"{{value: {scalar(show(value) or '...')}, force: true, reason: why}}"
                context.problem(path, f"{name} is reserved", hint, at_key=True)
        elif name not in FORCEABLE:
            what = f"{name} is not reserved, so there is nothing to force"
            context.problem(path, what, f"write {name}: {show(value)}", at_key=True)
        elif per_node > 1 and name != "LD_PRELOAD":
            what = f"{per_node} points share a node, and each needs another {name}"
            context.problem(path, what, "remove it, or sweep.per_node", at_key=True)
        elif name in FORCED_FOR_RANKS and not context.launcher.runs_commands:
            what = f"{context.launcher.name} may start the ranks without this {name}"
            context.problem(path, what, "remove it, or choose another launcher", at_key=True)
        elif name == "MASTER_PORT" and not (isinstance(value, Text) or _is_port(value)):
            context.problem(path, f"{show(value)} is not a port", "write 1024 to 65535")
        else:
            context.record(f"env.{name}", show(value), f"forced: {given.reason}")


def _is_port(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) <= 5 and 0 < int(value) <= 65535


def forced_for_ranks(env: Mapping[str, EnvValue]) -> Mapping[str, Forced]:
    """The variables that the command of each rank sets."""
    return {
        name: value
        for name, value in env.items()
        if name in FORCED_FOR_RANKS and isinstance(value, Forced)
    }


# ------------------------------------------------------------------ node rank
# `{{ job.node_rank }}`: a placeholder that each node replaces by its own rank.
# The script's shell runs on the first node alone, so it cannot expand this reference. The variable
# CLUSTERJOBS_NODE_RANK has the text; the first lines of a rank's shell (blocks/inside.sh.j2)
# replace it in the command, whatever else the command contains.


_STANDS_FOR_IT = Variable(
    NODE_RANK, joined("node-rank-", TOKEN), "placeholder: each node replaces it by its rank"
)


def plan_node_rank(context: Context) -> tuple[Variable, ...]:
    """The variable, if the spec refers to the node's rank."""
    spec = context.spec
    role = getattr(context.launcher_options, "role", None)
    places = [*_places_in(spec), *_places(role, (context.launcher.name, "role"))]
    if places and not context.launcher.sets_node_rank:
        context.problem(
            places[0],
            f"{context.launcher.name} starts the ranks of all nodes with the same command, so "
            "it cannot set job.node_rank",
            "write launcher: srun or torchrun, or read the node's rank in your program",
        )
    if spec.command and NODE_RANK in variable_names(spec.command[0]):
        context.problem(
            ("command",),
            "job.node_rank cannot be used in the path of the program: "
            "the first node checks that the file exists",
            "pass it as an argument: [./run, '{{ job.node_rank }}']",
        )
    return (_STANDS_FOR_IT,) if places else ()


def refers_to_node_rank(spec: Experiment) -> bool:
    """Whether something that the ranks use refers to the node's rank."""
    return bool(_places_in(spec))


def is_of_the_node(value: EnvValue) -> bool:
    """Whether a value contains the node's rank."""
    return NODE_RANK in variable_names(text_of(value))


def node_environment(env: Mapping[str, EnvValue]) -> tuple[Value, ...]:
    """A command that sets those variables of `env` that each rank gets from its own command.

    They differ from node to node, or would be changed by Slurm on the way. () without any.
    """
    forced = forced_for_ranks(env)
    words = [
        joined(name, "=", expanding(text_of(value), ""))
        for name, value in env.items()
        if name in forced or is_of_the_node(value)
    ]
    return ("env", *words) if words else ()


def _places_in(spec: Experiment) -> list[Path]:
    return [place for key in OF_THE_RANKS for place in _places(getattr(spec, key), (key,))]


def _places(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, (Text, Forced)) and is_of_the_node(value):
        yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))
