"""Draws the packages of clusterjobs and the imports between them, from the code.

    tools/draw_packages.py            print the drawing, as Mermaid
    tools/draw_packages.py --write    write it into ARCHITECTURE.md

All imports count, also those in functions and those for type checkers alone. Arrows that follow
from others are left out. A circle is an error.
"""

from __future__ import annotations

import ast
import graphlib
import pathlib
import re
import sys
from collections.abc import Mapping

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGE = "clusterjobs"
DRAWING = re.compile(r"(?s)(?<=```mermaid\n)flowchart.*?(?=```)")

Graph = Mapping[str, set[str]]


def module_imports(root: pathlib.Path = ROOT) -> dict[str, set[str]]:
    """Module -> the modules of clusterjobs that it imports."""
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((root / PACKAGE).rglob("*.py"))
    }
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        names: list[str] = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names += [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}:{node.lineno}: a relative import"
                inside = [f"{node.module}.{one.name}" for one in node.names]
                names += [one if one in files else str(node.module) for one in inside]
        found[module] = {name for name in names if name in files} - {module}
    return found


def package_imports(modules: Graph) -> dict[str, set[str]]:
    """The same between the packages and the modules directly in clusterjobs.

    Without clusterjobs itself: the Python API, which nothing in it imports.
    """
    found: dict[str, set[str]] = {}
    for module, imported in modules.items():
        if module != PACKAGE:
            names = found.setdefault(module.split(".")[1], set())
            names |= {one.split(".")[1] for one in imported if one != PACKAGE}
    return {name: names - {name} for name, names in found.items()}


def in_order(graph: Graph) -> list[str]:
    """Each name behind all that it imports. Raises CycleError."""
    ordered = {name: sorted(graph[name]) for name in sorted(graph)}
    return [*graphlib.TopologicalSorter(ordered).static_order()]


def drawing(packages: Graph) -> str:
    """The packages as a Mermaid flowchart. Raises CycleError."""
    below: dict[str, set[str]] = {}
    lines = []
    for name in in_order(packages):
        indirect = {far for near in packages[name] for far in below[near]}
        below[name] = indirect | packages[name]
        lines += [f"  {name} --> {one}" for one in sorted(packages[name] - indirect)]
    return "\n".join(["flowchart TD", *reversed(lines)]) + "\n"


def main() -> None:
    drawn = drawing(package_imports(module_imports()))
    if sys.argv[1:] == ["--write"]:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(DRAWING.sub(lambda _: drawn, text), encoding="utf-8")
    else:
        print(drawn, end="")


if __name__ == "__main__":
    main()
