"""The schema in a real language server: what an editor completes, shows and marks in a spec.

The server is the package yaml-language-server of npm, put into the user's cache once. The tests
skip where there is no npm, or no index that has it.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from clusterjobs.lab.slurm import cache_dir
from clusterjobs.reference.schema import spec_schema

pytestmark = pytest.mark.slow  # npm, the first time
VERSION = "1.25.0"
SPEC = """\
# yaml-language-server: $schema=clusterjobs.schema.json
name: gpt
cluster: p4d-a100
framework: deepspeed
nodes: two
script: train.py
precision:~
batch: {micro: 8}
zero: {stage: 4}
restarts:
~~
nodse: 3
""".replace("~", " ")  # the cursor is behind these spaces


class Server:
    """One language server; messages as the Language Server Protocol has them."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path) -> None:
        self._process = subprocess.Popen(
            [str(program), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder
        )
        self._number = 0
        self.diagnostics: dict[str, list[Any]] = {}

    def notify(self, method: str, parameters: Any) -> None:
        self._send({"method": method, "params": parameters})

    def ask(self, method: str, parameters: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while (found := self.read()).get("id") != self._number or "method" in found:
            pass
        return found.get("result")

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message; requests of the server are answered."""
        assert self._process.stdout
        length = 0
        while (line := self._process.stdout.readline()) != b"\r\n":
            assert line, "the server has ended"
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "method" in message and "id" in message:
            wanted = message["params"].get("items", []) if message["params"] else []
            self._send({"id": message["id"], "result": [{} for _ in wanted] or None})
        return message

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()  # also closes the pipes


@pytest.fixture(scope="module")
def program() -> pathlib.Path:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("no npm here")
    folder = cache_dir() / f"yaml-language-server-{VERSION}"
    found = folder / "node_modules" / ".bin" / "yaml-language-server"
    if not found.exists():
        folder.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder)]
        done = subprocess.run(
            [*words, f"yaml-language-server@{VERSION}"], capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"npm cannot install yaml-language-server: {done.stderr.strip()[-200:]}")
    return found


@pytest.fixture(scope="module")
def server(
    program: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    folder = tmp_path_factory.mktemp("editor")
    (folder / "clusterjobs.schema.json").write_text(json.dumps(spec_schema()))
    spec = folder / "spec.yaml"
    spec.write_text(SPEC)
    started = Server(program, folder)
    try:
        uri = folder.as_uri()
        root = {"rootUri": uri, "workspaceFolders": [{"uri": uri, "name": "editor"}]}
        started.ask("initialize", {"processId": None, "capabilities": {}, **root})
        started.notify("initialized", {})
        settings = {"yaml": {"completion": True, "hover": True, "validate": True}}
        started.notify("workspace/didChangeConfiguration", {"settings": settings})
        document = {"uri": spec.as_uri(), "languageId": "yaml", "version": 1, "text": SPEC}
        started.notify("textDocument/didOpen", {"textDocument": document})
        yield started, spec.as_uri()
    finally:
        started.end()


def _place(text: str, behind: bool = False) -> dict[str, int]:
    """The position of a text in the spec, or of its end."""
    lines = SPEC.splitlines()
    number = next(n for n, line in enumerate(lines) if n and text in line)
    column = lines[number].index(text)
    return {"line": number, "character": column + (len(text) if behind else 0)}


@pytest.mark.parametrize(
    ("after", "offered"),
    [
        ("precision: ", {"fp32", "fp16", "bf16"}),
        ("framework: ", {"deepspeed", "torchrun", "megatron-lm"}),
        ("micro: 8", set()),
        ("batch: {", {"global", "accumulation"}),
    ],
)
def test_it_completes(server: tuple[Server, str], after: str, offered: set[str]) -> None:
    found = _complete(server, _place(after, behind=True))
    assert offered <= found


def test_it_completes_keys_below_a_key(server: tuple[Server, str]) -> None:
    line = _place("restarts:")["line"] + 1
    assert {"failure", "requeue"} & _complete(server, {"line": line, "character": 2})


def _complete(server: tuple[Server, str], place: dict[str, int]) -> set[str]:
    started, uri = server
    asked = {"textDocument": {"uri": uri}, "position": place}
    found = started.ask("textDocument/completion", asked)
    items = found["items"] if isinstance(found, dict) else found
    return {item["label"].strip('"') for item in items}


@pytest.mark.parametrize(
    ("over", "shown"),
    [
        ("nodes", "number of nodes"),
        ("precision", "fp32"),
        ("micro", "samples on each GPU"),
        ("zero", "ZeRO"),
        ("script", "the Python script"),
    ],
)
def test_it_shows_the_meaning(server: tuple[Server, str], over: str, shown: str) -> None:
    started, uri = server
    asked = {"textDocument": {"uri": uri}, "position": _place(over)}
    found = started.ask("textDocument/hover", asked)
    assert shown in json.dumps(found["contents"])


def test_it_marks_what_render_refuses(server: tuple[Server, str]) -> None:
    started, uri = server
    while len(started.diagnostics.get(uri, [])) < 3:
        started.read()
    lines = {one["range"]["start"]["line"] for one in started.diagnostics[uri]}
    wanted = {_place(text)["line"] for text in ("nodes: two", "stage: 4", "nodse: 3")}
    assert wanted <= lines
