"""A training without a stop file is never stopped, whatever paths the machine has."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NAME = "CLUSTERJOBS_STOP_FILE"
ASK = """
import os, pathlib, sys
sys.path.insert(0, {folder!r})
import train
exists = os.path.exists
os.path.exists = lambda path: path != "" or exists(path)
pathlib.Path.exists = lambda self: True
print(train.stop_file_exists())
"""


@pytest.fixture(params=[None, ""], ids=["unset", "empty"])
def no_stop_file(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    if request.param is not None:
        monkeypatch.setenv(NAME, request.param)


@pytest.mark.slow
def test_the_example_trains_on_where_every_path_exists(no_stop_file: None) -> None:
    pytest.importorskip("torch", reason="needs the extra 'train'")
    code = ASK.format(folder=str(ROOT / "examples" / "tiny_gpt"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def ended_by_the_recommended_code() -> bool:
    """Whether the code of docs/restarts.md saves and ends, with stand-ins for torch and `save`."""
    page = (ROOT / "docs" / "restarts.md").read_text()
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    torch = SimpleNamespace(tensor=bool, distributed=SimpleNamespace(all_reduce=lambda _: None))
    saved: list[int] = []
    names = {"torch": torch, "os": os, "pathlib": pathlib, "sys": sys, "save": saved.append}
    try:
        exec(found[1], {**names, "step": 1})
    except SystemExit:
        return True
    return bool(saved)


def test_the_recommended_code_goes_on_where_every_path_exists(
    no_stop_file: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "exists", bool)
    monkeypatch.setattr(pathlib.Path, "exists", lambda self: True)
    assert not ended_by_the_recommended_code()


def test_the_recommended_code_ends_at_the_stop_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, str(tmp_path / "stop"))
    assert not ended_by_the_recommended_code()
    (tmp_path / "stop").touch()
    assert ended_by_the_recommended_code()
