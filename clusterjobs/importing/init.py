"""clusterjobs init: writes the first spec, from at most six questions."""

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from clusterjobs.clusters.source import cluster_names, find_kind
from clusterjobs.console import completed_by, show_problems
from clusterjobs.errors import InputError, one_problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.importing.yaml_lines import scalar
from clusterjobs.runs.clusters import find_config_file, read_cluster_file
from clusterjobs.runs.load import load
from clusterjobs.runs.write import write_text
from clusterjobs.sites.folders import find_site_folders, read_text

_EXAMPLES = """\b
Examples:
  clusterjobs init
  clusterjobs init --framework deepspeed --script train.py --nodes 4 --cluster p4d-a100
  clusterjobs init --yes -o exp.yaml
"""
_MOST_READ = 1_000_000  # characters of a script of the user
# What Python scripts import or call -> the framework. The first that is found counts.
_SIGNS = (
    ("huggingface", r"\b(Trainer|SFTTrainer|DPOTrainer|Seq2SeqTrainer)\("),
    ("lightning", r"(?m)^\s*(import|from) (lightning|pytorch_lightning)\b"),
    ("composer", r"(?m)^\s*(import|from) composer\b"),
    ("horovod", r"(?m)^\s*(import|from) horovod\b"),
    ("deepspeed", r"deepspeed\.initialize\("),
    ("accelerate", r"\bAccelerator\("),
    ("jax", r"jax\.distributed\.initialize\("),
    ("torchrun", r"init_process_group\("),
)
# The keys that a framework needs beside the common ones, with values to be changed.
_SIZES = "model: {layers: 24, hidden: 2048, heads: 16, sequence: 2048}  # change it: your model"
_BATCH = "batch: {micro: 8}  # change it: samples on each GPU"
_LENGTH = "args: {train-iters: 100000, lr: 1.5e-4}  # change it"
_NEEDED = {
    "deepspeed": [_BATCH],
    "megatron-lm": [_SIZES, _BATCH, _LENGTH],
    "megatron-deepspeed": [_SIZES, _BATCH, _LENGTH],
    "gpt-neox": ["configs: [small.yml, local_setup.yml]  # change it: your config files"],
    "fairseq": [
        "fairseq: {task: language_modeling, arch: transformer_lm, data: /fsx/data}  # change it",
        "batch: {micro: 8}  # change it: sentences on each GPU",
        "args: {optimizer: adam, lr: 5e-4, max-update: 100000}  # change it",
    ],
    "torchtitan": ["torchtitan: {module: llama3, config: llama3_8b}  # change it"],
}


class Answers(NamedTuple):
    """What a spec is written from; "" for what it does not have."""

    framework: str
    script: str
    nodes: int
    cluster: str
    queue: str
    data: str
    checkpoints: str


@click.command(epilog=_EXAMPLES)
@click.option("--framework", type=click.Choice([*FRAMEWORKS]), help="The program's framework.")
@click.option("--script", help="The Python script, or the command of framework command.")
@click.option("--nodes", type=click.IntRange(min=1), help="The number of nodes.")
@click.option(
    "--cluster",
    metavar="NAME|FILE",
    shell_complete=completed_by("completed_clusters"),
    help="A cluster's name, or its file.",
)
@click.option("--queue", help="The partition, where the cluster has several for GPUs.")
@click.option("--data", metavar="S3|FOLDER", help="Data to stage on the cluster before training.")
@click.option("--checkpoints", metavar="FOLDER", help="Where the training saves checkpoints.")
@click.option("--yes", is_flag=True, help="Ask nothing: take the defaults.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    default=pathlib.Path("exp.yaml"),
    show_default=True,
    help="The file for the spec.",
)
def init(
    framework: str | None,
    script: str | None,
    nodes: int | None,
    cluster: str | None,
    queue: str | None,
    data: str | None,
    checkpoints: str | None,
    yes: bool,
    force: bool,
    output: pathlib.Path,
) -> int:
    """Write a first spec, which renders as it is.

    It asks for what the options do not say, with a default for each. Without a terminal, or with
    --yes, it asks nothing. What it finds in this folder decides the defaults: training scripts, and
    configs of clusters.
    """
    if output.exists() and not force:
        raise one_problem(f"{output} exists", hint="choose another file with -o, or use --force")
    folder = pathlib.Path()
    if scripts := [*folder.glob("*.sbatch"), *folder.glob("*.slurm")]:
        click.echo(f"there is {scripts[0]}: clusterjobs import {scripts[0]} makes a spec of it")
    ask = _default if yes or not sys.stdin.isatty() else _ask
    first, guess = _training_script(folder)
    chosen = framework or ask("framework", guess, click.Choice([*FRAMEWORKS]))
    what = "command" if chosen == "command" else "script"
    is_needed = chosen != "fairseq"
    default = "./train" if chosen == "command" else first
    answers = Answers(
        chosen,
        (script or ask(what, default, None)) if is_needed else "",
        nodes or int(ask("nodes", "2", click.IntRange(min=1))),
        *_place(cluster or ask("cluster, or CLUSTER:QUEUE", _shown_default(folder), None), queue),
        data if data is not None else ask("data to stage (s3://... or a folder)", "", None),
        checkpoints if checkpoints is not None else ask("folder of checkpoints", "", None),
    )
    text = "".join(f"{line}\n" for line in _lines(answers, output))
    write_text(output, text)
    click.echo(f"wrote {output}")
    try:
        load(output)
    except InputError as error:
        show_problems(error.problems)
        click.echo(f"change {output}, then: clusterjobs plan {output}")
        return 1
    click.echo(f"next: clusterjobs plan {output}, then clusterjobs render {output}")
    return 0


def _ask(question: str, default: str, kind: click.ParamType[Any] | None) -> str:
    return str(click.prompt(question, default=default, type=kind, show_choices=False))


def _default(_question: str, default: str, _kind: click.ParamType[Any] | None) -> str:
    return default


def _training_script(folder: pathlib.Path) -> tuple[str, str]:
    """The Python file that trains, and its framework; train.py and torchrun if there is none."""
    files = sorted(folder.glob("*.py"), key=lambda file: ("train" not in file.name, file.name))
    for file in files:
        if framework := framework_of(file):
            return file.name, framework
    return (files[0].name if files else "train.py"), "torchrun"


def framework_of(file: pathlib.Path) -> str:
    """The framework of a Python script by what it calls; "" if that is not known."""
    try:
        text = read_text(file)[:_MOST_READ]
    except InputError:
        return ""
    return next((framework for framework, sign in _SIGNS if re.search(sign, text)), "")


def _cluster(folder: pathlib.Path) -> str:
    """A config or description in this folder, else the first of the site's, else a ready one."""
    for file in sorted(folder.glob("*.y*ml")):
        try:
            text = read_text(file)
            if find_kind(text) or re.search(r"(?m)^Scheduling:", text):
                return f"./{file.name}"
        except InputError:
            continue
    own = sorted(find_site_folders().cluster_files)
    return own[0] if own else next(one for one in cluster_names() if one.startswith("p4d"))


def _shown_default(folder: pathlib.Path) -> str:
    """The cluster, with its queue if it has several."""
    cluster = _cluster(folder)
    first, *others = _queues(cluster) or [""]
    return f"{cluster}:{first}" if others else cluster


def _place(answer: str, queue: str | None) -> tuple[str, str]:
    """Cluster and queue of `CLUSTER` or `CLUSTER:QUEUE`; "" if the cluster has only one.

    Prints the others of several, of which the first is the default.
    """
    cluster, _, named = answer.rpartition(":")
    if not cluster or pathlib.Path(answer).exists():
        cluster, named = answer, ""
    queues = _queues(cluster)
    chosen = queue or named or (queues[0] if len(queues) > 1 else "")
    if others := [one for one in queues if one != chosen and not queue and chosen]:
        click.echo(f"queue {chosen} of {cluster}; it also has {', '.join(others)}: --queue")
    return cluster, chosen


def _queues(cluster: str) -> list[str]:
    """The queues with GPUs, or all if none has, the default first; none of an unknown cluster."""
    try:
        facts = read_cluster_file(find_config_file(cluster)).facts
    except InputError:
        return []
    known = [one for one in facts.partitions if one.name]
    queues = [one.name for one in known if any(group.node_type.gpus for group in one.node_groups)]
    queues = queues or [one.name for one in known]
    return sorted(queues, key=lambda name: name != facts.default_partition)


def _lines(answers: Answers, output: pathlib.Path) -> Iterator[str]:
    name = re.sub(r"[^\w.-]", "-", output.stem).strip("-.") or "exp"
    yield f"# Each key: clusterjobs explain KEY. The plan: clusterjobs plan {output.name}"
    yield f"name: {scalar(name)}"
    yield f"cluster: {scalar(answers.cluster)}"
    if answers.queue:
        yield f"queue: {scalar(answers.queue)}"
    yield f"nodes: {answers.nodes}"
    yield f"framework: {answers.framework}"
    if answers.framework == "command":
        yield f"command: {scalar(answers.script)}"
    elif answers.script:
        yield f"script: {scalar(answers.script)}"
    yield from _NEEDED.get(answers.framework, ())
    if answers.data:
        target = answers.data.rstrip("/").rpartition("/")[2] or "data"
        yield f"data: [{{source: {scalar(answers.data)}, target: {scalar('/fsx/data/' + target)}}}]"
    if answers.checkpoints:
        yield f"checkpoints: {{path: {scalar(answers.checkpoints)}}}"
    yield "# time_limit: 12:00:00"
    yield "# software: {venv: /fsx/venvs/torch}"
    yield "# preflight: true"
