"""Jinja's own cache of compiled templates, in the user's cache folder.

Compiling all templates takes as long as the rest of a render. If the folder cannot be used, or the
disk is full, the templates are compiled each time.
"""

from __future__ import annotations

import contextlib
import os
import pathlib

import jinja2
from jinja2.bccache import Bucket

from clusterjobs import __version__


class _Cache(jinja2.FileSystemBytecodeCache):
    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def template_cache() -> jinja2.BytecodeCache | None:
    """The cache for this version of clusterjobs and of Jinja; None if its folder cannot be made."""
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        folder = pathlib.Path(
            caches, "clusterjobs", f"templates-{__version__}-{jinja2.__version__}"
        )
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no permission to write, or no home folder
        return None
    return _Cache(str(folder))
