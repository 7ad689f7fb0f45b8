"""The batch protocol between two versions, and what another version may do wrong."""

from __future__ import annotations

import io
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from clusterjobs.admin.impact.batch import OtherVersion
from clusterjobs.errors import InputError
from clusterjobs.sites.folders import SiteFolders

CLUSTERJOBS = str(pathlib.Path(sys.executable).with_name("clusterjobs"))
SPEC = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"


def program(folder: pathlib.Path, text: str) -> str:
    path = folder / "other"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_each_question_gets_one_answer(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.yaml").write_text(SPEC)
    (folder / "b.yaml").write_text(SPEC.replace("command: ./run\n", ""))
    questions = [{"spec": str(folder / name), "site": []} for name in ("a.yaml", "b.yaml")]
    text = "".join(json.dumps(question) + "\n" for question in questions)
    stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    outcome = clusterjobs("render-batch")
    assert (outcome.code, outcome.err) == (0, "")
    version, first, second = map(json.loads, outcome.out.splitlines())
    assert version == {"clusterjobs": "0.1.0"}
    assert first["name"] == "a"
    assert first["files"]["job.sh"].startswith("#!/bin/bash -p\n")
    assert (second["files"], second["rule"]) == ({}, "")
    assert "b.yaml:" in second["message"]
    assert "command" in second["reason"]


def test_batches_are_not_in_the_help(clusterjobs: Callable[..., Any]) -> None:
    assert "render-batch" not in clusterjobs("--help").out


def test_another_version_renders_the_same(folder: pathlib.Path) -> None:
    (folder / "a.yaml").write_text(SPEC)
    other = OtherVersion(CLUSTERJOBS)
    try:
        rendered = other.render(str(folder / "a.yaml"), SiteFolders())
        missing = other.render(str(folder / "missing.yaml"), SiteFolders((folder,)))
    finally:
        other.close()
    assert rendered.files["job.sh"].startswith("#!/bin/bash -p\n")
    assert missing.message.startswith("there is no file ")


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/sh\necho \"Error: no command 'render-batch'\" >&2; exit 2\n",
        "#!/bin/sh\necho Python 3.6 is too old\n",
        "#!/bin/sh\nexit 0\n",
        "#!/bin/sh\necho 3\n",
    ],
    ids=["older", "text", "silent", "number"],
)
def test_a_version_without_batches_is_refused(text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match="cannot render many specs at once"):
        OtherVersion(program(tmp_path, text))


def test_a_program_that_cannot_be_started_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InputError, match=r"cannot start .*other: Exec format error"):
        OtherVersion(program(tmp_path, "no program"))


def test_a_version_that_ends_in_between_is_reported(tmp_path: pathlib.Path) -> None:
    text = '#!/bin/sh\necho \'{"clusterjobs": "0.0.1"}\'\nread question\n'
    other = OtherVersion(program(tmp_path, text))
    assert other.version == "0.0.1"
    with pytest.raises(InputError, match="cannot render many specs at once"):
        other.render("a.yaml", SiteFolders())


def test_keys_of_a_newer_version_are_ignored(tmp_path: pathlib.Path) -> None:
    answers = ({"clusterjobs": "9"}, {"name": "a", "files": {"job.sh": "x"}, "new": 1})
    echo = "".join(f"echo '{json.dumps(answer)}'\n" for answer in answers)
    other = OtherVersion(program(tmp_path, f"#!/bin/sh\n{echo}cat > /dev/null\n"))
    assert other.render("a.yaml", SiteFolders()).files == {"job.sh": "x"}
    other.close()
