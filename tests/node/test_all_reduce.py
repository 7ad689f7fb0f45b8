"""An all-reduce of two processes over gloo, and what is said of its rate."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys

import pytest

from clusterjobs import resources

FAILED = 69


def run(tmp_path: pathlib.Path, *words: str) -> tuple[list[int], str]:
    """The exit codes of two ranks, and what was said."""
    program = tmp_path / "all_reduce.py"
    program.write_text(resources.node_program("all_reduce.py"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment |= {"SLURM_NTASKS": "2", "SLURM_STEP_NUM_NODES": "2", "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(program), *words, "240"],
            env={**environment, "SLURM_PROCID": rank, "SLURM_LOCALID": rank},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [rank.communicate(timeout=280)[0] for rank in ranks]
    return [rank.returncode for rank in ranks], "".join(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gbps", "codes", "words"),
    [
        ("0.000001", [0, 0], ["1e-06 expected", "10^9 parameters takes ", "instead of 1.6e+07 s"]),
        ("1e6", [FAILED, 0], ["1e+06 expected", "wanted: 50 %", "2 nodes may be slower"]),
        ("0", [0, 0], ["the bandwidth of this network is unknown"]),
    ],
)
def test_the_rate_is_held_against_the_networks(tmp_path, gbps, codes, words) -> None:
    pytest.importorskip("torch")
    found, said = run(tmp_path, gbps, "50")
    assert found == codes, said
    assert said.startswith("clusterjobs: all-reduce of 2 ranks on 2 nodes: ")
    for one in words:
        assert one in said
