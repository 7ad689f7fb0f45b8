"""The entry point: loads a subcommand when it is called, and handles all errors.

Exit codes: 0 success, 1 invalid input, 2 usage error, 3 internal error.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from typing import Any

import click

from clusterjobs import __version__

# name -> (module, text of --help): --help imports no subcommand.
_COMMANDS = {
    "render": ("render", "Write the job script and the config files of a spec."),
    "plan": ("plan", "Show every derived value with its reason; write nothing."),
    "advise": ("advise.command", "Rank layouts and instance types of a job by time or cost."),
    "calibrate": ("calibrate.command", "Measure a spec's layout in a short job."),
    "show": ("show_spec", "Show a spec as it is used: each value, and the file it comes from."),
    "diff": ("diff", "Show what a render would change."),
    "site": ("site", "Show the site folders in use, or make one."),
    "clusters": ("clusters", "List, show, compare and upgrade cluster configs."),
    "templates": (
        "templates.command",
        "Show, change, check and test the templates of job scripts.",
    ),
    "validate": ("validate", "Check specs and ParallelCluster configs without a cluster."),
    "impact": (
        "impact.command",
        "Show which specs a change of site, cluster or version affects.",
    ),
    "submit": ("submit.command", "Render a spec and submit it with sbatch."),
    "run": ("run", "Submit a spec and follow the job until it ends."),
    "status": ("status.command", "Show jobs and sweeps: why they wait, run or ended."),
    "report": ("report.command", "Report what runs achieved: speed, efficiency, lost time."),
    "results": ("results", "Show the results of a sweep's points in one table."),
    "logs": ("logs", "Print the log of a job or a point; --follow keeps printing."),
    "cancel": ("cancel", "Cancel jobs by spec, point of a sweep, or job id."),
    "policy": ("policy", "List and test the rules of your site, or export them to Slurm."),
    "lab": ("lab", "Run a temporary real Slurm cluster on this machine."),
}
_HIDDEN = {"render-batch": ("impact.batch", "")}  # for other versions, not for people

_EXAMPLES = """\b
Examples:
  clusterjobs plan examples/tiny-gpt.yaml
  clusterjobs render examples/tiny-gpt.yaml -o generated
  sbatch generated/job.sh
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = _COMMANDS | _HIDDEN
        if cmd_name not in known:
            return None
        module = importlib.import_module(f"clusterjobs.commands.{known[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS | _HIDDEN:
            from clusterjobs.errors import did_you_mean

            hint = did_you_mean(args[0], list(_COMMANDS))
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[1]) for name, row in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="clusterjobs")
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
    except click.ClickException as error:
        from clusterjobs.commands.failures import report_usage_error

        return report_usage_error(error, arguments)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return 130
    except Exception as error:
        from clusterjobs.commands.failures import report_failure

        return report_failure(error, arguments)
