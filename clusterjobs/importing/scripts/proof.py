"""Compares the job of an imported spec with the script: its words, its variables, its size."""

import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clusterjobs.clusters.source import is_path
from clusterjobs.errors import InputError, Problem
from clusterjobs.importing.scripts.marks import UNKNOWN
from clusterjobs.importing.scripts.record import words_of
from clusterjobs.importing.scripts.spec import Imported, Line
from clusterjobs.runs.load import load
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.known_references import NODE_RANK
from clusterjobs.text import Value, parts_of, show

_ROUNDS = 30  # each leaves out the keys that the job sets itself
_IS_UNKNOWN = re.compile(rf"\$\{{?{UNKNOWN}")


class Proof(NamedTuple):
    """What the spec launches. `text`: the spec; `derived`: keys that every job sets itself, and
    directives that need no key -> why.

    `missing`: what was not carried over.
    `problems`: why it does not render; then nothing was compared. `differences`: in the words.
    `words`, `variables`: how many are equal. `allocation`: what the job gets, where the script
    asks for something else.
    """

    text: str
    derived: Mapping[str, str]
    problems: tuple[Problem, ...]
    differences: tuple[str, ...]
    words: int
    variables: int
    missing: tuple[Line, ...]
    allocation: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        return not self.problems and not self.differences


def prove(imported: Imported, folder: pathlib.Path, cluster: str | None, written_to: str) -> Proof:
    """Render the spec as it would be in `folder`, and compare. Problems name `written_to`.

    A key that is refused is left out, with the reason that `render` gives: the job sets it itself
    (`MASTER_ADDR`), or it is missing.
    `cluster`: None if none was named; then a cluster of the script's size takes its place. It also
    says which keys to leave out where the spec does not fit to the cluster that was named.
    """
    left_out: dict[str, str] = {}
    proof = _proof(imported, folder, cluster, written_to, left_out)
    if proof.problems and cluster:
        _proof(imported, folder, None, written_to, left_out)
        proof = _proof(imported, folder, cluster, written_to, left_out)
    return proof


def _proof(
    imported: Imported,
    folder: pathlib.Path,
    cluster: str | None,
    written_to: str,
    left_out: dict[str, str],
) -> Proof:
    """The proof with one cluster; what it refuses is added to `left_out`."""
    for _ in range(_ROUNDS):
        text = imported.text(left_out)
        derived = {path: why for path, why in left_out.items() if _is_derived(path, why)}
        not_needed = {**imported.derived, **derived}
        missing = tuple(imported.missing_without(left_out, derived))
        try:
            plans = _plans(text, imported, folder, cluster)
        except InputError as error:
            refused = {
                one.path: ": ".join(filter(None, (one.what, one.hint.partition(";")[0])))
                for one in error.problems
                if not one.warning and re.match(r"(env|sbatch|srun)\.", one.path)
            }
            if not refused.keys() - left_out.keys():
                problems = tuple(
                    one._replace(where=one.where and one.where._replace(file=written_to))
                    for one in error.problems
                    if not one.warning
                )
                return Proof(text, not_needed, problems, (), 0, 0, missing)
            left_out |= refused
        else:
            points = imported.points or (imported,)
            done = [_compared(one, left_out, plan) for one, plan in zip(points, plans, strict=True)]
            differences = tuple(dict.fromkeys(text for found, _, _ in done for text in found))
            words = sum(one for _, one, _ in done)
            variables = sum(one for _, _, one in done)
            allocation = tuple(_allocation(points[0], plans[0], knows_nodes=cluster is not None))
            return Proof(text, not_needed, (), differences, words, variables, missing, allocation)
    raise AssertionError("each round leaves out at least one key")


def _allocation(imported: Imported, plan: Plan, *, knows_nodes: bool) -> Iterator[str]:
    """What the job gets of each node, where the script asks for something else."""
    options, size, placement = imported.options, imported.size, plan.placement
    added = [] if "exclusive" in options or not placement.exclusive else ["whole nodes"]
    own_memory = options.get("mem") == "0"
    if not own_memory and any(one.name == "mem" and one.value == 0 for one in plan.job.directives):
        added.append("all memory (--mem=0)")
    if added:
        hint = "; sbatch: {exclusive: false} shares the nodes" if len(added) == 2 else ""
        yield f"{' with '.join(added)}, for which the script does not ask{hint}"
    cpus, tasks = options.get("cpus-per-task", ""), size.tasks_per_node or 1
    if knows_nodes and cpus.isdecimal() and placement.cpus not in (None, int(cpus) * tasks):
        yield f"{placement.cpus} CPUs of each node, not {int(cpus) * tasks}"
    gpus = placement.shape.gpus_per_node
    if gpus != (size.gpus_per_node or 0):
        yield f"{gpus} GPUs of each node, not {size.gpus_per_node or 0}"


def _is_derived(path: str, why: str) -> bool:
    """Whether the job sets a refused key itself; else the script's value is lost."""
    by_the_job = re.search(r" follows from |is reserved(?!.*(?:uses it|reads it))", why)
    return bool(by_the_job) and path not in ("env.LD_PRELOAD", "env.CUDA_VISIBLE_DEVICES")


def _plans(text: str, imported: Imported, folder: pathlib.Path, cluster: str | None) -> list[Plan]:
    """The plans of the spec's points; without a cluster, beside a description of one that fits."""
    with tempfile.TemporaryDirectory(dir=folder if cluster else None) as temporary:
        spec = pathlib.Path(temporary) / "imported.yaml"
        if cluster is None:
            (spec.parent / "cluster.yaml").write_text(_description(imported), "utf-8")
            text = re.sub(r"(?m)^cluster: .*$", "cluster: ./cluster.yaml", text)
        elif is_path(cluster):
            text = re.sub(
                r"(?m)^cluster: .*$", f"cluster: {pathlib.Path(cluster).absolute()}", text
            )
        spec.write_text(text, "utf-8")
        return [one.plan for one in load(spec).points]


def _description(imported: Imported) -> str:
    """A cluster with the queue, nodes and GPUs that the script asks for."""
    queues = {
        one.value
        for point in imported.points or (imported,)
        for one in point.entries
        if one.key == "queue"
    }
    nodes, gpus = imported.size.nodes, imported.size.gpus_per_node
    partitions = ", ".join(
        f"{one}: {{nodes: {{node: {nodes}}}}}" for one in sorted(queues) or ["queue"]
    )
    return (
        "kind: slurm\n"
        f"node_types: {{node: {{cpus: 256, gpus: {8 if gpus is None else gpus}}}}}\n"
        f"partitions: {{{partitions}}}\n"
    )


def _compared(
    imported: Imported, left_out: Mapping[str, str], plan: Plan
) -> tuple[list[str], int, int]:
    """The differences, and how many words and variables are equal.

    The job is compared with the second run of the script, of which the spec has nothing. The
    references of the job have the values that the script has seen in that run.
    """
    script = imported.second or imported
    values = script.marks.values()
    wanted = list(script.words)
    found = [_value(word, values) for word in plan.launch.words]
    if found[:2] == ["bash", "-c"] and found[2].startswith("exec "):
        found = words_of(found[2].removeprefix("exec "), values)
    if found[:1] in (["python"], ["python3"]) and wanted[:1] != found[:1]:
        found = found[1:]
        while found[:1] in (["-u"], ["-O"]):
            found = found[1:]
    differences = _difference(script, wanted, found)
    shown = [show(word) for word in plan.launch.words]
    differences += [f"not known: {word}" for word in shown if _IS_UNKNOWN.search(word)]
    values_of = {one.name: one.value for one in plan.environment.variables}
    ours = {name: _value(value, values) for name, value in values_of.items()}
    same = 0
    for name, value in script.variables.items():
        if f"env.{name}" in left_out:
            continue
        if name not in ours:
            differences.append(f"the variable {name} is not set: {script.marks.shown(value)}")
        elif _IS_UNKNOWN.search(show(values_of[name])):
            differences.append(f"not known: the variable {name}")
        elif not _is_same(ours[name], value):
            differences.append(f"the variable {name}: {script.marks.shown(ours[name])}")
        else:
            same += 1
    return differences, len(found), same


def _value(value: Value, values: Mapping[str, str]) -> str:
    """What the job has where its variables have these values; `$NAME` for others."""
    named = {**values, NODE_RANK: values.get("SLURM_NODEID", "")}
    return "".join(
        one if isinstance(one, str) else named.get(one.name, f"${one.name}")
        for one in parts_of(value)
    )


def _is_same(found: str, wanted: str) -> bool:
    """Whether two words are the same, but for slashes that bash removes."""
    return found == wanted or re.sub("/{3,}", "/", found) == wanted


def _difference(script: Imported, wanted: list[str], found: list[str]) -> list[str]:
    if len(wanted) == len(found):
        pairs = [
            (one, other)
            for one, other in zip(wanted, found, strict=True)
            if not _is_same(other, one) and not _IS_UNKNOWN.search(other)
        ]
        if not pairs:
            return []
        wanted, found = [one for one, _ in pairs], [other for _, other in pairs]
    shown = script.marks.shown
    lost = [shown(word) for word in wanted if word not in found]
    new = [shown(word) for word in found if word not in wanted]
    if not lost and not new:
        return ["the order of the words differs"]
    return [f"lost: {word}" for word in lost] + [f"new: {word}" for word in new]
