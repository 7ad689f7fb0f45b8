"""What `--hint` does in a real Slurm: it binds each rank to its CPUs, which is else prevented."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab]


@pytest.mark.parametrize("program", ["sbatch", "srun"])
def test_a_hint_binds_the_ranks(jobs, program: str) -> None:
    spec = jobs.spec(f"hint-{program}", framework="command", **{program: {"hint": "nomultithread"}})
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for record in ended.ranks.values():
        environment = record["environment"]
        assert environment["SLURM_CPU_BIND_TYPE"] == "mask_cpu:"
        assert environment["SLURM_THREADS_PER_CORE"] == "1"
        assert environment["SLURM_CPUS_PER_TASK"] == "2"


def test_ranks_are_not_bound_without_a_hint(jobs) -> None:
    ended = jobs.run(jobs.spec("no-hint", framework="command"))
    assert {one["environment"]["SLURM_CPU_BIND_TYPE"] for one in ended.ranks.values()} == {"none"}
