"""Compiled templates are kept beside Python's byte code; without that, a render works too."""

from __future__ import annotations

import itertools
import pathlib
import sys
from collections.abc import Callable, Iterator

import pytest

from clusterjobs.script.environment import template_environment

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "tiny-gpt.yaml"


@pytest.fixture
def render(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], str]]:
    """Renders job.sh as a new process would; what is compiled is kept below tmp_path/kept."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "kept"))

    def job_sh() -> str:
        template_environment.cache_clear()
        clusterjobs("render", EXAMPLE, "-o", tmp_path / "out", "--force")
        return (tmp_path / "out" / "job.sh").read_text()

    yield job_sh
    template_environment.cache_clear()


def compiled(folder: pathlib.Path) -> dict[pathlib.Path, bytes]:
    return {file: file.read_bytes() for file in (folder / "kept").rglob("templates/*")}


def test_a_second_render_uses_the_compiled_templates(
    render: Callable[[], str], tmp_path: pathlib.Path
) -> None:
    first, kept = render(), compiled(tmp_path)
    assert {one.suffix for one in kept} == {".pyc"}
    file = next(file for file in kept if file.name.startswith("job.sh"))
    file.write_bytes(kept[file].replace(b"# ==== housekeeping", b"# ==== HOUSEKEEPING"))
    assert render() == first.replace("# ==== housekeeping", "# ==== HOUSEKEEPING") != first


def test_a_damaged_file_and_one_of_another_text_are_made_again(
    render: Callable[[], str], tmp_path: pathlib.Path
) -> None:
    first, kept = render(), compiled(tmp_path)
    names = sorted(kept)
    for name, other in itertools.pairwise(names):
        name.write_bytes(kept[other])
    names[0].write_bytes(b"damaged")
    assert render() == first
    assert compiled(tmp_path) == kept


def test_nothing_is_kept_where_python_keeps_nothing(
    render: Callable[[], str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    first = render()
    assert compiled(tmp_path) == {}
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", "/dev/null/nowhere")
    assert render() == first


def test_what_cannot_be_kept_leaves_no_file_behind(
    render: Callable[[], str], tmp_path: pathlib.Path
) -> None:
    first, kept = render(), compiled(tmp_path)
    for file in kept:
        file.unlink()
        file.mkdir()
    assert render() == first
    assert {one for file in kept for one in file.parent.iterdir()} == kept.keys()
