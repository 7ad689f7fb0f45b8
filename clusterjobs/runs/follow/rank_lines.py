"""Which rank wrote a line of a job's log: the labels that launchers put before a line.

    srun --label              `3: text`, ` 3: text`: the task: a rank, or a node's launcher
    mpirun --tag-output       `[1,3]<stdout>:text`; Open MPI 5: `[prterun-n1-9@1,3]<stdout>: text`
    horovodrun                `[3]<stdout>:text`
    torchrun --tee            `[default3]:text`, the number on its node
    torch, of an exception    `[rank3]: text`

A line without a label is of no known rank.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.runs.jobs.folders import read_plan

_TASK = re.compile(r" *(\d{1,7}): ")
_RANK = re.compile(
    r"\[(?:[^][,\s]*,)?(?P<rank>\d{1,7})\]<std(?:out|err|diag)>: ?"
    r"|\[rank(?P<torch>\d{1,7})\]: ?"
    r"|\[default(?P<local>\d{1,7})\]: ?"
)
LONGEST_LABEL = 256  # characters: a longer beginning of a line has no label


class Labels(NamedTuple):
    """How the lines of a job are labelled.

    `ranks_per_task`: ranks of one task of srun; 0 if one task prints the lines of all nodes, so
    that its number does not identify a rank.
    """

    ranks_per_task: int

    def text_of(self, rank: int, line: str) -> RankText | None:
        """The text of rank `rank` without the labels; None if another rank or none wrote it."""
        task, text = None, line
        if match := _TASK.match(line):
            task, text = int(match[1]), line[match.end() :]
        writer, text = self._named(task, text)
        if writer is not None:
            return RankText(text, True) if writer == rank else None
        if task is None or not self.ranks_per_task or task != rank // self.ranks_per_task:
            return None
        return RankText(text, self.ranks_per_task == 1)

    def _named(self, task: int | None, text: str) -> tuple[int | None, str]:
        """The rank that the line names itself, and the rest of the line."""
        writer = None
        while match := _RANK.match(text):
            found = match["rank"] or match["torch"]
            number = int(found or match["local"])
            if found is None:
                number += (task or 0) * self.ranks_per_task
            writer, text = number if writer is None else writer, text[match.end() :]
        return writer, text


class RankText(NamedTuple):
    """A line without its labels. `is_certain`: else any rank of its node may have written it."""

    text: str
    is_certain: bool


# ------------------------------------------------------------------ rank filter
# Filters the lines of one rank from a log that is read in parts.


_LONGEST_WAIT = 1 << 20  # characters: the start of a longer line is printed before its end is read


class RankFilter:
    """The lines of `rank`, without their labels.

    `found`: whether there was one. `is_certain`: false after a line that another rank of the same
    node may have written.
    """

    def __init__(self, labels: Labels, rank: int) -> None:
        self.labels, self.rank = labels, rank
        self.found, self.is_certain = False, True
        self._rest = ""
        self._inside: bool | None = None  # a long line whose beginning was passed on, or left out

    def counts(self, beginning: str) -> bool:
        """Whether a line that begins in this way is one of the rank."""
        return self.labels.text_of(self.rank, beginning) is not None

    def passed(self, text: str) -> str:
        """The whole lines of the rank in the next part of the log."""
        *lines, self._rest = (self._rest + text).split("\n")
        found = [self._line(line + "\n") for line in lines]
        if len(self._rest) > _LONGEST_WAIT:
            found.append(self._line(self._rest))
            self._rest = ""
        return "".join(found)

    def rest(self) -> str:
        """The last line of a log, if it does not end with a newline."""
        text, self._rest = self._rest, ""
        return self._line(text) if text else ""

    def _line(self, line: str) -> str:
        inside, self._inside = self._inside, None
        if inside is None:
            written = self.labels.text_of(self.rank, line[:LONGEST_LABEL])
            inside = written is not None
            if written:
                self.is_certain = self.is_certain and written.is_certain
                line = written.text + line[LONGEST_LABEL:]
        if not line.endswith("\n"):
            self._inside = inside
        self.found = self.found or inside
        return line if inside else ""


# ------------------------------------------------------------------ rank labels
# How the lines of a job's log name their ranks: from the job's plan.json and its launcher.


class RankChoice(NamedTuple):
    """A rank of a job, and what prints its lines."""

    rank: int
    launcher: str
    labels: Labels
    world_size: int

    def filter(self) -> RankFilter:
        return RankFilter(self.labels, self.rank)

    @property
    def uncertain(self) -> str:
        """The note for a log whose lines name only the node, not the rank."""
        first = self.rank // self.labels.ranks_per_task * self.labels.ranks_per_task
        last = min(first + self.labels.ranks_per_task, self.world_size) - 1
        return (
            f"{self.launcher} labels lines with their node: what names no rank is of one of the "
            f"ranks {first} to {last}{self._setting()}"
        )

    def nothing(self, log: pathlib.Path) -> InputError:
        """The log has no line of the rank."""
        if self.labels.ranks_per_task == 1:
            why = f"{self.launcher} labels every line with its rank: this one printed nothing"
        else:
            why = f"{self.launcher} does not label lines with their rank{self._setting()}"
        return one_problem(f"no line of rank {self.rank} in {log}", hint=why)

    def _setting(self) -> str:
        launcher = LAUNCHERS.get(self.launcher)
        setting = launcher.label_setting if launcher else ""
        return f" (to label them: `{setting}` in the spec)" if setting else ""


def rank_choice(folder: pathlib.Path, rank: int, ranks_per_node: int | None) -> RankChoice:
    """The labels of the job in `folder`. `ranks_per_node`: the spec's, if it has one.

    Raises InputError if the job has no such rank, or plan.json has no ranks.
    """
    plan = read_plan(folder / "plan.json")
    derived = plan.get("derived")
    numbers = derived if isinstance(derived, dict) else {}
    world_size, tasks = _count(numbers, "world_size"), _count(numbers, "ntasks_per_node")
    per_node = _count(numbers, "ranks_per_node") or ranks_per_node or tasks
    if not world_size or not tasks or not per_node:
        raise one_problem(f"{folder / 'plan.json'} does not say how many ranks there are")
    if rank >= world_size:
        raise one_problem(
            f"there is no rank {rank}", hint=f"the job has the ranks 0 to {world_size - 1}"
        )
    name = str(plan.get("launcher", ""))
    launcher = LAUNCHERS.get(name)
    per_task = max(1, per_node // tasks)
    by_ssh = launcher and (launcher.over_ssh or (launcher.task_per_rank and per_task > 1))
    if by_ssh:
        per_task = 0  # one task prints the lines of all nodes
    return RankChoice(rank, name, Labels(per_task), world_size)


def _count(numbers: dict[str, Any], key: str) -> int | None:
    value = numbers.get(key)
    return value if isinstance(value, int) and value > 0 else None
