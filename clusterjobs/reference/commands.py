"""clusterjobs explain, schema and completion."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import click
from click.shell_completion import get_completion_class

from clusterjobs.clusters.described.description import Description
from clusterjobs.console import json_option, print_json, table
from clusterjobs.errors import did_you_mean, one_problem
from clusterjobs.reference.complete import completed_keys, typed_path
from clusterjobs.reference.keys import Documented, all_keys, keys_of
from clusterjobs.reference.schema import (
    Schema,
    answer_schema,
    file_schema,
    plain_text,
    spec_schema,
    value_in_words,
)
from clusterjobs.runs.answers import ANSWERS
from clusterjobs.sites.policy import Policy
from clusterjobs.sites.prices import SitePrices
from clusterjobs.spec.model import SpecModel

# The files beside a spec whose keys are known.
_MODELS: dict[str, type[SpecModel]] = {
    "site": SitePrices,
    "policy": Policy,
    "cluster": Description,
}
_EXPLAIN_EXAMPLES = """\b
Examples:
  clusterjobs explain
  clusterjobs explain batch
  clusterjobs explain batch.micro
  clusterjobs explain data.source --json
  clusterjobs explain --of cluster memory_mib
"""
_COMPLETION_EXAMPLES = """\b
Examples:
  clusterjobs completion bash >> ~/.bashrc
  clusterjobs completion zsh >> ~/.zshrc
  clusterjobs completion fish > ~/.config/fish/completions/clusterjobs.fish
"""
_SCHEMA_EXAMPLES = """\b
Examples:
  clusterjobs schema > clusterjobs.schema.json
  clusterjobs schema --of policy > policy.schema.json

The first line of a spec then names it:
  # yaml-language-server: $schema=clusterjobs.schema.json
"""


@click.command(epilog=_EXPLAIN_EXAMPLES)
@click.argument("key", default="", shell_complete=completed_keys)
@click.option(
    "--of",
    "what",
    type=click.Choice(["spec", *_MODELS]),
    default="spec",
    show_default=True,
    help="The file that has KEY: a spec, site.yaml, policy.yaml, or the description of a Slurm "
    "cluster.",
)
@json_option
def explain(key: str, what: str, as_json: bool) -> None:
    """Explain KEY of a spec, or of --of: its meaning, default, example, and the keys below it.

    Without KEY, list all keys at the top of the file.
    """
    found = _below(key, all_keys() if what == "spec" else tuple(keys_of(_MODELS[what])))
    if as_json:
        print_json([_data(one) for one in found])
    elif key:
        click.echo("\n".join(_lines(found)))
    else:
        click.echo(_list(one for one in found if "." not in one.path))


def _below(key: str, keys: tuple[Documented, ...]) -> list[Documented]:
    """The key, and those below it; all keys for "". Raises InputError for an unknown key.

    The last part of a path is enough if there is no such key at the top: all keys that have it.
    """
    wanted = re.sub(r"\[\d*\]|\.\d+(?=\.|$)", "", key.strip())
    if not wanted:
        return list(keys)
    patterns = {one.path: _pattern(one.path) for one in keys}
    own = [path for path in patterns if re.fullmatch(patterns[path], wanted)]
    own = own or [path for path in patterns if path.endswith(f".{wanted}")]
    if not own:
        known = [*map(typed_path, keys)]
        last = f".{wanted}".rpartition(".")[2]
        other = next((of for of, model in _MODELS.items() if last in _last_steps(model)), "")
        hint = f"clusterjobs explain --of {other} {last}" if other else did_you_mean(wanted, known)
        raise one_problem(f"unknown key {key}", None, hint=hint)
    below = tuple(f"{path}{sign}" for path in own for sign in ".[")
    return [one for one in keys if one.path in own or one.path.startswith(below)]


def _last_steps(model: type[SpecModel]) -> set[str]:
    return {one.path.rpartition(".")[2] for one in keys_of(model)}


def _pattern(path: str) -> str:
    """What people type for a key: with or without indexes, and with any name for NAME."""
    return re.escape(path.replace("[]", "")).replace(r"\.NAME", r"(?:\.[^.]+)?")


def _lines(found: list[Documented]) -> Iterable[str]:
    own, below = found[0], found[1:]
    yield from (f"{label:<9}{text}" for label, text in _facts(own) if text)
    if below:
        yield ""
        yield "keys below it"
        yield _list(below)


def _facts(one: Documented) -> Iterable[tuple[str, str]]:
    key = one.key
    yield "key", one.path
    yield "value", _value(one)
    yield "meaning", plain_text(key.doc) + (f" ({key.unit})" if key.unit else "")
    yield "default", plain_text(one.default)
    yield "example", _example(one)
    yield "only in", ", ".join(one.of)
    yield "sbatch", ", ".join(f"--{name}" for name in (key.directive, *key.options) if name)
    yield "lists", "layers can add to it: prepend, append" if key.adds_to else ""
    yield "formerly", key.renamed_from
    yield "see", f"docs/{'spec.md' if key.see.startswith('#') else ''}{key.see}" if key.see else ""


def _example(one: Documented) -> str:
    """The key with a value, as in a spec: `batch: {micro: 8}`, `data: [{verify: source}]`."""
    name, *above = reversed(one.path.split("."))
    text = f"{name}: {one.key.example.strip()}"
    for step in above:
        text = f"{step[:-2]}: [{{{text}}}]" if step.endswith("[]") else f"{step}: {{{text}}}"
    return text


def _value(one: Documented) -> str:
    return value_in_words(one.field) if one.field else ""


def _list(keys: Iterable[Documented]) -> str:
    return table([[one.path, plain_text(one.key.doc)] for one in keys])


def _data(one: Documented) -> dict[str, Any]:
    """One key as data. Names are stable across versions."""
    return {
        "key": one.path,
        "value": _value(one),
        "meaning": one.key.doc,
        "unit": one.key.unit,
        "default": one.default,
        "example": one.key.example,
        "frameworks": list(one.of),
        "changes_content": not one.key.schedules,
        "sbatch": [name for name in (one.key.directive, *one.key.options) if name],
        "see": one.key.see,
    }


_FILES: dict[str, Callable[[], Schema]] = {
    "spec": spec_schema,
    "site": lambda: file_schema("clusterjobs site.yaml", SitePrices, other_keys=True),
    "policy": lambda: file_schema("clusterjobs policy.yaml", Policy),
    "cluster": lambda: file_schema("clusterjobs description of a cluster", Description),
    **{name: functools.partial(answer_schema, name) for name in ANSWERS},
}


@click.command(epilog=_SCHEMA_EXAMPLES)
@click.option(
    "--of",
    "what",
    type=click.Choice([*_FILES]),
    default="spec",
    show_default=True,
    help="A file: a spec, site.yaml, policy.yaml, or the description of a Slurm cluster; or what a "
    "command prints with --json.",
)
def schema(what: str) -> None:
    """Print the JSON Schema (2020-12) of a spec, with the keys of all installed frameworks."""
    print_json(_FILES[what]())


@click.command(epilog=_COMPLETION_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the lines that make SHELL complete commands, options, keys, clusters and points."""
    program = context.find_root()
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(program.command, {}, "clusterjobs", "_CLUSTERJOBS_COMPLETE").source())
