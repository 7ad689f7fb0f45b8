"""A job asks each framework that is installed here about one wrong argument, before it stages.

Each page of tests/frameworks/asked_specs gives its first wrong spec that has a line. Megatron-LM,
Megatron-DeepSpeed, GPT-NeoX, composer and torchtitan are asked where CLUSTERJOBS_CHECKOUTS names a
folder with them.
"""

from __future__ import annotations

import json
import pathlib
import sys

import pytest
from asked import environment_of, names, python_of, read, workdir_of
from rendered_jobs import Jobs

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

FAILED = 69
# The cluster `small` has no GPU whose sizes these specs were written for.
SHAPE = {"cluster": "small", "nodes": 2, "ranks_per_node": 2}


@pytest.mark.parametrize("name", names())
def test_a_wrong_argument_ends_the_job_as_not_started_with_its_line(name: str, jobs: Jobs) -> None:
    page = read(name)
    row = next(one for one in page.wrong if one.expected["flag"])
    environment = environment_of(page)
    python = pathlib.Path(python_of(page))
    shared = jobs.lab.folder.shared("/fsx")
    for folder in ("source", f"work-{name}"):
        (shared / folder).mkdir(exist_ok=True)
    (shared / "source" / "text").write_text("data")
    workdir = workdir_of(page, shared / f"work-{name}")
    setup = [f"export PYTHONPATH={environment['PYTHONPATH']}"] if page.needs == "fairseq" else []
    arguments = "help" if name == "argparse" else True
    ended = jobs.run(
        {
            **json.loads(json.dumps(row.spec)),  # numbers that remember how they were written
            **SHAPE,
            "name": name,
            "software": {"venv": str(python.parents[1] if page.python else sys.prefix)},
            "setup": setup,
            "workdir": str(workdir) if page.checkout else f"/fsx/work-{name}",
            "logs": "/fsx/logs",
            "preflight": {"checks": ["space"], "arguments": arguments},
            "data": [{"source": "/fsx/source", "target": f"/fsx/staged-{name}"}],
        }
    )
    assert ended.exit_code == FAILED, ended.log
    flag = row.expected["flag"]
    (line,) = [one for one in ended.log.splitlines() if one.startswith("exp.yaml:")] or [ended.log]
    assert line.startswith("exp.yaml:"), line
    assert row.expected["says"] in line
    assert flag in line
    assert not (shared / f"staged-{name}").exists()
    (end,) = [one for one in ended.log.splitlines() if " ended with exit code " in one]
    assert end.endswith(": not_started"), ended.log
    print(f"{end}: {line}")  # 0 to 12 s on a machine that is not busy: pytest -s
