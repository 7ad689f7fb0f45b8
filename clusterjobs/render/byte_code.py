"""Compiled templates, kept where Python keeps compiled modules: in `__pycache__` beside them.

Who may write there may change the templates, and this program too, so the byte code is trusted as
far as they are, and no further. It is used for the same text, made by the same compiler, only. A
folder that cannot be written, or PYTHONDONTWRITEBYTECODE, costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import pathlib
import sys
from collections.abc import Iterable
from importlib.util import MAGIC_NUMBER, cache_from_source

import jinja2
from jinja2.bccache import Bucket, bc_magic


class ByteCode(jinja2.BytecodeCache):
    """Jinja's store of compiled templates. `makers` are the files that say what is compiled how."""

    def __init__(self, makers: Iterable[str]) -> None:
        found = [pathlib.Path(file).stat() for file in makers]
        ages = [(one.st_size, one.st_mtime_ns) for one in found]  # as Python tells its own
        self._made_by = repr((MAGIC_NUMBER, bc_magic, ages))

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The path of the byte code; PYTHONPYCACHEPREFIX moves it."""
        return cache_from_source(filename or name)

    def get_source_checksum(self, source: str) -> str:
        """Of the text, and of what compiles it."""
        return hashlib.sha256(f"{self._made_by}{source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, if the code that lies there was made of the same."""
        try:
            data = pathlib.Path(bucket.key).read_bytes()
            if data.startswith(bucket.checksum.encode()):
                bucket.code = marshal.loads(data[len(bucket.checksum) :])
        except (OSError, EOFError, ValueError, TypeError):  # not there, or damaged
            return

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code for the next time, if that can be done: whole or not at all."""
        if sys.dont_write_bytecode:
            return
        path = pathlib.Path(bucket.key)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("xb") as file:
                file.write(bucket.checksum.encode() + marshal.dumps(bucket.code))
            unfinished.replace(path)
        except OSError:
            return
