"""Arguments and options that several subcommands share."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import click


def completed_by(function: str) -> Callable[[click.Context, click.Parameter, str], Any]:
    """A function of reference/complete.py, imported when a shell asks what completes a word."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> Any:
        module = importlib.import_module("clusterjobs.reference.complete")
        return getattr(module, function)(context, parameter, typed)

    return complete


# Not `readable`: reading the file gives a better message than click.
spec_argument = click.argument("spec", type=click.Path(readable=False, path_type=pathlib.Path))
specs_argument = click.argument(
    "specs",
    nargs=-1,
    required=True,
    metavar="SPEC...",
    type=click.Path(readable=False, path_type=pathlib.Path),
)
set_option = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=completed_by("completed_settings"),
    help="Change a value of the spec for this run: --set nodes=4 --set args.lr=3e-4.",
)
user_option = click.option(
    "--user", metavar="NAME", help="Suppose this user for the site's policies, not the caller."
)
group_option = click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Suppose this group, and no other, for the site's policies. May be repeated.",
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=pathlib.Path("generated"),
    show_default=True,
    help="The folder for the files.",
)
force_option = click.option(
    "--force", is_flag=True, help="Overwrite files that clusterjobs did not write."
)
points_option = click.option(
    "--points",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    shell_complete=completed_by("completed_jobs"),
    help="Only these points of a sweep: 3,7-9, a name, or '*lr=3e-4*'. May be repeated.",
)
failed_option = click.option(
    "--failed", is_flag=True, help="Only points of a sweep that failed or are lost."
)
all_option = click.option(
    "--all", "completed", is_flag=True, help="Also the completed points of a sweep."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Submit also if there are more than 1,000 points or unknown jobs."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON for a script to read."
)
site_file_option = click.option(
    "--site",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    help="The site.yaml to use.",
)
strict_option = click.option(
    "--strict", is_flag=True, help="Refuse a job whose model does not fit into the GPUs' memory."
)


def submit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """SPEC, and what `submit` and `run` know to submit it."""
    options = (
        *(spec_argument, output_option, set_option, force_option),
        *(points_option, failed_option, all_option, yes_option),
    )
    for option in reversed(options):
        command = option(command)
    return command
