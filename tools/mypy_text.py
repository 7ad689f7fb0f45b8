"""A plug-in of mypy: refuses a `Text` in `str()`, in an f-string and in `str.format`.

Its references would be lost, so that printing one raises a TypeError; here it is found before.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionContext, MethodContext, Plugin
from mypy.types import Instance, Type, UnionType, get_proper_type

_TEXT = "clusterjobs.text.Text"


def _has_text(kind: Type) -> bool:
    proper = get_proper_type(kind)
    if isinstance(proper, UnionType):
        return any(map(_has_text, proper.items))
    return isinstance(proper, Instance) and proper.type.fullname == _TEXT


def _refuse(context: FunctionContext | MethodContext) -> Type:
    if any(_has_text(kind) for kinds in context.arg_types for kind in kinds):
        context.api.fail("A Text has references: write joined() or show()", context.context)
    return context.default_return_type


class _Plugin(Plugin):
    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _refuse if fullname == "builtins.str.format" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        return _refuse if fullname in ("builtins.str", "builtins.format") else None


def plugin(_version: str) -> type[Plugin]:
    """What mypy calls."""
    return _Plugin
