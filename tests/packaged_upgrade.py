"""An upgrade of clusterjobs: the packaged launch block has other lines, under another version."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest

from clusterjobs import resources
from clusterjobs.admin.templates import overrides
from clusterjobs.script import environment as template_environment

Upgrade = Callable[..., None]


@pytest.fixture
def upgrade(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Upgrade]:
    """`upgrade("0.2.0", (old, new), ...)`: another version, whose launch block has other lines."""
    packaged = tmp_path / "packaged"
    shutil.copytree(resources.templates_dir(), packaged)

    def to(version: str, *changes: tuple[str, str]) -> None:
        block = packaged / "blocks" / "launch.sh.j2"
        text = block.read_text()
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        block.write_text(text)
        monkeypatch.setattr(resources, "templates_dir", lambda: packaged)
        monkeypatch.setattr(overrides, "__version__", version)
        forget()

    def forget() -> None:
        resources.template_texts.cache_clear()
        template_environment.template_environment.cache_clear()

    yield to
    monkeypatch.undo()
    forget()


def edit(file: pathlib.Path, old: str, new: str) -> None:
    """Replace what stands once in a file."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
