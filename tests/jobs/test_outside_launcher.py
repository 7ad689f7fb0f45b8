"""The launcher of an outside package starts ranks in a real Slurm, with the real accelerate."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("framework", ["my-trainer", "torchrun"])
def test_accelerate_starts_the_ranks_of_two_nodes(jobs, outside_package, framework: str) -> None:
    pytest.importorskip("accelerate", reason="needs the extra 'frameworks'")
    spec = jobs.spec(
        f"accelerate-{framework}",
        framework=framework,
        launcher="my-accelerate",
    )
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for rank, record in ended.ranks.items():
        assert record["WORLD_SIZE"] == "4"
        assert record["LOCAL_RANK"] == str(rank % 2)
        assert record["host"] == (first if rank < 2 else second)
        assert record["MASTER_ADDR"] == first
        assert record["environment"]["ACCELERATE_MIXED_PRECISION"] == "no"  # accelerate's own
    if framework == "my-trainer":
        assert ended.ranks[0]["arguments"] == ["--steps", "1000", "--precision", "fp32"]
