"""Arguments and options that several subcommands share."""

from __future__ import annotations

import pathlib

import click

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
