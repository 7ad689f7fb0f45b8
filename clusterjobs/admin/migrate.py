"""clusterjobs migrate: gives the keys of specs their new names. `Key.renamed_from` has the old.

A text is changed where its keys are, so comments and order stay. It is read again afterwards: if
that gives anything but the same values under the new names, the key is left to the user.
"""

import contextlib
import copy
import difflib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import click

from clusterjobs.console import echo_diff, show_problems
from clusterjobs.errors import InputError, Problem, counted
from clusterjobs.runs.find_specs import find_specs
from clusterjobs.runs.write import write_text
from clusterjobs.sites.folders import read_text
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import renamed_key, renamed_keys, written_value
from clusterjobs.spec.model import keys_below
from clusterjobs.yaml.document import Document, Path, load, look_at
from clusterjobs.yaml.edit import set_value


@click.command(short_help="Give the keys of specs their new names.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(True, path_type=pathlib.Path))
@click.option("--write", is_flag=True, help="Write the changes; without it they are only shown.")
def migrate(paths: Sequence[pathlib.Path], write: bool) -> int:
    """Give the keys of specs their new names, after an upgrade of clusterjobs.

    PATHS are specs, or folders in which all specs are looked for. Shows a diff; --write makes the
    changes. Comments and order are kept. What needs your decision is listed with its line.

    \b
    Examples:
      clusterjobs migrate exp.yaml
      clusterjobs migrate /fsx/users --write
    """
    found = find_specs(paths)
    problems = [Problem(f"{one.path}: {one.reason}") for one in found.unread]
    files = [*dict.fromkeys([*found.specs, *sorted(found.bases)])]
    changed, kept = 0, 0
    for file in files:
        try:
            before = read_text(pathlib.Path(file))
            after, left = migrated(before, file)
            if write and after != before:
                write_text(pathlib.Path(file), after)
        except InputError as error:
            problems += error.problems
            continue
        problems += left
        kept += len(left)
        changed += after != before
        lines = before.splitlines(), after.splitlines()
        echo_diff(difflib.unified_diff(*lines, file, f"{file} (migrated)", lineterm=""))
    hint = "" if not changed else ": changed" if write else ": --write changes them"
    yours = f"; {counted(kept, 'key')} left to you" if kept else ""
    total = counted(len(files), "spec")
    click.echo(f"{total}, {changed} with old names of keys{hint}{yours}", err=True)
    show_problems(problems)
    return 1 if problems else 0


def migrated(text: str, file: str) -> tuple[str, list[Problem]]:
    """The text with new names, and the keys that are left. Raises InputError for broken YAML."""
    left: dict[Path, Problem | None] = {}
    while True:
        document = load(text, file)
        old = next((one for one in _old_paths(document.value) if one not in left), None)
        if old is None:
            return text, [one for one in left.values() if one]
        changed = None
        with contextlib.suppress(InputError):
            changed = _changed(document, old)
        if changed is None:
            left[old] = renamed_key(old, document.value, document)
        text = changed or text


def _old_paths(value: Any, names: tuple[str, ...] = (), path: Path = ()) -> Iterator[Path]:
    """The paths of all keys that have another name now."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if ".".join((*names, key)) in renamed_keys():
            yield (*path, key)
        yield from _old_paths(inner, (*names, key), (*path, key))
    for number, inner in enumerate(value if isinstance(value, list) else ()):
        yield from _old_paths(inner, names, (*path, number))


def _changed(document: Document, old: Path) -> str | None:
    """The text with the key at its new place; None if that cannot be done, or is not certain."""
    new = renamed_keys()[".".join(step for step in old if isinstance(step, str))]
    start, end = document.key_span(old)
    wanted = copy.deepcopy(document.value)
    value = look_at(wanted, old[:-1]).pop(old[-1])
    written = written_value(document.locate(old))
    if len(new) == sum(isinstance(step, str) for step in old):
        target = (*old[:-1], new[-1])
        text = f"{document.text[:start]}{new[-1]}{document.text[end:]}"
    elif new[0] not in wanted:
        target = new
        end = document.span(old)[1]
        text = f"{document.text[:start]}{new[0]}: {{{new[-1]}: {written}}}{document.text[end:]}"
        wanted[new[0]] = {}
    else:
        target = new
        text = _without(document, old)
        if isinstance(wanted[new[0]], str):  # short for the section's first key
            first = next(one[-1] for one in keys_below(Experiment) if one[:-1] == new[:1])
            short = load(text, document.file)
            both = f"{first}: {written_value(short.locate(new[:1]))}, {new[-1]}: {written}"
            start, end = short.span(new[:1])
            text = f"{text[:start]}{{{both}}}{text[end:]}"
            wanted[new[0]] = {first: wanted[new[0]]}
        elif isinstance(value, (str, int, float)) and isinstance(wanted[new[0]] or {}, dict):
            text = set_value(text, document.file, new, value)
            wanted[new[0]] = wanted[new[0]] or {}
        else:
            return None
    section = look_at(wanted, target[:-1])
    if target[-1] in section:  # both names are there
        return None
    section[target[-1]] = value
    return text if load(text, document.file).value == wanted else None


def _without(document: Document, path: Path) -> str:
    """The document without the line of a key. A comment in that line is kept."""
    text, end = document.text, document.span(path)[1]
    start = text.rfind("\n", 0, document.key_span(path)[0]) + 1
    rest, newline, after = text[end:].partition("\n")
    comment = f"{rest.lstrip()}{newline}" if rest.strip() else ""
    return text[:start] + comment + after
