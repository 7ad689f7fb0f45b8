"""The imports inside clusterjobs: no circle, and ARCHITECTURE.md draws them as they are."""

from __future__ import annotations

import graphlib
import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "draw_packages.py"))
IN_A_FUNCTION = "def use() -> None:\n    from clusterjobs.a import one\n"
FOR_TYPE_CHECKERS = (
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from clusterjobs.a import one\n"
)


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert "clusterjobs.runs.run" in TOOL["in_order"](TOOL["module_imports"]())


def test_the_drawing_of_packages_is_that_of_the_code() -> None:
    drawn = TOOL["drawing"](TOOL["package_imports"](TOOL["module_imports"]()))
    assert TOOL["DRAWING"].findall(TOOL["PAGE"].read_text(encoding="utf-8")) == [drawn], (
        "draw it again: tools/draw_packages.py --write"
    )


@pytest.mark.parametrize("text", [IN_A_FUNCTION, FOR_TYPE_CHECKERS, "import clusterjobs.a.one\n"])
def test_a_circle_is_found_however_it_is_imported(tmp_path: pathlib.Path, text: str) -> None:
    for name in ("__init__", "a/__init__", "a/one", "b/__init__", "b/two"):
        path = tmp_path / "clusterjobs" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "clusterjobs/a/one.py").write_text("from clusterjobs.b import two\n")
    modules = TOOL["module_imports"](tmp_path)
    packages = TOOL["package_imports"](modules)
    assert TOOL["drawing"](packages) == "flowchart TD\n  a --> b\n"
    (tmp_path / "clusterjobs/b/two.py").write_text(text)
    modules = TOOL["module_imports"](tmp_path)
    with pytest.raises(graphlib.CycleError):
        TOOL["in_order"](modules)
    with pytest.raises(graphlib.CycleError):
        TOOL["drawing"](TOOL["package_imports"](modules))
