"""The entry point: loads a subcommand when it is called, and handles all errors.

Exit codes: 0 success, 1 invalid input, 2 usage error, 3 internal error.
"""

import errno
import gc
import importlib
import io
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from clusterjobs.errors import InputError, Problem
from clusterjobs.plugins import COMMANDS, Command
from clusterjobs.version import __version__


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
                    from clusterjobs.console import show_problems

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


# Those of plug-ins are added by entry points: clusterjobs/plugins.py. --help imports no subcommand.
_COMMANDS = tuple(
    Command(name, f"clusterjobs.cli.{name}:{name}", text)
    for name, text in (
        ("render", "Write the job script and the config files of a spec."),
        ("plan", "Show every derived value with its reason; write nothing."),
        ("show", "Show a spec as it is used: each value, and the file it comes from."),
        ("diff", "Show what a render would change."),
        ("clusters", "List, show, compare and upgrade cluster configs."),
        ("submit", "Render a spec and submit it with sbatch."),
        ("run", "Submit a spec and follow the job until it ends."),
        ("status", "Show jobs and sweeps: why they wait, run or ended."),
        ("results", "Show the results of a sweep's points in one table."),
        ("logs", "Print the log of a job or a point; --follow keeps printing."),
        ("cancel", "Cancel jobs by spec, point of a sweep, or job id."),
    )
)

_EXAMPLES = """\b
Examples:
  clusterjobs init -o exp.yaml          (or: clusterjobs import job.sbatch -o exp.yaml)
  clusterjobs plan exp.yaml
  clusterjobs render exp.yaml -o generated
  sbatch generated/job.sh
"""


class _Commands(PluginGroup):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            from clusterjobs.errors import did_you_mean

            hint = did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _: click.Parameter, is_given: bool) -> None:
    """The version, and those of the frameworks whose flags are known here."""
    if not is_given or ctx.resilient_parsing:
        return
    from clusterjobs.frameworks import flags

    click.echo(f"clusterjobs, version {__version__}")
    click.echo("Flags and keys of frameworks are known as they were in")
    for label in flags.labels():
        click.echo(f"  {label}")
    ctx.exit()


@click.group(
    cls=_Commands,
    core=_COMMANDS,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and the tables of flags, and exit.",
)
def cli() -> None:
    """Turn one YAML experiment spec into a multi-node training job on a Slurm cluster."""


def main() -> None:
    """Run the command line, and end the process with the exit code."""
    gc.set_threshold(100_000)  # imports create no garbage: skip the collection
    os.umask(os.umask(0o077) | 0o002)  # else other users could change the scripts that it writes
    if isinstance(sys.stdout, io.TextIOWrapper):  # names that a terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: skip the last collection
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. All failures are reported here."""
    try:
        result = cli.main(arguments, prog_name="clusterjobs", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except Exception as error:
        return report_failure(error, arguments)


# ------------------------------------------------------------------ failures
# Reports of failures: problems of the input, or an internal error, which is also logged. What only
# they need is imported there: it would take a fifth of the time of --help.


def report_failure(error: Exception, arguments: list[str]) -> int:
    """Report it, and return the exit code: 1 invalid input, 2 usage error, 3 internal error."""
    if isinstance(error, click.ClickException):
        error.show()
        hint = _usage_hint(error, arguments)
        if hint:
            click.echo(f"   hint: {hint}", err=True)
        _print_as_json([Problem(error.format_message(), hint=hint)], arguments)
        return error.exit_code
    if isinstance(error, InputError):
        from clusterjobs.console import show_problems

        show_problems(error.problems)
        _print_as_json(error.problems, arguments)
        return 1
    if isinstance(error, BrokenPipeError):  # `clusterjobs plan x | head`: the reader has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError) and (named := _reason(error)):
        click.echo(f"clusterjobs: {named}", err=True)
        _print_as_json([Problem(named)], arguments)
        return 1
    what = f"internal error, not a mistake in your input: {type(error).__name__}"
    click.echo(f"clusterjobs: {what}", err=True)
    _print_as_json([Problem(what)], arguments)
    try:
        log = _write_log(error, arguments)
    except OSError as failure:
        click.echo(f"  no log could be written: {failure.strerror}", err=True)
    else:
        click.echo(f"  what happened is in {log}: please attach it to a report", err=True)
    return 3


def _usage_hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """What to write where a word is a setting of the spec, or has another dash; "" if unknown."""
    for word in arguments:
        if word[:1] in _OTHER_DASHES and (option := word.lstrip("-" + "".join(_OTHER_DASHES))):
            return f"{word} begins with another character than -: write --{option}"
    context = error.ctx if isinstance(error, click.UsageError) else None
    if not context or not any(one.name == "settings" for one in context.command.params):
        return ""
    from clusterjobs.spec.experiment import Experiment

    options = {name for one in context.command.params for name in one.opts}
    for before, word, after in zip(["", *arguments], arguments, [*arguments[1:], ""], strict=False):
        name, _, value = word.lstrip("-").replace(":", "=", 1).partition("=")
        value = value or (after if word.startswith("--") else "")
        if word[:1] == "=":
            return f"without spaces: {before}{word}{after if word == '=' else ''}"
        if word in options or (before in options and before.startswith("-")):
            continue
        if word.startswith("--set"):
            return (
                f"write --set {value if '=' in value else 'KEY=VALUE, for example --set nodes=4'}"
            )
        key = name.replace("-", "_")
        if key.partition(".")[0] in Experiment.model_fields and (value or word.startswith("--")):
            return f"{key} is a key of the spec: write --set {key}={value or 'VALUE'}"
    return ""


_OTHER_DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2212")


def _reason(error: OSError) -> str | None:
    """What the system refused about a file or a disk: no fault of ours. None for other errors."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"cannot write: {error.strerror}"
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        return "the folder that you are in is gone: cd to another one"
    if error.filename is None or error.strerror is None:
        return None
    from clusterjobs.console import printable

    return printable(f"{os.fsdecode(error.filename)}: {error.strerror}")


def _print_as_json(problems: Sequence[Problem], arguments: list[str]) -> None:
    """With --json, a script reads the problems instead of the result."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in own:
        from clusterjobs.console import print_json, problem_data

        print_json({"problems": [problem_data(one) for one in problems]})


def _write_log(error: Exception, arguments: list[str]) -> pathlib.Path:
    """Versions and the traceback, without values, which may be secret."""
    import platform
    import tempfile
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"clusterjobs {__version__}, Python {platform.python_version()}, {platform.system()}",
        f"command: {arguments[0] if arguments else ''} and {max(0, len(arguments) - 1)} arguments",
        *(f"  {pathlib.Path(f.filename).name}:{f.lineno} {f.name}: {f.line}" for f in frames),
        type(error).__name__,
    ]
    descriptor, name = tempfile.mkstemp(prefix="clusterjobs-", suffix=".log")
    os.close(descriptor)
    log = pathlib.Path(name)
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return log
