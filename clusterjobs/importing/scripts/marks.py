"""Stand-in values for what only a running job knows, and what takes their places in a spec.

There are two sets of them, which have no text in common: a script runs once with each. What is in
the words of both runs as a whole stand-in can be written as a reference. All other text that
depends on a stand-in (a part of it, the result of arithmetic) differs between the runs.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs.spec.reserved_names import COMPUTED

UNKNOWN = "UNKNOWN"  # starts the names of variables that nothing sets
_FIRST, _SECOND = range(2)
_OF_THE_JOB = {
    "SLURM_JOB_ID": "{{ job.id }}",
    "SLURM_ARRAY_TASK_ID": "{{ job.array_index }}",
    "SLURM_NODEID": "{{ job.node_rank }}",
}


class Mark(NamedTuple):
    """`name`: the variable that has the value, on the node; "" if none has it.

    `unknown`: what the value is, for people, if no reference stands for it; `line`: where it is
    computed, 0 if that is not known. `is_extended`: the script adds to the value, which may be
    unset. `command`: prints it when the job runs, as one of the spec's `values`.
    """

    name: str
    unknown: str = ""
    line: int = 0
    is_extended: bool = False
    command: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The variable of the node. Nothing sets one for an unknown value, so the job ends."""
        what = re.sub(r"\W+", "_", self.unknown.partition(":")[0]).strip("_").upper() or "VALUE"
        return self.name or f"{UNKNOWN}_{what}" + (f"_{self.line}" if self.line else "")

    @property
    def reference(self) -> str:
        if self.is_extended:
            return f"${{{self.name}:-}}"
        if self.command:
            return f"{{{{ values.{self.name.removeprefix(COMPUTED)} }}}}"
        return _OF_THE_JOB.get(self.name, f"{{{{ env.{self.variable} }}}}")


class Marks:
    """The stand-ins of one run; `is_second` chooses the set."""

    def __init__(self, is_second: bool = False) -> None:
        self.is_second = is_second
        self._set = _SECOND if is_second else _FIRST
        self._texts: dict[str, Mark] = {}  # without leading slashes
        self._values: dict[Mark, str] = {}

    def text(self, mark: Mark, more: str = "") -> str:
        """A stand-in that is text. That of the second set has the signs at which scripts cut.

        `more`: the end of the second, if scripts make lists of the value.
        """
        return self._add(mark, self._letters() + more * self._set)

    def path(self, mark: Mark) -> str:
        """A stand-in that is an absolute path.

        It starts with more than one slash: with a single one, bash made a folder's path of it.
        """
        return self._add(mark, self._letters(), self._slashes)

    def number(self, mark: Mark) -> str:
        """A stand-in that scripts can calculate with.

        The two of a mark differ by a prime number, so they have no remainder in common.
        """
        number = 720394101 + 100913 * len(self._texts)
        return self._add(mark, str(number - 668433401 * self._set))

    def values(self) -> Mapping[str, str]:
        """The value of each variable."""
        return {mark.variable: text for mark, text in self._values.items()}

    def computed(self) -> list[Mark]:
        """The marks of what a command prints when the job runs."""
        return [mark for mark in self._values if mark.command]

    @property
    def _slashes(self) -> str:
        return "//" if self._set == _FIRST else "///"

    def _letters(self) -> str:
        start = "an"[self._set]
        digits = f"{len(self._texts):03d}"
        letters = "".join(chr(ord(start) + int(one)) for one in digits)
        return f"kmk{letters}mkm" if self._set == _FIRST else f"XY/{letters.upper()}.Y-Z_YX"

    def _add(self, mark: Mark, text: str, slashes: str = "") -> str:
        if mark not in self._values:
            self._texts[text] = mark
            self._values[mark] = slashes + text
        return self._values[mark]

    # ------------------------------------------------------------------ in the text of a run

    def found_in(self, text: str) -> list[Mark]:
        """The marks whose stand-ins are in a text."""
        return [mark for core, mark in self._texts.items() if core in text]

    def with_references(self, text: str) -> str:
        """The text with references, `{{ env.HOME }}`."""
        return self._replaced(text, "{}", is_reference=True)

    def with_variables(self, text: str) -> str:
        """The text with variables of the node, `${HOME}`, where no reference may be."""
        return self._replaced(text, "${{{}}}")

    def shown(self, text: str) -> str:
        """The text for people, `$HOME`."""
        return self._replaced(text, "${}")

    def _replaced(self, text: str, form: str, is_reference: bool = False) -> str:
        for core, mark in self._texts.items():
            if core not in text:
                continue
            new = form.format(mark.reference if is_reference else mark.variable)
            own = len(self._values[mark]) - len(core)
            pieces = text.split(core)
            done = pieces[0]
            for piece in pieces[1:]:
                done = _without_slashes(done, own) + new + piece
            text = done
        return text


def _without_slashes(before: str, own: int) -> str:
    """The text before a stand-in, less the slashes that belong to it.

    One slash alone is the stand-in's at the start of a path; else it separates two folders.
    """
    slashes = len(before) - len(before.rstrip("/"))
    if slashes >= own:
        return before[: len(before) - own]
    if slashes == 1 and not re.search(r"[\w.}@%+-]/$", before):
        return before[:-1]
    return before
