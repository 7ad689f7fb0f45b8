"""Loads pickles of plain values, and refuses all others. It must not know what they mean.

It must be able to neither run code nor take more time or memory than the data is long. So it is
Python's own loader in Python, with few opcodes: the one in C reserves memory for any index that
a pickle names, and computes hashes of nested tuples for hours.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

# Those that PyTorch writes, and those that Python writes for the same values.
_ALLOWED = (
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET"),
    *("LONG_BINGET", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("GLOBAL", "STACK_GLOBAL"),  # refused by find_class, which says the name
)
_NAMES = {ord(one.code): one.name for one in pickletools.opcodes}


class _Loader(pickle._Unpickler):
    stack: list[Any]  # these two are Python's own
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and plain values need no names")

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set(key, value)

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self._set(key, value)

    def _set(self, key: Any, value: Any) -> None:
        if not isinstance(key, str) or not isinstance(self.stack[-1], dict):
            raise pickle.UnpicklingError("a mapping's keys must be texts")
        self.stack[-1][key] = value


def _refuse(code: int) -> Any:
    def refuse(_: _Loader) -> None:
        raise pickle.UnpicklingError(f"it has {_NAMES[code]}, and plain values need none")

    return refuse


_Loader.dispatch = {
    code: load if _NAMES[code] in _ALLOWED else _refuse(code)
    for code, load in pickle._Unpickler.dispatch.items()
} | {
    pickle.SETITEM[0]: _Loader.load_setitem,
    pickle.SETITEMS[0]: _Loader.load_setitems,
}


def load(data: bytes) -> Any:
    """Numbers, texts, lists, tuples and mappings. Raises ValueError for all else."""
    try:
        return _Loader(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(str(error) or type(error).__name__) from None
