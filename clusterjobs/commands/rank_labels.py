"""How the lines of a job's log name their ranks: from the job's plan.json and its launcher.

It reads plan.json; it must not read the log.
"""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.rank_filter import RankFilter
from clusterjobs.jobs.rank_lines import Labels
from clusterjobs.launchers import LAUNCHERS


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
