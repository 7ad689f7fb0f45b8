"""clusterjobs show: prints a spec as it is used, merged with everything below it."""

import json
import pathlib

import click

from clusterjobs.console import set_option, spec_argument, table
from clusterjobs.runs.load import read_spec
from clusterjobs.spec.effective import effective_yaml, shown_value, single_values

_EXAMPLES = """\b
Examples:
  clusterjobs show exp.yaml
  clusterjobs show exp.yaml --effective > whole.yaml
  clusterjobs show exp.yaml --json | jq '.[] | select(.from == "default")'
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@set_option
@click.option("--effective", is_flag=True, help="As YAML, with origins as comments.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
def show(spec: pathlib.Path, settings: tuple[str, ...], effective: bool, as_json: bool) -> None:
    """Show each value of SPEC, merged with defaults and the files that it extends, and its file."""
    loaded, _ = read_spec(spec, settings)
    if loaded.point:
        click.echo(f"with the values of the first point, {loaded.point.name}", err=True)
    if as_json:
        rows = [
            {"name": one.name, "value": one.value, "origin": one.origin, "from": one.role}
            for one in single_values(loaded.merged)
        ]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif effective:
        click.echo(effective_yaml(loaded.merged), nl=False)
    else:
        rows_of_text = [
            [one.name, shown_value(one.value), one.origin] for one in single_values(loaded.merged)
        ]
        click.echo(table(rows_of_text))
