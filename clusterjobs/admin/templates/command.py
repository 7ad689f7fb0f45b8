"""clusterjobs templates: the templates of the job script, and what a site changes in them."""

from __future__ import annotations

import click

from clusterjobs.admin.templates.check import check
from clusterjobs.admin.templates.docs import docs
from clusterjobs.admin.templates.list import list_, show
from clusterjobs.admin.templates.test import test
from clusterjobs.admin.templates.update import diff, override, update


@click.group()
def templates() -> None:
    """The templates of job scripts: the packaged ones, and those of your site.

    \b
    Examples:
      clusterjobs templates list
      clusterjobs templates override launch
      clusterjobs templates check --site ./our-site
      clusterjobs templates update --dry-run     (after an upgrade of clusterjobs)
    """


templates.add_command(list_)
templates.add_command(show)
templates.add_command(check)
templates.add_command(override)
templates.add_command(diff)
templates.add_command(update)
templates.add_command(test)
templates.add_command(docs)
