"""Specs that are given to the real parsers: rows of asked_specs/*.yaml, and the answers."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest
from real_parsers import fairseq_environment
from spec_rows import Row, merged, plan_of_row

from clusterjobs import resources
from clusterjobs.sections.argument_check import request_of
from clusterjobs.sections.plan import Plan
from clusterjobs.text import show
from clusterjobs.yaml import document

FOLDER = pathlib.Path(__file__).with_name("asked_specs")
# A folder with checkouts of frameworks that no index has: Megatron-LM, Megatron-DeepSpeed,
# gpt-neox; and with a virtual environment of torchtitan.
CHECKOUTS = "CLUSTERJOBS_CHECKOUTS"


class Page(NamedTuple):
    """A file of asked_specs: what the framework needs, and its specs."""

    name: str
    needs: str
    checkout: str
    python: str
    preload: list[str]
    script: str
    right: list[Row]
    wrong: list[Row]


def read(name: str) -> Page:
    page = document.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), name).value
    base = {"preflight": True, **page["base"]}
    kinds = {
        kind: [
            Row(f"{name}:{row['name']}", merged(base, row.get("spec", {})), {}, row)
            for row in page[kind]
        ]
        for kind in ("right", "wrong")
    }
    texts = {key: page.get(key, "") for key in ("needs", "checkout", "python", "script")}
    return Page(name, **texts, preload=page.get("preload", []), **kinds)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def environment_of(page: Page) -> dict[str, str]:
    """The variables of a Python that has the framework; a skip where there is none."""
    if page.needs == "fairseq":
        return fairseq_environment()
    if page.needs and importlib.util.find_spec(page.needs) is None:
        pytest.skip(f"{page.needs} is not installed")
    return dict(os.environ)


def python_of(page: Page) -> str:
    """The Python that asks: the virtual environment's of this name; a skip where there is none."""
    if not page.python:
        return sys.executable
    found = pathlib.Path(os.environ.get(CHECKOUTS, "/nonexistent")) / page.python / "bin/python"
    if not found.is_file():
        pytest.skip(f"no virtual environment {page.python} in the folder {CHECKOUTS}")
    return str(found)


def workdir_of(page: Page, folder: pathlib.Path) -> pathlib.Path:
    """Where the script is: a checkout, or a folder with the page's own."""
    if page.checkout:
        found = pathlib.Path(os.environ.get(CHECKOUTS, "/nonexistent")) / page.checkout
        if not found.is_dir():
            pytest.skip(f"no checkout of {page.checkout} in the folder {CHECKOUTS}")
        return found
    (folder / "train.py").write_text(page.script)
    return folder


def request_of_plan(plan: Plan, folder: pathlib.Path) -> dict[str, Any]:
    """The request of a plan; its config files are written into the folder, the job's."""
    assert plan.argument_check
    folder.mkdir(parents=True)
    for file in plan.files.configs:
        (folder / file.folder).mkdir(parents=True, exist_ok=True)
        (folder / file.folder / file.name).write_text(show(file.text))
    request: dict[str, Any] = json.loads(request_of(plan, plan.argument_check, is_in_job=False))
    return {**request, "variables": {"job_dir": str(folder)}}


def answers(
    plans: Iterable[tuple[Plan, pathlib.Path]],
    folder: pathlib.Path,
    preload: Iterable[str],
    environment: Mapping[str, str],
    python: str = sys.executable,
) -> list[dict[str, Any]]:
    """What the real parser says of each plan, in its workdir."""
    programs, asked = folder / "programs", []
    programs.mkdir(parents=True)
    for number, (plan, workdir) in enumerate(plans):
        request = request_of_plan(plan, folder / f"job-{number}")
        asked.append({"workdir": str(workdir), "request": request})
        assert plan.argument_check
        for name in resources.with_imports(plan.argument_check.programs):
            (programs / name).write_text(resources.node_program(name))
    done = subprocess.run(
        [python, "-B", str(pathlib.Path(__file__).with_name("ask_parsers.py"))],
        input=json.dumps({"programs": str(programs), "preload": [*preload], "asked": asked}),
        capture_output=True,
        text=True,
        env={**environment, "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def answers_of(page: Page, rows: Iterable[Row], folder: pathlib.Path) -> list[dict[str, Any]]:
    environment, workdir = environment_of(page), workdir_of(page, folder)
    plans = [(plan_of_row(row), workdir) for row in rows]
    return answers(plans, folder / "asked", page.preload, environment, python_of(page))
