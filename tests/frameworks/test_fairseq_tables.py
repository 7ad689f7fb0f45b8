"""The tables of fairseq's flags and keys are fairseq's own; tools/flag_tables.py writes them."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from real_parsers import fairseq_environment

from clusterjobs.frameworks.flags import table

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "flag_tables.py"


@pytest.mark.frameworks
@pytest.mark.parametrize("program", ["fairseq-train", "fairseq-hydra-train"])
def test_the_table_is_fairseqs_own(program: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), program, "--print"],
        capture_output=True,
        text=True,
        env=fairseq_environment(),
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == table(program).types
