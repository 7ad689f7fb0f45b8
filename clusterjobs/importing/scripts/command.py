"""clusterjobs import: a spec from an sbatch script, and the proof that it launches the same."""

import os
import pathlib
import re
import sys
from collections.abc import Iterator

import click

from clusterjobs.clusters.source import is_path
from clusterjobs.console import completed_by, print_json, problem_data, show_problems, styled
from clusterjobs.errors import counted, one_problem
from clusterjobs.importing.init import framework_of
from clusterjobs.importing.scripts.points import import_script
from clusterjobs.importing.scripts.proof import Proof, prove
from clusterjobs.importing.scripts.spec import Imported
from clusterjobs.runs.clusters import refuse_other_files
from clusterjobs.runs.write import write_text
from clusterjobs.sites.folders import read_text, shown_name

_MOST_FILES = 200
_MOST_BYTES = 100_000  # of each
_READ = ("*.sh", "*.sbatch", "*.slurm", "*.txt", "*.csv", "*.tsv")
_EXAMPLES = """\b
Examples:
  clusterjobs import train.sbatch > train.yaml
  clusterjobs import train.sbatch --cluster p4d-a100 -o train.yaml
  clusterjobs import *.sbatch -o specs/
  cat train.sbatch | clusterjobs import -
"""


@click.command(name="import", epilog=_EXAMPLES)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@click.option(
    "--cluster",
    metavar="NAME|FILE",
    shell_complete=completed_by("completed_clusters"),
    help="The cluster of the spec, to check it against.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path),
    help="The file for the spec; with several scripts, a folder.",
)
@click.option("--force", is_flag=True, help="Overwrite files.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def import_(
    scripts: tuple[str, ...],
    cluster: str | None,
    output: pathlib.Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Write the spec of an sbatch SCRIPT, and prove that its job launches the same.

    The script runs in a bash without files, network and programs: stand-ins record what it would
    launch. What could not be carried over is listed first, with its line. `-` reads standard input.

    Exit code 0 only if the job of the spec launches the same words, and renders.
    """
    if len(scripts) > 1 and output is None and not as_json:
        raise click.UsageError("several scripts need a folder: -o FOLDER")
    results: list[tuple[str, Imported, Proof]] = []
    for script in scripts:
        target = _target(script, output, several=len(scripts) > 1)
        imported, proof = _import(script, cluster, target)
        results.append((script, imported, proof))
        if target is not None:
            _write(target, proof.text, force)
        elif not as_json:
            click.echo(proof.text, nl=False)
        if not as_json:
            for line in _report(script, imported, proof, cluster):
                click.echo(line, err=True)
            show_problems(proof.problems)
    if as_json:
        print_json([_data(*one) for one in results])
    complete = [proof.is_same and not proof.missing for _, _, proof in results]
    return 0 if all(complete) else 1


def _import(
    script: str, cluster: str | None, target: pathlib.Path | None
) -> tuple[Imported, Proof]:
    path = pathlib.Path(script)
    folder = pathlib.Path.cwd() if script == "-" else path.parent
    text = sys.stdin.read() if script == "-" else read_text(path)
    if "\0" in text:
        raise one_problem(f"{script} is no script: it has NUL bytes")
    refuse_other_files(text, shown_name(path), wanted="an sbatch script")
    name = "job" if script == "-" else re.sub(r"[^\w.-]", "-", path.stem)
    named = _from_spec(cluster, target) if cluster else "CLUSTER"
    imported = import_script(text, _beside(folder, path), named, name)
    imported = imported._replace(assumed=(*imported.assumed, *_better_framework(imported, folder)))
    return imported, prove(imported, folder, cluster, str(target or "the spec"))


def _better_framework(imported: Imported, folder: pathlib.Path) -> Iterator[str]:
    """The framework that the Python script uses, if the script is here."""
    values = {one.key: one.value.strip('"') for one in imported.entries}
    file = folder / values.get("workdir", "") / values.get("script", "")
    known = framework_of(file) if file.suffix == ".py" else ""
    if known not in ("", "torchrun", values.get("framework")):
        yield (
            f"framework: {values['framework']}; {values['script']} uses {known}, and with"
            f" framework: {known} its arguments are checked, too"
        )


def _from_spec(cluster: str, target: pathlib.Path | None) -> str:
    """The cluster as a spec names it: a path is relative to the spec's folder."""
    if target is None or not is_path(cluster) or pathlib.PurePath(cluster).is_absolute():
        return cluster
    return os.path.relpath(cluster, target.parent)


def _beside(folder: pathlib.Path, script: pathlib.Path) -> dict[str, str]:
    """Other shell scripts in the folder, and lists, which this one may call or read."""
    files = [one for ending in _READ for one in sorted(folder.glob(ending))][:_MOST_FILES]
    return {
        one.name: read_text(one)
        for one in files
        if one.is_file() and one != script and one.stat().st_size <= _MOST_BYTES
    }


def _target(script: str, output: pathlib.Path | None, several: bool) -> pathlib.Path | None:
    if output is None or not (several or output.is_dir()):
        return output
    return output / f"{'job' if script == '-' else pathlib.Path(script).stem}.yaml"


def _write(target: pathlib.Path, text: str, force: bool) -> None:
    if target.exists() and not force:
        raise one_problem(f"{target} exists", hint="choose another file, or use --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, text)


def _report(script: str, imported: Imported, proof: Proof, cluster: str | None) -> Iterator[str]:
    name = "standard input" if script == "-" else script
    for line in proof.missing:
        place = f"{name}:{line.number}" if line.number else name
        yield f"{styled(place, bold=True)} not carried over: {line.what} ({line.why})"
    for path, why in proof.derived.items():
        yield f"not needed: {path}: {why}"
    for text in imported.assumed:
        yield f"assumed: {text}"
    if cluster is None:
        yield "assumed: a cluster with the script's queue and nodes; write its name at cluster:"
    for text in proof.allocation:
        yield f"allocated: {text}"
    for difference in proof.differences:
        yield f"different: {difference}"
    if proof.problems:
        yield styled("the spec does not render yet:", fg="red")
    elif proof.is_same:
        words, variables = counted(proof.words, "word"), counted(proof.variables, "variable")
        points = f"{counted(len(imported.points), 'point')}: " if imported.points else ""
        yield styled(f"{points}the same {words}, the same {variables}", fg="green")
    if proof.missing:
        numbers = sorted({line.number for line in proof.missing} - {0})
        if numbers:
            yield f"not carried over: lines {', '.join(map(str, numbers))}"
    sys.stdout.flush()


def _data(script: str, imported: Imported, proof: Proof) -> dict[str, object]:
    """One import as data. Names are stable across versions."""
    return {
        "script": script,
        "spec": proof.text,
        "same": proof.is_same,
        "words": proof.words,
        "variables": proof.variables,
        "points": max(1, len(imported.points)),
        "differences": list(proof.differences),
        "allocation": list(proof.allocation),
        "not_carried_over": [one._asdict() for one in proof.missing],
        "not_needed": dict(proof.derived),
        "assumed": list(imported.assumed),
        "problems": [problem_data(one) for one in proof.problems],
    }
