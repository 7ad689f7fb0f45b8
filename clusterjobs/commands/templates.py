"""clusterjobs templates: the templates of the job script, and what a site changes in them."""

from __future__ import annotations

import click

from clusterjobs.commands.templates_check import check
from clusterjobs.commands.templates_list import list_, show


@click.group()
def templates() -> None:
    """The templates of job scripts: the packaged ones, and those of your site.

    \b
    Examples:
      clusterjobs templates list
      clusterjobs templates show launch
      clusterjobs templates check --site ./our-site
    """


templates.add_command(list_)
templates.add_command(show)
templates.add_command(check)
