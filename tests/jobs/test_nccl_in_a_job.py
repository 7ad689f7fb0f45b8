"""NCCL's own log, read beside the training of a job on a real Slurm: TCP ends it, EFA does not.

What NCCL would write is written by the ranks, in lines that were published in its issues.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from rendered_jobs import Jobs, shape_of

from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("p4d-nccl")
    with running_lab(shape_of("p4d-a100", nodes=4), folder, slurm) as running:
        yield running


def spec_of(jobs: Jobs, name: str, command: list[str]) -> dict[str, Any]:
    common = {"cluster": "p4d-a100", "framework": "command", "preflight": ["nccl"]}
    return {**jobs.spec(name, **common), "command": command}


# A rank that says what NCCL would say, in the file that NCCL would use.
SAYS = (
    "host=$(hostname); file=${NCCL_DEBUG_FILE/\\%h/$host}; "
    'echo "$host:7:7 [0] NCCL INFO Using network $0" > "${file/\\%p/$$}"; '
)


@pytest.mark.parametrize("rest", ["sleep 300", "true"], ids=["at once", "after a short training"])
def test_nccl_on_tcp_ends_the_job(jobs: Jobs, rest: str) -> None:
    name = f"tcp-{rest.split()[0]}"
    command = ["bash", "-c", SAYS + rest, "Socket"]
    ended = jobs.run(spec_of(jobs, name, command))
    assert ended.exit_code != 0, ended.log
    # The watcher tells of those that have spoken by then.
    assert re.search(r"NCCL does not use EFA but Socket on \d ranks? \(train-dy-p4d-", ended.log)


def test_nccl_on_efa_is_left_alone(jobs: Jobs) -> None:
    until_told = "until grep -q 'uses EFA' /fsx/logs/$SLURM_JOB_ID/job.log; do sleep 0.2; done"
    command = ["bash", "-c", SAYS + until_told, "AWS Libfabric"]
    ended = jobs.run(spec_of(jobs, "efa", command))
    assert ended.exit_code == 0, ended.log
    assert "clusterjobs: NCCL uses EFA on all 4 ranks" in ended.log


ONE_ON_TCP = f"""
task=$SLURM_ARRAY_TASK_ID
if (( SLURM_JOB_ID == SLURM_ARRAY_JOB_ID )); then
  until [[ -e /fsx/array-good ]]; do sleep 0.2; done
  {SAYS}
  echo "$task" > /fsx/array-bad.new && mv /fsx/array-bad.new /fsx/array-bad
  sleep 300
else
  echo "$task" > /fsx/array-good.new && mv /fsx/array-good.new /fsx/array-good
  until [[ -e /fsx/array-over ]]; do sleep 0.2; done
fi
"""


def test_a_task_of_an_array_is_ended_alone(jobs: Jobs) -> None:
    """That one to whose id the whole array answers: Slurm gives it the array's own."""
    spec = spec_of(jobs, "array", ["bash", "-c", ONE_ON_TCP, "Socket"])
    script = jobs.render(spec | {"sbatch": {"array": "1-2"}})
    array = jobs.lab.sbatch(script, cwd=script.parent)
    shared = jobs.lab.folder.shared("/fsx")
    log = shared / "logs" / array / "job.log"
    until(lambda: (shared / "array-bad").exists(), 120, lambda: "no task has the array's id")
    bad, good = ((shared / f"array-{name}").read_text().strip() for name in ("bad", "good"))
    assert jobs.lab.wait(f"{array}_{bad}", 120).exit_code != 0
    assert "NCCL does not use EFA but Socket" in log.read_text()
    (shared / "array-over").touch()
    assert jobs.lab.wait(f"{array}_{good}", 120).exit_code == 0
