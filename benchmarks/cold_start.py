"""Cold start: whole processes of clusterjobs, compared with the imports of its libraries.

Both sides use cached byte code, as after the first run of an installed package. Without the cache,
only clusterjobs would be compiled at each start.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.specs import ROOT, SITE, TINY, large_spec
from benchmarks.timing import Row, at_most, medians_in_turns, process_seconds, processor_seconds

TITLE = "Cold start: whole processes"
RUNS = 21

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
        found = medians_in_turns(_measured(folder), RUNS, warm_up=2)
    ms = {name: seconds * 1000 for name, seconds in found.items()}
    return [
        at_most("render tiny-gpt / the 4 libraries used once", "ms", ms["used"], ms["tiny"], 1.2),
        at_most("render 500 lines / the 4 libraries used once", "ms", ms["used"], ms["large"], 1.2),
        Row("plan tiny-gpt / the 4 libraries used once", "ms", ms["used"], ms["plan"]),
        Row("render tiny-gpt / import 4 libraries", "ms", ms["libraries"], ms["tiny"]),
        Row("the same, in CPU time", "ms", ms["libraries, CPU"], ms["tiny, CPU"]),
        at_most("--help / import click", "ms", ms["click"], ms["help"], 1.2),
    ]


def _measured(folder: Path) -> dict[str, Callable[[], float]]:
    large = folder / "large.yaml"
    large.write_text(large_spec())
    shutil.copy(SITE, folder / "site.yaml")
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "byte-code")
    python, program = sys.executable, str(Path(sys.executable).with_name("clusterjobs"))
    tiny = str(TINY)
    commands = {
        "libraries": [python, "-c", _LIBRARIES],
        "tiny": [python, program, "render", tiny, "-o", str(folder / "tiny")],
        "used": [python, "-c", _USED.format(spec=tiny)],
        "large": [python, program, "render", str(large), "-o", str(folder / "large")],
        "plan": [python, program, "plan", tiny],
        "click": [python, "-c", "import click"],
        "help": [python, program, "--help"],
    }
    clock = {
        name: partial(process_seconds, command, environment, ROOT)
        for name, command in commands.items()
    }
    processor = {
        f"{name}, CPU": partial(processor_seconds, commands[name], environment, ROOT)
        for name in ("libraries", "tiny")
    }
    return {**clock, **processor}
