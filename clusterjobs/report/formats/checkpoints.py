"""DeepSpeed's lines about its checkpoints, whichever framework calls it.

    [Torch] End Load checkpoint from /checkpoints/global_step100/mp_rank_00_model_states.pt...

Sources: deepspeed/runtime/engine.py, runtime/checkpoint_engine/torch_checkpoint_engine.py. Each
rank may print them, some for each of its files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.report.records import Event, EventKind, Window

_KINDS: dict[str, EventKind] = {
    "Saving model checkpoint: ": "saving",
    "End Load checkpoint from ": "resumed",
    "Loaded checkpoint from ": "resumed",
    "successfully loaded ": "resumed",
}
_STEP = re.compile(r"/global_step(\d{1,15})/")


class Checkpoints:
    """One log. The tag of a checkpoint has its step, unless the program chooses another one."""

    name = "checkpoints"
    hints: tuple[str, ...] = ("/global_step",)

    def __init__(self) -> None:
        self._last: Event | None = None

    def read(self, line: str, rank: int | None) -> Iterable[Window | Event]:  # noqa: ARG002
        kind = next((kind for text, kind in _KINDS.items() if text in line), None)
        if kind and (found := _STEP.search(line)):
            event = Event(kind, int(found[1]))
            if event != self._last:
                self._last = event
                yield event
