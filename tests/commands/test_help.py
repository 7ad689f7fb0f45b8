"""--help of every command: complete lines, and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

from clusterjobs.cli import main


def names(group: click.Group, name: str = "") -> Iterator[str]:
    context = click.Context(group)
    for one in group.list_commands(context):
        command = group.get_command(context, one)
        yield f"{name}{one}"
        if isinstance(command, click.Group):
            yield from names(command, f"{name}{one} ")


@pytest.mark.parametrize("name", ["", *names(main.cli)])
def test_help_has_examples_and_complete_lines(clusterjobs: Callable[..., Any], name: str) -> None:
    done = clusterjobs(*name.split(), "--help")
    assert done.code == 0
    assert f"clusterjobs {name}".strip() in done.out.partition("Example")[2]
    commands = done.out.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert "..." not in commands


def test_help_names_every_kind_of_cluster_alike(clusterjobs: Callable[..., Any]) -> None:
    said = " ".join(clusterjobs("--help").out.partition("Commands:")[0].split())
    assert "a multi-node training job on a Slurm cluster." in said
