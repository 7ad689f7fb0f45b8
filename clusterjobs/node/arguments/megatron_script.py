"""What a pretraining script of Megatron adds to its parser."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from typing import Any, Callable, Dict, Optional, Tuple

import script_names
from argument_request import Request

Extra = Optional[Callable[[Any], Any]]


def parser_of(request: Request) -> Tuple[Extra, Dict[str, Any], bool]:
    """`extra_args_provider`, `args_defaults`, and whether all flags of the script are known."""
    tree = script_names.tree_of(request.script)
    if tree is None:
        return None, {}, False
    defaults: Dict[str, Any] = {}
    written = script_names.keyword_of(tree, "args_defaults")
    if written is not None:
        try:
            defaults = ast.literal_eval(written)
        except ValueError:
            pass  # it is computed, and only completes what the user leaves out
    provider = script_names.keyword_of(tree, "extra_args_provider")
    if provider is None:
        return None, defaults, True
    try:
        return script_names.value_of(tree, request.script, provider), defaults, True
    except Exception:  # its imports may need a GPU
        return None, defaults, False


def parsed(request: Request, parse_args: Callable[..., Any]) -> Tuple[Any, Dict[str, Any]]:
    """The arguments by Megatron's own parser, and the script's defaults."""
    extra, defaults, all_known = parser_of(request)

    def parse(words: Any) -> Any:
        sys.argv = [request.script, *words]
        return parse_args(extra, ignore_unknown_args=not all_known)

    return request.parse(parse, request.arguments), defaults


def check_schedule(module: str) -> None:
    """The schedule of the learning rate, which asks for an optimizer: one without parameters."""
    try:
        training = importlib.import_module(module)
    except ImportError:
        return  # it imports what only a GPU needs
    training.get_optimizer_param_scheduler(types.SimpleNamespace(param_groups=()))
