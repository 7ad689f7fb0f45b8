"""The key `ulimit` in rendered scripts, run in bash."""

from __future__ import annotations

import pathlib

from step_runs import run_steps, trained

SHOW = "ulimit -S -n > nofile; ulimit -S -s > stack"


def test_the_ranks_have_the_limits_whatever_setup_sets(tmp_path: pathlib.Path) -> None:
    end = run_steps(
        tmp_path, SHOW, setup=["ulimit -S -n 99"], ulimit={"nofile": 101, "stack": 1024}
    )
    assert end.code == 0, end.log
    assert (tmp_path / "nofile").read_text() == "101\n"
    assert (tmp_path / "stack").read_text() == "1024\n"


def test_a_limit_above_that_of_the_node_ends_the_job_as_not_started(tmp_path: pathlib.Path) -> None:
    end = run_steps(tmp_path, SHOW, setup=["ulimit -n 200"], ulimit={"nofile": 201})
    assert (end.code, end.reasons, trained(end)) == (1, ["not_started"], False), end.log
    assert "ulimit: nofile: 201 is more than this node allows: 200" in end.log
