"""Which rank wrote a line of a job's log: the labels that launchers put before a line.

    srun --label              `3: text`, ` 3: text`: the task: a rank, or a node's launcher
    mpirun --tag-output       `[1,3]<stdout>:text`; Open MPI 5: `[prterun-n1-9@1,3]<stdout>: text`
    horovodrun                `[3]<stdout>:text`
    torchrun --tee            `[default3]:text`, the number on its node
    torch, of an exception    `[rank3]: text`

It knows text only; it must not know where a log is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
