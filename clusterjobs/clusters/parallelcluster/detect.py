"""Detects whether a file is a ParallelCluster 3 config, and where the config is in it.

It recognizes other files, too: a ParallelCluster 2 config, a spec, a CloudFormation template
around a config.
"""

import dataclasses
import re
import shlex
from collections.abc import Iterator
from typing import Any

from clusterjobs.clusters.source import IMPORT_HINT, find_slurm_lines
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.yaml.document import Document, Path, load
from clusterjobs.yaml.syntax import location_at

# ------------------------------------------------------------------ coerce
# Reads single values of any config; a value that cannot be read is unknown (None).
# Nothing here raises.


# `<subnet>`, `${SUBNET}`, `{{ subnet }}`, and CloudFormation's `!Ref Subnet` as yaml_source
# passes it on. `{SUBNET}` is a YAML mapping, and therefore unknown.
_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{|\$\(|\{\{|\A!|\A[@%]")

_TRUE = frozenset(("true", "yes", "on", "t", "y", "1"))
_FALSE = frozenset(("false", "no", "off", "f", "n", "0"))


def at(value: Any, *keys: str) -> Any:
    """The value in nested mappings; None if one of them is missing or is not a mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def items(value: Any) -> list[Any]:
    """The list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Text that is not a placeholder; a number (`CapacityType: 1`) becomes text."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    known = str(value)
    return known if known.strip() and not _PLACEHOLDER.search(known) else None


def placeholder(value: Any) -> str:
    """The placeholder that was not filled in, `${TYPE}` or `{TYPE}`; "" if there is none."""
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        return f"{{{next(iter(value))}}}"
    written = value.strip() if isinstance(value, str) and text(value) is None else ""
    return re.sub(r"\A< (.+) >\Z", r"{{ \1 }}", written)  # as `mask_placeholders` leaves it


def number(value: Any) -> int | None:
    """An integer, also as text: marshmallow's Int accepts "4"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    known = text(value)
    return int(known) if known and re.fullmatch(r"\s*-?[0-9]{1,12}\s*", known) else None


def truth(value: Any) -> bool | None:
    """True or false, also as the words and numbers that marshmallow's Bool accepts."""
    known = str(value).strip().lower()
    return True if known in _TRUE else False if known in _FALSE else None


# ------------------------------------------------------------------ text that is no YAML yet

# `{% for ... %}`, and a line of envsubst that several lines are put in place of: `${NODES}`.
_TEMPLATE_LINE = re.compile(r"(?m)^([ \t]*)(?:\{(?=%)|\$(?=\{))(%.*%\}[ \t]*|\{\w+\}[ \t]*)$")
_BARE_VALUE = re.compile(
    r"""(?m)^(?P<key>[ \t]*(?:-[ \t]+)*(?:[\w.-]+:[ \t]+)?)   # indentation, dash, key
        (?P<value>(?:\{\{|(?<=[ \t])[@%])[^\n\#]*?)           # {{ SUBNET }}, @SUBNET@, %SUBNET%
        (?P<rest>[ \t]*(?:\#.*)?)$""",
    re.VERBOSE,
)


def bare_references(source: str) -> list[tuple[int, str]]:
    """Unquoted values that start with `{{`, which YAML takes for a mapping: index and text."""
    found = _BARE_VALUE.finditer(source)
    return [(m.start("value"), m["value"]) for m in found if m["value"].startswith("{{")]


# A shell command that was copied with the config, or the end of a here-document.
_SHELL_LINE = re.compile(
    r"""(?m)^(?:\$[ ])?
        (?:(?:pcluster|aws|cat|sed|envsubst|echo|export|source|sudo)[ \t]
           [^:\n]*(?::[^ \n][^\n]*)?    # no `key: value`, but an ARN or a URL
        |EOF|EOT|EOL|END)[ \t]*$""",
    re.VERBOSE,
)


def shell_lines(source: str) -> list[tuple[int, str]]:
    """Lines of a shell at the left margin: index and text."""
    return [(found.start(), found[0]) for found in _SHELL_LINE.finditer(source)]


def template_lines(source: str) -> list[tuple[int, str]]:
    """Lines of a template, `{% for ... %}` or `${NODES}`: index and text."""
    found = [(match.start(), match[0]) for match in _TEMPLATE_LINE.finditer(source)]
    if any("$" in line for _, line in found) and _is_yaml(source):
        return [one for one in found if "$" not in one[1]]  # in a text of several lines
    return found


def _is_yaml(source: str) -> bool:
    try:
        load(source, "", rules="1.1")
    except InputError:
        return False
    return True


# `{MountDir: ${MOUNT}}`: in a flow, YAML takes its braces for a mapping
_FLOW_VALUE = re.compile(r"(?<=[ \t,\[])\$\{\w+\}(?=[ \t]*[,\]}])")


def bare_placeholders(source: str) -> list[tuple[int, str]]:
    """Unquoted placeholders that YAML cannot read: index and text."""
    found = [(m.start("value"), m["value"]) for m in _BARE_VALUE.finditer(source)]
    found += [(m.start(), m[0]) for m in _FLOW_VALUE.finditer(source)]
    return sorted([*found, *template_lines(source)])


def mask_placeholders(source: str) -> str:
    """The text with unquoted placeholders quoted, so that the rest can be read as YAML.

    Every character keeps its index: a quote takes the place of the first and last of each
    placeholder, whose own text does not matter. Lines of templates and shells become comments.
    """
    source = _TEMPLATE_LINE.sub(r"\1#\2", source)
    source = _SHELL_LINE.sub(lambda m: "#" + m[0][1:], source)
    source = _FLOW_VALUE.sub(lambda m: _quoted(m[0]), source)
    return _BARE_VALUE.sub(lambda m: m["key"] + _quoted(m["value"]) + m["rest"], source)


def _quoted(value: str) -> str:
    return "'<" + re.sub(r"['<>]", "_", value[2:-2]) + ">'" if len(value) > 3 else value


_VERSION_2 = re.compile(r"(?m)^\[(aws|global|aliases|cluster [^\]]+|vpc [^\]]+)\]\s*$")
_EXPERIMENT_KEYS = frozenset(("framework", "script", "gpus_per_node", "launcher", "cluster"))
_WHAT_IT_IS = (
    "a ParallelCluster 3 config has Scheduling: with SlurmQueues:; "
    "a description of another Slurm cluster has kind: slurm"
)


def load_config(source: str, file: str) -> Document:
    """Read the YAML by the rules of ParallelCluster's own reader.

    If unquoted placeholders (`SubnetId: {{ SUBNET }}`) make it invalid, it is read without them.
    Raises InputError, also for an unquoted `{{ site.x }}`, which must be quoted.
    """
    if found := _VERSION_2.search(source):
        where = location_at(source, file, found.start(), found.end() - found.start())
        raise one_problem("a ParallelCluster 2 config", where, hint=_VERSION_2_HINT)
    if found := find_slurm_lines(source):
        where = location_at(source, file, found.start(), len(found[0]))
        hint = IMPORT_HINT.format(shlex.quote(file))
        raise one_problem("a file of Slurm, not a cluster's config", where, hint=hint)
    try:
        return load(source, file, rules="1.1")
    except InputError as error:
        masked = mask_placeholders(source)
        problems = [
            Problem(
                "YAML takes {{ }} without quotes for a mapping",
                location_at(source, file, index, len(value)),
                hint=f'quote it: "{value}"',
            )
            for index, value in bare_references(source)
            if re.match(r"\{\{\s*site\.", value)
        ]
        if problems:
            raise InputError(problems) from None
        if masked == source:
            raise
        return _load_masked(masked, source, file, error)


_VERSION_2_HINT = "pcluster3-config-converter, which comes with ParallelCluster 3, converts it"


def _load_masked(masked: str, source: str, file: str, error: InputError) -> Document:
    """The document of the masked text, with the original text: positions are the same."""
    try:
        return dataclasses.replace(load(masked, file, rules="1.1"), text=source)
    except InputError:
        raise error from None


def find_config(document: Document) -> Path:
    """The config's path in the file, usually (). Raises InputError if there is no config."""
    value = document.value
    if value is None:
        raise one_problem("the file is empty", document.locate(()), hint=_WHAT_IT_IS)
    path = _search(value, ())
    if path is None:
        raise InputError([_why_not(document)])
    _refuse_other_schedulers(document, path)
    return path


def _search(value: Any, path: Path) -> Path | None:
    """The path of the outermost mapping with queues."""
    if isinstance(value, dict):
        if _has_queues(at(value, "Scheduling")):
            return path
        children: list[tuple[str | int, Any]] = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return None
    searched = (_search(child, (*path, step)) for step, child in children)
    return next((found for found in searched if found is not None), None)


def _has_queues(scheduling: Any) -> bool:
    return isinstance(scheduling, dict) and (
        "SlurmQueues" in scheduling or "AwsBatchQueues" in scheduling
    )


def _refuse_other_schedulers(document: Document, path: Path) -> None:
    scheduling = (*path, "Scheduling")
    data = document.value
    for key in scheduling:
        data = data[key]
    if "SlurmQueues" not in data:
        where = document.locate_key((*scheduling, "AwsBatchQueues"))
        what = "the scheduler of this cluster is AWS Batch, and jobs are rendered for Slurm"
        raise one_problem(what, where, "Scheduling.AwsBatchQueues", hint=_WHAT_IT_IS)


def _why_not(document: Document) -> Problem:
    value = document.value
    if isinstance(value, dict) and "Scheduling" in value:
        where = document.locate_key(("Scheduling",))
        return Problem("Scheduling has no SlurmQueues", where, "Scheduling", hint=_WHAT_IT_IS)
    if inner := _text_of_a_config(value, ()):
        what = "the config is a text inside another file"
        hint = "save that text in a file of its own"
        return Problem(what, document.locate_key(inner), ".".join(map(str, inner)), hint)
    where = document.locate(())
    if isinstance(value, dict) and len(_EXPERIMENT_KEYS & value.keys()) > 1:
        return Problem(
            "an experiment, not a ParallelCluster config",
            where,
            hint="an experiment names its cluster's config with cluster:",
        )
    return Problem("not a ParallelCluster 3 config", where, hint=_WHAT_IT_IS)


def _text_of_a_config(value: Any, path: Path) -> Path | None:
    """The path of a scalar that contains a whole config, as after CloudFormation's `!Sub |`."""
    if isinstance(value, str):
        is_config = re.search(r"(?m)^Scheduling:\s*$", value) and "SlurmQueues:" in value
        return path if is_config else None
    children = value.items() if isinstance(value, dict) else enumerate(items(value))
    searched = (_text_of_a_config(child, (*path, step)) for step, child in children)
    return next((found for found in searched if found is not None), None)


# ------------------------------------------------------------------ placeholders
# Finds placeholders of templates that nobody filled in: `${SUBNET}`, `<your subnet>`, `{SUBNET}`.
# `{{ site.x }}` is no placeholder: `site_values.py` replaces it.


_UNFILLED = re.compile(
    r"<[^<>]+>|\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]\w*|\A![A-Za-z]|\A[@%]\w+[@%]"
    r"|(?i:\byour[-_]\w+|\bchange[-_]?me\b|\breplace[-_]?(?:me\b|with)|-x{4,}\b|-xx(?:-xx)+\b)"
)
# Arguments of scripts and JSON of Chef may contain such characters themselves.
_CODE = ("Args", "ExtraChefAttributes", "CustomSlurmSettings")


def unfilled(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The path of each placeholder in the config's data, and its text, shortened."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in children:
        here = (*path, key)
        if function := cloudformation_function(inner):
            yield here, function
        elif isinstance(inner, str):
            found = None if key in _CODE else _UNFILLED.search(inner)
            if found:
                yield here, inner if len(inner) < 40 else found[0]
        elif _is_braces(inner):
            yield here, f"{{{next(iter(inner))}}}"
        elif isinstance(inner, (dict, list)) and key not in _CODE:
            yield from unfilled(inner, here)


def cloudformation_function(value: Any) -> str:
    """`Fn::FindInMap` or `Ref`, if CloudFormation is to replace the value; else ""."""
    name = str(next(iter(value))) if isinstance(value, dict) and len(value) == 1 else ""
    return name if name.startswith("Fn::") or name == "Ref" else ""


def _is_braces(value: Any) -> bool:
    """`{SUBNET}` without quotes is a YAML mapping of one key without a value."""
    if not (isinstance(value, dict) and len(value) == 1 and None in value.values()):
        return False
    name = str(next(iter(value)))
    return name.isupper() or "_" in name
