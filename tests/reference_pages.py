"""The reference of the commands and of the Python API in docs/, made from the code.

A page has a place for each, `<!-- made from: NAME -->` to `<!-- end of what is made -->`.
`--update-goldens` writes them (tests/test_key_tables.py).
"""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import click

import clusterjobs
from clusterjobs.cli import main

DOCS = pathlib.Path(__file__).parents[1] / "docs"
MADE = re.compile(r"<!-- made from: (\w+) -->\n(.*?)<!-- end of what is made -->", re.DOTALL)


def commands() -> str:
    """Each command: how it is called, what it does, its options, examples."""
    context = click.Context(main.cli, info_name="clusterjobs", **main.cli.context_settings)
    return "\n".join(_of_command(main.cli, context))


def _of_command(command: click.Command, context: click.Context) -> Iterator[str]:
    if not isinstance(command, click.Group) or command.invoke_without_command:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"### {context.command_path}\n"
        yield f"`{usage}`\n"
        about = inspect.cleandoc(command.help or "").replace("\b\n", "")
        yield f"{_text(about.partition('Examples:')[0])}\n"
        options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
        records = [one.get_help_record(context) for one in options]
        rows = [one for one in records if one and one[0] != "--help" and one[0] != "-h, --help"]
        if rows:
            yield "| option | meaning |\n|---|---|"
            yield from (f"| `{_cell(name)}` | {_cell(_text(text))} |" for name, text in rows)
            yield ""
        last = f"{about}\n{inspect.cleandoc(command.epilog or '')}"
        if found := re.search(r"Examples:\n((?:  .*\n?)+)", last):
            yield f"```\n{inspect.cleandoc(found[1])}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below and not below.hidden:
                yield from _of_command(below, click.Context(below, context, name))


def _text(text: str | None) -> str:
    """As Markdown: a paragraph is one line, and what would be an HTML tag is none."""
    paragraphs = inspect.cleandoc((text or "").replace("\b", "")).split("\n\n")
    return "\n\n".join(" ".join(one.split()) for one in paragraphs).replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*") if "`" not in text else text


def api() -> str:
    """What `import clusterjobs` offers: signatures, and the docstrings."""
    names = ["load", "Run", "Job", "JobPoint", "Point", "Problem", "InputError"]
    assert {*names, "Plan", "__version__"} == {*clusterjobs.__all__}
    return "\n".join(line for name in names for line in _of_name(name, getattr(clusterjobs, name)))


def _of_name(name: str, found: Any) -> Iterator[str]:
    if not isinstance(found, type):
        yield f"### {name}\n\n{_signature(name, found)}{_text(found.__doc__)}\n"
        return
    yield f"### {name}\n\n{_text(found.__doc__)}\n"
    for member, value in vars(found).items():
        if not member.startswith("_") and value.__doc__:
            if isinstance(value, property):
                yield f"**`{member}`**: {_text(value.__doc__)}\n"
            elif inspect.isfunction(value):
                yield f"{_signature(member, value)}{_text(value.__doc__)}\n"


def _signature(name: str, function: Callable[..., Any]) -> str:
    written = inspect.signature(function)
    kept = [one.replace(annotation=inspect.Parameter.empty) for one in written.parameters.values()]
    short = written.replace(
        parameters=[one for one in kept if one.name != "self"],
        return_annotation=inspect.Signature.empty,
    )
    return f"```python\n{name}{short}\n```\n\n"


PARTS = {"commands": commands, "api": api}
