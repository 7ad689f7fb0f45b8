"""Programs beside Slurm's that hang, flood, speak another language or end with a wrong code."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import clusterjobs
from clusterjobs.lab.lab import until

NODE = pathlib.Path(clusterjobs.__file__).parent / "node"
Tool = Callable[[str, str], None]


@pytest.fixture
def tool(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """`tool("aws", "exit 1")`: a stand-in, in bash; its process group is in the file `pid`."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(name: str, body: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/bash\necho $$ > {tmp_path}/pid\n{body}\n")
        (tmp_path / name).chmod(0o755)

    return write


BEHAVIOUR = {
    "hangs": ("trap '' TERM; sleep 1000 & wait", "NAME was killed: it printed nothing for 1 s"),
    "does not end": (
        "trap '' TERM; exec >&-; sleep 1000 & wait",
        "NAME was killed: it did not end after its output",
    ),
    "one line without end": (
        "dd if=/dev/zero bs=1M count=100000",
        "NAME was killed: it printed a line of more than 1 MiB",
    ),
    "lines without end": ("yes", "NAME was killed: it printed more than 2 MiB"),
    "errors without end": ("yes >&2", "NAME was killed: it complained without end"),
    "another language": ("echo Zugriff verweigert >&2; exit 3", "Zugriff verweigert"),
    "a code without a word": ("exit 9", "exit code 9"),
    "nothing": ("", "no JSON"),
    "no JSON": ("echo Bitte anmelden", "no JSON: Bitte anmelden"),
}


def wait_for_end(tmp_path: pathlib.Path) -> None:
    group = (tmp_path / "pid").read_text().strip()
    until(lambda: not any(_living(group)), 20, lambda: f"group {group} goes on")


def _living(group: str) -> Iterator[str]:
    for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of_group = file.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if of_group == group and state != "Z":
                yield str(file)


@pytest.fixture
def short(modules: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import stage_bucket
    import stage_tool

    monkeypatch.setattr(stage_tool, "QUIET_SECONDS", 1)
    monkeypatch.setattr(stage_tool, "MAX_ANSWER", 2 << 20)
    monkeypatch.setattr(stage_tool, "MAX_ERRORS", 2 << 20)
    monkeypatch.setattr(stage_bucket, "ROUNDS", 1)


@pytest.mark.parametrize("name", ["aws", "s5cmd"])
@pytest.mark.parametrize("behaviour", BEHAVIOUR)
def test_a_listing_ends_with_a_word(
    tmp_path: pathlib.Path,
    tool: Tool,
    short: None,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    behaviour: str,
) -> None:
    import stage_bucket

    body, message = BEHAVIOUR[behaviour]
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool(name, body)
    if name == "s5cmd" and behaviour == "lines without end":
        message = "no JSON: y"
    if name == "s5cmd" and behaviour == "nothing":
        message = "no objects found"
    with pytest.raises(stage_bucket.StageError, match=message.replace("NAME", name)):
        stage_bucket.Bucket("s3://corpus/books").list()
    wait_for_end(tmp_path)


@pytest.mark.parametrize("behaviour", [one for one in BEHAVIOUR if "JSON" not in one])
def test_lfs_ends_with_a_word(
    tmp_path: pathlib.Path,
    tool: Tool,
    short: None,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
) -> None:
    import preload

    body, message = BEHAVIOUR[behaviour]
    monkeypatch.setattr(preload, "STALL_SECONDS", 1)
    tool("lfs", body)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one").write_text("x")
    message = "not in the output of lfs" if behaviour == "nothing" else message
    with pytest.raises(preload.StageError, match=message.replace("NAME", "lfs")):
        preload.preload(str(tmp_path / "data"))
    wait_for_end(tmp_path)


@pytest.mark.parametrize("body", ["sleep 1000", "yes", "yes >&2", "exit 3", "echo Kein Treiber"])
def test_a_probe_says_that_there_is_no_gpu(tmp_path: pathlib.Path, tool: Tool, body: str) -> None:
    tool("nvidia-smi", body)
    program = f"""
import sys; sys.path.insert(0, {str(NODE / "probe")!r})
import probe, types
probe._SECONDS = 1
node = types.SimpleNamespace(notes=[], found={{}})
probe._nvidia(node)
print(node.notes)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "['nvidia-smi found no GPU']\n"
    wait_for_end(tmp_path)


def test_a_description_of_a_node_takes_a_part_of_a_flood(
    tmp_path: pathlib.Path, tool: Tool
) -> None:
    tool("nvidia-smi", "yes GPU | head -c 300000000")
    text = (NODE / "job/describe_node.sh").read_text()
    line = next(one for one in text.splitlines() if "count_gpus <" in one)
    functions = text[: text.index("describe_node() {")]
    body = f"{functions}\nshown() {{ local gpus; {line.strip()}; echo ${{#gpus}}; }}; shown"
    done = subprocess.run(["bash", "-c", body], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100
