"""Cold start: whole processes of clusterjobs, compared with the imports of its libraries.

Both sides use cached byte code, as after the first run of an installed package. Without the cache,
only clusterjobs would be compiled at each start.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.program import installed_program, modules_loaded, started
from benchmarks.specs import ROOT, SITE, TINY, large_spec
from benchmarks.timing import (
    Row,
    at_most,
    first_run_done,
    medians_in_turns,
    process_seconds,
    processor_seconds,
)

TITLE = "Cold start: whole processes"
RUNS = 21
_MAX_MODULES = 110

_LIBRARIES = "import jinja2, yaml, click, pydantic"
# pydantic imports almost nothing until one of its names is used.
_USED = """\
import jinja2, yaml, click
from pydantic import BaseModel
from yaml import CSafeLoader
class Spec(BaseModel, extra="allow"):
    name: str
spec = Spec.model_validate(yaml.load(open({spec!r}), CSafeLoader))
jinja2.Template("#!/bin/bash\\n#SBATCH --job-name={{{{ name }}}}\\n").render(name=spec.name)
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = first_run_done(folder)
        commands = _commands(folder)
        measured = {
            what: partial(processor_seconds, command, environment, ROOT)
            for what, command in commands.items()
        }
        for what in ("used", "tiny"):
            clock = partial(process_seconds, commands[what], environment, ROOT)
            measured[f"{what}, clock"] = clock
        found = medians_in_turns(measured, RUNS, warm_up=2)
        modules = modules_loaded(installed_program(), _render(TINY, folder), environment, ROOT)
    ms = {what: seconds * 1000 for what, seconds in found.items()}
    used, in_time = "the 4 libraries used once", "CPU time"
    target, is_met = f"<= {_MAX_MODULES}", modules <= _MAX_MODULES
    return [
        Row("modules of clusterjobs that render tiny-gpt loads", "", None, modules, target, is_met),
        at_most(f"render tiny-gpt / {used}, {in_time}", "ms", ms["used"], ms["tiny"], 1.2),
        at_most(f"render 500 lines / {used}, {in_time}", "ms", ms["used"], ms["large"], 1.2),
        Row(f"plan tiny-gpt / {used}, {in_time}", "ms", ms["used"], ms["plan"]),
        Row(f"render tiny-gpt / import 4 libraries, {in_time}", "ms", ms["libraries"], ms["tiny"]),
        at_most(f"--help / import click, {in_time}", "ms", ms["click"], ms["help"], 1.2),
        Row(f"render tiny-gpt / {used}", "ms", ms["used, clock"], ms["tiny, clock"]),
    ]


def _commands(folder: Path) -> dict[str, list[str]]:
    large = folder / "large.yaml"
    large.write_text(large_spec())
    shutil.copy(SITE, folder / "site.yaml")
    python, program = [sys.executable, "-c"], started(installed_program())
    return {
        "libraries": [*python, _LIBRARIES],
        "used": [*python, _USED.format(spec=str(TINY))],
        "tiny": [*program, *_render(TINY, folder)],
        "large": [*program, *_render(large, folder)],
        "plan": [*program, "plan", str(TINY)],
        "click": [*python, "import click"],
        "help": [*program, "--help"],
    }


def _render(spec: Path, folder: Path) -> list[str]:
    return ["render", str(spec), "-o", str(folder / "rendered" / spec.stem)]
