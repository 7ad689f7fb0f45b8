"""clusterjobs site: shows the site folders in use, and makes a new one."""

from __future__ import annotations

import contextlib
import json
import pathlib

import click

from clusterjobs import resources
from clusterjobs.commands.show import printable, show_problems, table
from clusterjobs.commands.site_contents import FolderContents, site_contents
from clusterjobs.commands.site_folders import TESTS, VARIABLE
from clusterjobs.errors import InputError, one_problem


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a script to read.")
@click.pass_context
def site(context: click.Context, as_json: bool) -> int:
    """Show the site folders in use, the highest precedence first, and what each provides.

    \b
    Examples:
      clusterjobs site
      clusterjobs site --json | jq '.folders[].clusters'
      clusterjobs site init our-site
    """
    if context.invoked_subcommand:
        return 0
    folders, problems = site_contents()
    if as_json:
        rows = [one.data() for one in folders]
        click.echo(json.dumps({"folders": rows}, indent=2, ensure_ascii=False))
    else:
        click.echo("\n\n".join(_folder_text(one) for one in folders))
    show_problems(problems)
    return 1 if any(not one.warning for one in problems) else 0


def _folder_text(folder: FolderContents) -> str:
    head = printable(f"{folder.path} ({folder.found_by})")
    if not folder.exists:
        return f"{head}: not there"
    rows = [[f"  {row.name}", printable(row.shown())] for row in folder.rows]
    return f"{head}\n{table(rows)}" if rows else f"{head}: empty"


@site.command(short_help="Write a commented site folder.")
@click.argument(
    "folder", type=click.Path(path_type=pathlib.Path), default=pathlib.Path("clusterjobs-site")
)
def init(folder: pathlib.Path) -> None:
    """Write a commented site folder to FOLDER, by default ./clusterjobs-site.

    All values in it are commented out. Files that exist are kept.

    \b
    Examples:
      clusterjobs site init
      clusterjobs site init ~/.config/clusterjobs
    """
    packaged = resources.site_folder_dir()
    for source in sorted(path for path in packaged.rglob("*") if path.is_file()):
        target = folder / source.relative_to(packaged)
        is_new = _write_new(target, source.read_text(encoding="utf-8"))
        click.echo(f"  {printable(str(target))}{'' if is_new else ' (kept: it exists)'}")
    if expected := _expect_what_is_rendered(folder):
        click.echo(f"  {printable(str(expected))}")
    click.echo(f"\nuse it with: export {VARIABLE}={printable(str(folder.resolve()))}")


def _expect_what_is_rendered(folder: pathlib.Path) -> pathlib.Path | None:
    """Write what the example's test expects; None if something is expected already."""
    from clusterjobs.commands.site_tests import SiteTest

    example = SiteTest(folder / TESTS / "example", folder)
    if example.expected.exists():
        return None
    with contextlib.suppress(InputError):  # of files that were there: `templates test` reports it
        example.accept(example.rendered())
        return example.expected
    return None


def _write_new(path: pathlib.Path, text: str) -> bool:
    """Write a file; False if there is one. Raises InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        if error.filename == str(path):
            return False
        raise one_problem(f"{error.filename} is not a folder", hint="name another one") from None
    except OSError as error:
        what = f"cannot write {error.filename or path}: {error.strerror}"
        raise one_problem(what, hint="check the path, and who may write there") from None
    return True
