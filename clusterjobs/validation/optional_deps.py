"""The optional extra `aws`: whether it is installed, and its output, environment and event loop."""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping


def is_installed() -> bool:
    """Whether ParallelCluster and moto are installed; does not import them."""
    return all(importlib.util.find_spec(name) for name in ("pcluster", "moto", "boto3"))


def release() -> str:
    """The release of the ParallelCluster that this process imports."""
    return importlib.metadata.version("aws-parallelcluster")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the output, log messages and warnings of ParallelCluster, boto3 and moto.

    The handler at the root logger keeps ParallelCluster's `logging.warning` from installing a
    permanent one.
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
    """Set environment variables (None unsets one), and restore their old values afterwards."""
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
    """Set a new event loop, because ParallelCluster uses asyncio's current one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
