"""Waiting for something that can only be asked for, such as a state in Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.1


def until(ask: Callable[[], T | None], timeout: float, why: Callable[[], str]) -> T:
    """The first true answer, asked ten times a second; TimeoutError(why()) after `timeout`."""
    end = time.monotonic() + timeout
    while not (answer := ask()):
        if time.monotonic() > end:
            raise TimeoutError(why())
        time.sleep(POLL_SECONDS)
    return answer
