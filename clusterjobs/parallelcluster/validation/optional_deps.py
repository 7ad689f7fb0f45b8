"""The optional extra `aws`: is it there, and quiet while it is used."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping

HOW_TO_INSTALL = "pip install 'clusterjobs[aws]'"


def is_installed() -> bool:
    """Whether ParallelCluster and moto can be imported; does not import them."""
    return all(importlib.util.find_spec(name) for name in ("pcluster", "moto", "boto3"))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What ParallelCluster, boto3 and moto print, log and warn about does not reach the user.

    A handler at the root keeps ParallelCluster's `logging.warning` from installing one for good.
    """
    root, level, handler = logging.getLogger(), logging.root.manager.disable, logging.NullHandler()
    root.addHandler(handler)
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        root.removeHandler(handler)


@contextlib.contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for a while; None takes one away. What was there before comes back."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def event_loop() -> Iterator[None]:
    """A loop of its own for ParallelCluster, which asks asyncio for the current one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
