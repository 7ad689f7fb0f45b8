"""Polling: waits for something that sends no notification, such as a state in Slurm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.1


def until(poll: Callable[[], T | None], timeout: float, message: Callable[[], str]) -> T:
    """Call `poll` ten times per second until its result is true, and return that result.

    Raises TimeoutError(message()) after `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while not (result := poll()):
        if time.monotonic() > end:
            raise TimeoutError(message())
        time.sleep(POLL_SECONDS)
    return result
