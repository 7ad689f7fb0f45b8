"""Which commands are launchers themselves: accelerate launch, torchrun and others."""

from __future__ import annotations

import re

_STARTERS = re.compile(
    r"(?:^|[\s/;&|(])(?:accelerate\s+launch|torchrun|deepspeed|composer|colossalai\s+run"
    r"|-m\s*(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch))(?:\s|$)"
)


def starts_ranks_itself(command: tuple[str, ...] | None) -> bool:
    """Whether a command is a launcher, which starts a process for each GPU of its node."""
    return command is not None and _STARTERS.search(" ".join(command)) is not None
