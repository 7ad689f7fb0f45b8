"""clusterjobs examples: lists the example specs, and copies them with the files that they need."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from clusterjobs.console import json_option, print_json, table
from clusterjobs.errors import did_you_mean, one_problem
from clusterjobs.resources import examples_dir
from clusterjobs.runs.write import write_text
from clusterjobs.yaml.document import load

_EXAMPLES = """\b
Examples:
  clusterjobs examples
  clusterjobs examples tiny-gpt
  clusterjobs examples slurm/llama-on-amd gpt2-7b -o try
  clusterjobs examples --all
"""
_FOLDER = "examples"  # the specs name files below it: `workdir: examples/tiny_gpt`


def _completed_names(_context: Any, _parameter: Any, typed: str) -> list[str]:
    return [name for name in _names() if name.startswith(typed)]


@click.command(epilog=_EXAMPLES)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=_completed_names)
@click.option("--all", "every", is_flag=True, help="Copy all examples.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=pathlib.Path(),
    help="The folder that gets a folder `examples`.  [default: the working folder]",
)
@json_option
def examples(names: tuple[str, ...], every: bool, output: pathlib.Path, as_json: bool) -> None:
    """List the example specs, or copy NAME and the files that it needs to `examples/`.

    A file that is there already is left as it is; if its content differs, nothing is copied.
    """
    if not names and not every:
        listed = {name: _about(name) for name in _names() if name != "site"}  # no spec
        if as_json:
            print_json([{"name": name, "about": about} for name, about in listed.items()])
        else:
            click.echo(table([[name, about] for name, about in listed.items()]))
        return
    files = sorted(_below("") if every else {file for name in names for file in _needed_by(name)})
    written = _copy(files, output / _FOLDER)
    if as_json:
        print_json([str(path) for path in written])
    else:
        for path in written:
            click.echo(path)


def _names() -> list[str]:
    """Of all example specs: their paths below the folder, without `.yaml`."""
    root = examples_dir()
    found = [*root.glob("*.yaml"), *root.glob("slurm/*.yaml")]
    return sorted(
        (path.relative_to(root).with_suffix("").as_posix() for path in found),
        key=lambda name: ("/" in name, name),
    )


def _about(name: str) -> str:
    """The first sentence of the comment at the top of the file."""
    text = (examples_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    comment: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment.append(line[1:].strip())
    return " ".join(comment).split(". ")[0].rstrip(".")


def _needed_by(name: str) -> set[str]:
    """The files of an example. Raises InputError for an unknown name."""
    known = _names()
    name = name.removesuffix(".yaml")
    if name not in known:
        hint = did_you_mean(name, known) or "clusterjobs examples lists them"
        raise one_problem(f"there is no example {name}", hint=hint)
    found: set[str] = set()
    waiting = [f"{name}.yaml"]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            if file.endswith(".yaml"):
                waiting += _named_in(file)
    return found


def _named_in(file: str) -> Iterator[str]:
    """The example files that a YAML file names: beside it, or as `examples/...`."""
    root = examples_dir()
    data = load((root / file).read_text(encoding="utf-8"), file).value
    for text in _texts(data):
        for path in (root / file).parent / text, root.parent / text:
            if path.exists() and root in path.resolve().parents:
                yield from _below(path.resolve().relative_to(root).as_posix())


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        data = [*data.values()]
    if isinstance(data, list):
        for one in data:
            yield from _texts(one)
    elif isinstance(data, str) and data not in ("", "."):
        yield data


def _below(path: str) -> set[str]:
    """The file at this path below the examples, or all files below the folder."""
    root = examples_dir()
    found = [root / path] if (root / path).is_file() else (root / path).rglob("*")
    return {
        one.relative_to(root).as_posix()
        for one in found
        if one.is_file() and one.parent.name != "__pycache__"
    }


def _copy(files: Iterable[str], folder: pathlib.Path) -> Sequence[pathlib.Path]:
    """Write the files. Raises InputError, before any is written, if one has other content."""
    texts = {folder / one: (examples_dir() / one).read_text(encoding="utf-8") for one in files}
    for path, text in texts.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
            raise one_problem(f"{path} exists and differs", hint="choose another folder with -o")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return [*texts]
