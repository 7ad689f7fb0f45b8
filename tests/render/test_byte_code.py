"""Compiled templates: used for the same text and compiler only, and never needed."""

from __future__ import annotations

import os
import pathlib
import sys

import jinja2
import pytest

from clusterjobs.render.byte_code import ByteCode


@pytest.fixture(autouse=True)
def python_writes_byte_code(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "byte-code"))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The templates that Jinja had to compile, by name."""
    names: list[str] = []
    compile_ = jinja2.Environment.compile

    def noted(self: jinja2.Environment, source: str, name: str, *rest: object) -> object:
        names.append(name)
        return compile_(self, source, name, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(jinja2.Environment, "compile", noted)
    return names


def rendered(folder: pathlib.Path, maker: pathlib.Path) -> str:
    """As another process would render it, with nothing in memory."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), bytecode_cache=ByteCode([str(maker)])
    )
    return environment.get_template("t.j2").render(name="x")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "t.j2").write_text("a {{ name }}")
    (folder / "maker.py").write_text("1")
    return folder


def kept(tmp_path: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in (tmp_path / "byte-code").rglob("*") if path.is_file()]


def test_a_template_is_compiled_once(
    folder: pathlib.Path, tmp_path: pathlib.Path, compiled: list[str]
) -> None:
    assert rendered(folder, folder / "maker.py") == "a x"
    assert rendered(folder, folder / "maker.py") == "a x"
    assert compiled == ["t.j2"]
    assert [path.suffix for path in kept(tmp_path)] == [".pyc"]


def test_a_changed_template_is_compiled_again(folder: pathlib.Path, compiled: list[str]) -> None:
    rendered(folder, folder / "maker.py")
    template = folder / "t.j2"
    before = template.stat()
    template.write_text("b {{ name }}")
    os.utime(template, ns=(before.st_atime_ns, before.st_mtime_ns))  # not even the time tells
    assert rendered(folder, folder / "maker.py") == "b x"
    assert compiled == ["t.j2", "t.j2"]


def test_after_a_change_of_the_compiler_all_is_compiled_again(
    folder: pathlib.Path, compiled: list[str]
) -> None:
    rendered(folder, folder / "maker.py")
    (folder / "maker.py").write_text("22")
    rendered(folder, folder / "maker.py")
    assert compiled == ["t.j2", "t.j2"]


@pytest.mark.parametrize("length", [0, 10, 64, 70, 200])
def test_damaged_byte_code_is_made_anew(
    folder: pathlib.Path, tmp_path: pathlib.Path, compiled: list[str], length: int
) -> None:
    rendered(folder, folder / "maker.py")
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    assert rendered(folder, folder / "maker.py") == "a x"
    assert compiled == ["t.j2", "t.j2"]
    assert file.read_bytes()[:64] == whole[:64]


def test_where_nothing_can_be_written_it_is_compiled_each_time(
    folder: pathlib.Path, tmp_path: pathlib.Path, compiled: list[str]
) -> None:
    (tmp_path / "byte-code").write_text("a file where the folder would be")
    assert rendered(folder, folder / "maker.py") == "a x"
    assert rendered(folder, folder / "maker.py") == "a x"
    assert compiled == ["t.j2", "t.j2"]


def test_nothing_is_written_where_python_is_told_so(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert rendered(folder, folder / "maker.py") == "a x"
    assert kept(tmp_path) == []


def test_it_lies_beside_the_templates_where_python_is_told_nothing(
    folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", None)
    rendered(folder, folder / "maker.py")
    assert [path.parent for path in folder.rglob("*.pyc")] == [folder / "__pycache__"]
