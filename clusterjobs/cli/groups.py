"""Groups of commands: those of the core, and those that plug-ins add."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from clusterjobs.errors import InputError
from clusterjobs.plugins import COMMANDS, Command


class PluginGroup(click.Group):
    """A group whose commands are imported when they are called.

    `core`: its commands beside those that are defined in place. Those of plug-ins have the names
    that start with `prefix`, and no other dot; the core's own cannot be replaced.
    """

    def __init__(
        self, *args: Any, core: Sequence[Command] = (), prefix: str = "", **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._core = {one.name: one for one in core}
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [one.name.removeprefix(self._prefix) for one in self._listed()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        name = self._prefix + cmd_name
        if name not in self._core and (name not in COMMANDS or not self._is_own(name)):
            return None
        found = self._core.get(name) or COMMANDS[name]
        module, _, attribute = found.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(one.name.removeprefix(self._prefix), one.help) for one in self._listed()]
            )

    def _is_own(self, name: str) -> bool:
        return name.rpartition(".")[0] == self._prefix.rstrip(".")

    def _listed(self) -> list[Command]:
        """The commands of --help: subcommands sorted, others in the order of their `after`.

        A plug-in that cannot be loaded is reported.
        """
        defined = [
            Command(self._prefix + name, "", one.get_short_help_str())
            for name, one in self.commands.items()
        ]
        own = [*self._core.values(), *defined]
        added = []
        for name in COMMANDS:
            if self._is_own(name) and name not in {one.name for one in own}:
                try:
                    added.append(COMMANDS[name])
                except InputError as error:
                    from clusterjobs.console.show import show_problems

                    show_problems(error.problems)
        known = {one.name for one in (*own, *added)}
        first = [*own, *(one for one in added if one.after not in known)]
        listed = [one for start in first for one in _with_followers(start, added) if one.help]
        return sorted(listed) if self._prefix else listed


def _with_followers(first: Command, added: Iterable[Command]) -> Iterator[Command]:
    yield first
    for one in added:
        if one.after == first.name:
            yield from _with_followers(one, added)
