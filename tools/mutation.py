"""Mutation score of packages or modules: python tools/mutation.py [PATH ...] [--mutants N].

Breaks one expression or statement at a time in a copy of the tree, runs the quick tests, and lists
the mutants that no test noticed. The mutants of each path are drawn with a fixed seed, so that two
runs over the same code give the same score.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from queue import SimpleQueue

PATHS = ("clusterjobs/sections", "clusterjobs/spec", "clusterjobs/script")
TESTS = (  # those that fail soonest come first
    *("tests/test_goldens.py", "tests/test_bad_specs.py", "tests/plan", "tests/spec"),
    *("tests/render", "tests/frameworks", "tests/commands"),
)
# ShellCheck takes most of the time, and the goldens compare the same scripts.
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-k", "not golden_script")
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "dist", ".*_cache")

# fmt: off
_SWAPS: dict[type, type] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}
# fmt: on
_NAMES = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Mutant:
    """These bytes of a file become `new`; `shown` is the change in a line."""

    file: str
    start: int
    end: int
    new: str
    shown: str


def mutants_of(tree: Path, part: str) -> list[Mutant]:
    """Every mutant of a package or a module, in the order of its files."""
    found, whole = [], tree / part
    for path in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
        source, file = path.read_bytes(), str(path.relative_to(tree))
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        for node, new in _changes(ast.parse(source)):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            shown = f"{file}:{node.lineno}  {_change(ast.unparse(node), new)}"
            found.append(Mutant(file, start, end, new, shown))
    return found


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in _visited(tree):
        match node:
            case ast.Compare(ops=[op]) if type(op) in _SWAPS:
                yield node, _with(node, "ops", [_SWAPS[type(op)]()])
            case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in _SWAPS:
                yield node, f"({_with(node, 'op', _SWAPS[type(op)]())})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield node, f"({ast.unparse(operand)})"
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(value)):
                yield node, str(value + 1)
                yield node, str(value - 1)
            case ast.Name(id=name) if name in _NAMES:
                yield node, _NAMES[name]
            case ast.Dict(keys=keys, values=values):
                for i in range(len(keys)):
                    rest = ast.Dict(keys[:i] + keys[i + 1 :], values[:i] + values[i + 1 :])
                    yield node, ast.unparse(rest)
            case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts) if len(elts) > 2:
                for i in range(len(elts)):
                    yield node, _with(node, "elts", elts[:i] + elts[i + 1 :])
            case ast.If(orelse=[]) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield node, "pass"
            case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
                yield node, "pass"


def _visited(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, and f-strings, whose parts have no position before Python 3.12."""
    yield tree
    for name, value in ast.iter_fields(tree):
        for child in value if isinstance(value, list) else [value]:
            fixed = name in ("annotation", "returns") or isinstance(child, ast.JoinedStr)
            if isinstance(child, ast.AST) and not fixed:
                yield from _visited(child)


def _with(node: ast.AST, name: str, value: object) -> str:
    fields = {**dict(ast.iter_fields(node)), name: value}
    return ast.unparse(ast.fix_missing_locations(type(node)(**fields)))


def _change(old: str, new: str) -> str:
    """Where the texts differ, with a few characters around it."""
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    parts = [code[1:] for code in codes if code[0] != "equal"]
    cut = old[max(parts[0][0] - 30, 0) : parts[-1][1] + 10]
    put = new[max(parts[0][2] - 30, 0) : parts[-1][3] + 10]
    return "  ->  ".join(" ".join(text.split())[:100] for text in (cut, put))


def survives(mutant: Mutant | None, tree: Path, tests: list[str], seconds: float) -> bool:
    """Whether the tests pass in this tree with the mutant in it, or without one."""
    file = tree / (mutant.file if mutant else "pyproject.toml")
    source = file.read_bytes()
    if mutant:
        file.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *OPTIONS, *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:  # an endless loop is noticed
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        file.write_bytes(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=PATHS, help="default: " + " ".join(PATHS))
    parser.add_argument("--tests", nargs="+", default=TESTS, help="the quick ones by default")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--mutants", type=int, default=100, help="of each path")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="for one run of the tests")
    args = parser.parse_args()
    trees: SimpleQueue[Path] = SimpleQueue()

    def judge(mutant: Mutant | None) -> bool:
        tree = trees.get()
        try:
            return survives(mutant, tree, args.tests, args.seconds)
        finally:
            trees.put(tree)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        Path(folder).chmod(0o755)  # one test reads the tree as an ordinary user
        for number in range(args.jobs):
            tree = Path(folder, str(number))
            shutil.copytree(args.tree, tree, ignore=_LEFT_OUT, symlinks=True)
            trees.put(tree)
        if not judge(None):
            sys.exit("the tests fail without a mutant")
        survived: Counter[str] = Counter()
        for part in args.paths:
            every = mutants_of(args.tree, part)
            drawn = random.Random(args.seed).sample(every, min(args.mutants, len(every)))
            for mutant, alive in zip(drawn, pool.map(judge, drawn), strict=True):
                survived[part] += alive
                if alive:
                    print(f"survived  {mutant.shown}", flush=True)
            killed = len(drawn) - survived[part]
            print(f"{part}: {killed} killed of {len(drawn)} drawn of {len(every)}", flush=True)


if __name__ == "__main__":
    main()
