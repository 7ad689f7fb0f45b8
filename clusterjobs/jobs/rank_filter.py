"""Filters the lines of one rank from a log that is read in parts.

It knows text only; it must not know where a log is.
"""

from __future__ import annotations

from clusterjobs.jobs.rank_lines import LONGEST_LABEL, Labels

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
