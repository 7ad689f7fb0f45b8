"""An all-reduce of all ranks before the training, in a real Slurm, over gloo."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytestmark = pytest.mark.lab


def spec_of(jobs, name: str, **keys: Any) -> dict[str, Any]:
    wish = {"checks": ["port"], "bandwidth_percent": 50}
    return jobs.spec(name, **{"framework": "torchrun", "preflight": wish, **keys})


def test_ranks_are_measured_and_then_meet_on_the_same_port(jobs) -> None:
    """A lab's network is this machine's memory: what it gives is told, and not judged."""
    pytest.importorskip("torch")
    ended = jobs.run(spec_of(jobs, "measured", launcher="torchrun"))
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    said = r"all-reduce of 4 ranks on 2 nodes: [\d.e+]+ Gbps, 12.5 expected; reducing the"
    assert re.search(said, ended.log), ended.log


def test_a_python_without_torch_ends_the_job(jobs) -> None:
    folder = jobs.lab.folder.shared("/fsx") / "broken"
    folder.mkdir()
    (folder / "torch.py").write_text("raise ImportError('no torch of this kind')\n")
    setup = ["export PYTHONPATH=/fsx/broken"]
    spec = spec_of(jobs, "broken", setup=setup, framework="command", launcher="srun")
    ended = jobs.run(spec)
    assert ended.exit_code == 69, ended.log
    assert ended.ranks == {}
    assert "no torch of this kind" in ended.log
    assert "the all-reduce ended with exit code 1" in ended.log


def test_srun_is_told_how_many_cpus_a_rank_has(jobs) -> None:
    """Slurm 23.11's srun takes the job's SLURM_CPUS_PER_TASK, of one torchrun: acted by 22.05's."""
    setup = ['export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"']
    ended = jobs.run(
        spec_of(
            jobs,
            "cpus",
            launcher="torchrun",
            setup=setup,
            before=[{"command": ["nproc"], "per": "node"}],
        )
    )
    assert ended.exit_code == 0, ended.log
    assert "all-reduce of 4 ranks on 2 nodes" in ended.log
