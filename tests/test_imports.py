"""What the commands import: a render must not wait for libraries that it does not use."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
HEAVY = {"torch", "deepspeed", "boto3", "botocore", "pcluster", "matplotlib", "moto", "numpy"}
# Of the standard library, what takes long to import and is seldom needed.
SELDOM_NEEDED = {
    *("asyncio", "http", "unittest", "multiprocessing", "sqlite3", "subprocess", "zoneinfo"),
}
PROGRAM = """
import json, sys
from clusterjobs.cli.main import run
code = run(json.loads(sys.argv[1]))
print(json.dumps({"code": code, "modules": sorted(sys.modules)}))
"""


def libraries_of(arguments: list[str], folder: pathlib.Path) -> set[str]:
    return {name.partition(".")[0] for name in modules_of(arguments, folder)}


def modules_of(arguments: list[str], folder: pathlib.Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["code"] == 0, done.stderr
    return set(report["modules"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["render", "--help"],
        ["render", str(EXAMPLES / "tiny-gpt.yaml"), "-o", "out"],
        ["plan", str(EXAMPLES / "tiny-gpt.yaml"), "--json"],
        ["diff", str(EXAMPLES / "tiny-gpt.yaml")],
    ],
    ids=lambda arguments: " ".join(arguments[:1] + arguments[-1:]),
)
def test_command_imports_nothing_heavy(arguments: list[str], tmp_path: pathlib.Path) -> None:
    loaded = libraries_of(arguments, tmp_path)
    assert "clusterjobs" in loaded
    assert loaded & HEAVY == set()


def test_help_imports_neither_libraries_nor_what_only_failures_need(tmp_path: pathlib.Path) -> None:
    loaded = libraries_of(["--help"], tmp_path)
    assert loaded & {"yaml", "jinja2", "pydantic", "tempfile", "traceback"} == set()


def test_render_imports_no_part_of_the_standard_library_for_nothing(
    tmp_path: pathlib.Path,
) -> None:
    loaded = libraries_of(["render", str(EXAMPLES / "tiny-gpt.yaml"), "-o", "out"], tmp_path)
    assert loaded & SELDOM_NEEDED - needed_by_dependencies() == set()


def needed_by_dependencies() -> set[str]:
    program = """
import jinja2, yaml, click, sys
from pydantic import BaseModel
class Spec(BaseModel):
    name: str
print(*{name.split(".")[0] for name in sys.modules})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_render_imports_at_most_110_of_our_modules(tmp_path: pathlib.Path) -> None:
    """Each costs time at every start. A deferred import is one for what most specs do not use."""
    loaded = modules_of(["render", str(EXAMPLES / "tiny-gpt.yaml"), "-o", "out"], tmp_path)
    assert len([name for name in loaded if name.partition(".")[0] == "clusterjobs"]) <= 110


def test_render_imports_the_framework_of_the_spec_and_no_other(tmp_path: pathlib.Path) -> None:
    loaded = modules_of(["render", str(EXAMPLES / "tiny-gpt.yaml"), "-o", "out"], tmp_path)
    assert "clusterjobs.frameworks.deepspeed" in loaded
    others = {"command", "gpt_neox", "megatron_deepspeed", "torchrun"}
    assert loaded & {f"clusterjobs.frameworks.{name}" for name in others} == set()
