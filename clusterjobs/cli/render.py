"""clusterjobs render: write the files of a job."""

from __future__ import annotations

import os
import pathlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import click

from clusterjobs.api import Run, load
from clusterjobs.console import (
    State,
    json_option,
    output_option,
    print_json,
    printable,
    problem_data,
    set_option,
    show_problems,
    specs_argument,
    state_of,
    states_table,
    strict_option,
)
from clusterjobs.errors import InputError, Problem
from clusterjobs.runs.plan_text import run_summary
from clusterjobs.runs.write import changed_files, recorded_spec

if TYPE_CHECKING:
    from clusterjobs.runs.answers import Change, RenderAnswer

_EXAMPLES = """\b
Examples:
  clusterjobs render exp.yaml
  clusterjobs render exp.yaml -o /fsx/jobs/exp --set nodes=4
  clusterjobs render exp.yaml --check        (in CI: exit 1 if the files are not current)
  clusterjobs render --check *.yaml -o jobs  (the files of exp.yaml are in jobs/exp)
"""


@click.command(epilog=_EXAMPLES)
@specs_argument
@output_option
@set_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the files are not current.")
@strict_option
@click.option("--force", is_flag=True, help="Overwrite files that clusterjobs did not write.")
@json_option
def render(
    specs: tuple[pathlib.Path, ...],
    output: pathlib.Path,
    settings: tuple[str, ...],
    check: bool,
    strict: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Write the job script and the config files of SPEC, and print a summary.

    --check takes several specs, and prints one table.
    """
    if as_json and (check or len(specs) > 1):
        raise click.UsageError(
            "--json is for one spec, without --check: `diff --json` writes nothing"
        )
    if len(specs) > 1:
        return _check_all(_folders(specs, output, check), settings)
    (spec,) = specs
    run = load(spec, set=settings)
    if strict:
        run.check_strict()
    outputs = run.outputs()
    show_problems([*run.warnings, *run.notes])
    if check:
        return _check(output, outputs)
    previous = recorded_spec(output)
    changes = run.render(output, force=force)
    if as_json:
        print_json(_answer(run, output, changes, outputs))
        return 0
    click.echo(run_summary(run))
    click.echo()
    for name in outputs:
        click.echo(f"  {output / name}{_note(changes.get(name, 'unchanged'))}")
    for name in sorted(set(changes) - set(outputs)):
        click.echo(f"  {output / name} (removed: no longer needed)")
    if previous != recorded_spec(output) and previous:
        click.echo(f"\n{output} had the files of {printable(previous)}; -o selects another folder")
    if added := run.fitted.notice(output):
        click.echo(f"\n{added}")
    click.echo()
    if run.spec.needs:  # the dependencies are options of sbatch, and not in the script
        click.echo(f"submit it with: clusterjobs submit {shlex.quote(str(spec))}")
        click.echo("   (it submits first what `needs` names; sbatch alone would not wait for it)")
        return 0
    for name in run.script_names:
        click.echo(f"submit it with: sbatch {shlex.quote(str(output / name))}")
    _name_overriding("".join(outputs[name] for name in run.script_names), spec)
    return 0


def _name_overriding(scripts: str, spec: pathlib.Path) -> None:
    """Say which variables of this shell sbatch would take before the scripts' directives."""
    if not any(name.startswith("SBATCH_") for name in os.environ):
        return
    from clusterjobs.runs.submit.sbatch import changing_variables  # seldom needed

    if names := changing_variables(os.environ, scripts):
        click.echo(
            f"   (sbatch takes {', '.join(names)} of this shell before the script's directives;"
        )
        click.echo(f"   clusterjobs submit {shlex.quote(str(spec))} does not)")


def _answer(
    run: Run, output: pathlib.Path, changes: dict[str, str], outputs: dict[str, str]
) -> RenderAnswer:
    names = [*outputs, *sorted(set(changes) - set(outputs))]
    now = {one: cast("Change", changes.get(one, "unchanged")) for one in names}
    return {
        "folder": str(output),
        "files": [{"name": name, "change": change} for name, change in now.items()],
        "scripts": list(run.script_names),
        "problems": [problem_data(one) for one in (*run.warnings, *run.notes)],
    }


def _check(output: pathlib.Path, outputs: dict[str, str]) -> int:
    changes = changed_files(output, outputs)
    for name, change in changes.items():
        click.echo(f"{output / name}: {'missing' if change == 'new' else change}", err=True)
    if not changes:
        click.echo(f"{output}: current")
    return 1 if changes else 0


# ------------------------------------------------------------------ several specs


def _folders(
    specs: Sequence[pathlib.Path], output: pathlib.Path, check: bool
) -> dict[pathlib.Path, pathlib.Path]:
    """The folder of each spec: below `output`, with the spec's name."""
    folders = {spec: output / spec.stem for spec in specs}
    if not check:
        first = shlex.quote(str(specs[0]))
        what = "several specs are rendered one by one, each into a folder of its own:"
        raise click.UsageError(f"{what} clusterjobs render {first} -o {folders[specs[0]]}")
    owner: dict[pathlib.Path, pathlib.Path] = {}
    for spec, folder in folders.items():
        if (other := owner.setdefault(folder, spec)) != spec:
            raise click.UsageError(f"the files of {other} and {spec} would both be in {folder}")
    return folders


def _check_all(folders: dict[pathlib.Path, pathlib.Path], settings: tuple[str, ...]) -> int:
    problems: list[Problem] = []
    states: list[State] = []
    for spec, folder in folders.items():
        found, state = _state(spec, folder, settings)
        problems += found
        states.append(state)
    show_problems(problems)
    click.echo(states_table(states))
    return 0 if all(state.problem == "" for state in states) else 1


def _state(
    spec: pathlib.Path, folder: pathlib.Path, settings: tuple[str, ...]
) -> tuple[Sequence[Problem], State]:
    try:
        run = load(spec, set=settings)
        outputs, problems = run.outputs(), run.warnings
        changes = changed_files(folder, outputs)
    except InputError as error:
        return error.problems, state_of(str(spec), error.problems)
    if changes:
        name, change = next(iter(changes.items()))
        what = f"{folder / name}: {'missing' if change == 'new' else change}"
        return problems, State(str(spec), "not current", what)
    return problems, state_of(str(spec), problems, "current")


def _note(change: str) -> str:
    return "" if change == "new" else f" ({change})"
