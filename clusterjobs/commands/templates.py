"""clusterjobs templates: the templates of the job script, and what a site changes in them."""

from __future__ import annotations

import click


@click.group()
def templates() -> None:
    """The templates of job scripts: the packaged ones, and those of your site.

    \b
    Examples:
      clusterjobs templates list
    """
