"""Names of the user's script that its parser needs, without running the script."""

from __future__ import annotations
import __future__

import ast
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple


def tree_of(script: str) -> Optional[ast.Module]:
    """The script as Python reads it; None if it cannot."""
    try:
        with open(script, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return None


def calls_of(tree: ast.AST, names: Sequence[str]) -> List[ast.Call]:
    """The calls of functions with these names, as `name(...)` or `module.name(...)`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else None
            name = function.id if isinstance(function, ast.Name) else name
            if name in names:
                found.append(node)
    return found


def keyword_of(tree: ast.AST, name: str) -> Optional[ast.expr]:
    """The first value that a call gives to the parameter `name`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == name:
                    return keyword.value
    return None


def value_of(tree: ast.Module, script: str, expression: ast.expr) -> Any:
    """The value of an expression of the script; any error if it cannot be known.

    Runs the script's imports, functions, classes and constants that the expression needs, and
    nothing that calls a function: that would begin the training.
    """
    module = types.ModuleType("script")  # where dataclasses look up their annotations
    module.__file__ = script
    sys.modules["script"] = module
    wanted = names_in(expression)
    for statement in reversed(tree.body):  # what is needed is known from the end
        if wanted & set(defined(statement)):
            wanted |= names_in(statement)
    run(tree.body, wanted, vars(module), flags_of(tree))
    code = compile(ast.Expression(expression), script, "eval")
    return eval(code, vars(module))  # the user's own script, in the user's own job


def flags_of(tree: ast.Module) -> int:
    """`from __future__ import annotations` holds for all statements, compiled one by one."""
    imports = [one for one in tree.body if isinstance(one, ast.ImportFrom)]
    names = {alias.name for one in imports if one.module == "__future__" for alias in one.names}
    return __future__.annotations.compiler_flag if "annotations" in names else 0


def names_in(node: ast.AST) -> set[str]:
    """All names that a part of the script uses."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def defined(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines, also inside of `try` and `if`."""
    for one in ast.walk(node):
        if isinstance(one, (ast.Import, ast.ImportFrom)):
            for alias in one.names:
                yield (alias.asname or alias.name).partition(".")[0]
        elif isinstance(one, (ast.FunctionDef, ast.ClassDef)):
            yield one.name
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            yield one.id


KINDS: Tuple[type, ...] = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def run(body: List[ast.stmt], wanted: set[str], names: Dict[str, Any], flags: int) -> None:
    """Run the statements that define wanted names."""
    for statement in body:
        is_constant = isinstance(statement, (ast.Assign, ast.AnnAssign)) and not any(
            isinstance(one, ast.Call) for one in ast.walk(statement)
        )
        if not wanted & set(defined(statement)):
            continue
        if isinstance(statement, (ast.Try, *KINDS)) or is_constant:
            module = ast.Module([statement], [])
            exec(compile(module, names["__file__"], "exec", flags), names)  # as above
        elif isinstance(statement, ast.If):
            run([*statement.body, *statement.orelse], wanted, names, flags)
