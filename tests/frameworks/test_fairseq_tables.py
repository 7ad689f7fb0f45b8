"""The tables of fairseq's flags and keys are fairseq's own; --update-goldens writes them."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
from real_parsers import fairseq_environment

from clusterjobs.frameworks import flags

pytestmark = pytest.mark.frameworks

FOLDER = pathlib.Path(flags.__file__).parent
PROGRAM = pathlib.Path(__file__).with_name("fairseq_parsers.py")


def test_the_tables_are_fairseqs_own(request: pytest.FixtureRequest) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "tables"],
        capture_output=True,
        text=True,
        env=fairseq_environment(),
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    for program, found in json.loads(done.stdout.splitlines()[-1]).items():
        file = FOLDER / f"{program}.json"
        written = json.loads(file.read_text(encoding="utf-8"))
        if request.config.getoption("--update-goldens"):
            file.write_text(_text({**written, "flags": found}), encoding="utf-8")
        else:
            assert written["flags"] == found, program


def _text(table: dict[str, Any]) -> str:
    """A line for each flag."""
    text = json.dumps(table, indent=2)
    lists = re.compile(r"\[\s+([^\]]*?)\s+\]")
    return lists.sub(lambda one: "[" + re.sub(r",\s+", ", ", one[1]) + "]", text) + "\n"
