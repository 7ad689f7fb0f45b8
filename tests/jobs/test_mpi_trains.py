"""An MPI program trains on two nodes x two ranks, by mpirun and by srun --mpi, and resumes."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import pathlib
import re
import sys

import numpy as np
import pytest
from faults import TIMEOUT, Running
from prepare_frameworks import CannotError, libraries, programs
from train_mpi import gradient, update

from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SCRIPT = pathlib.Path(__file__).with_name("train_mpi.py")
STEPS, SLOW_FROM, WORLD = 200, 60, 4
_STEP = re.compile(r"step (\d+)/\d+ loss ([\d.e+-]+)")


@dataclasses.dataclass(frozen=True)
class Mpi:
    """`library`: what mpi4py loads; `environment`: what sbatch is called with."""

    library: str
    environment: dict[str, str]
    keys: dict[str, object]


@pytest.fixture(scope="module")
def open_mpi(tmp_path_factory: pytest.TempPathFactory) -> Mpi:
    """Debian's Open MPI, unpacked: its programs are told where they lie."""
    try:
        root = programs()
    except CannotError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("open-mpi")
    for name, target in (("mpirun", "mpirun.openmpi"), ("orted", "orted")):
        (folder / name).write_text(f'#!/bin/sh\nexec {root}/usr/bin/{target} "$@"\n')
        (folder / name).chmod(0o755)
    own = libraries(root)
    others = f"{own}:{root}/lib/{os.uname().machine}-linux-gnu"
    return Mpi(
        f"{own}/libmpi.so.40",
        {
            "LD_LIBRARY_PATH": others,
            "OPAL_PREFIX": f"{root}/usr",
            "PMIX_INSTALL_PREFIX": f"{own}/pmix2",
            "PATH": f"{folder}:{os.environ['PATH']}",
        },
        {"launcher": "mpirun"},
    )


@pytest.fixture(scope="module")
def mpich() -> Mpi:
    """MPICH's wheel: Slurm starts its ranks."""
    try:
        files = importlib.metadata.files("mpich") or ()
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("needs the package mpich")
    library = next(file for file in files if file.name == "libmpi.so.12")
    return Mpi(os.path.realpath(library.locate()), {}, {"srun": {"mpi": "pmi2"}})


def losses_without_mpi() -> list[float]:
    weights, losses = np.zeros(3), []
    for step in range(1, STEPS + 1):
        parts = [gradient(weights, step, rank, WORLD) for rank in range(WORLD)]
        weights, loss = update(weights, np.stack(parts))
        losses.append(loss)
    return losses


@pytest.mark.parametrize("name", ["open_mpi", "mpich"])
def test_an_mpi_program_resumes_with_the_same_losses(
    jobs, request: pytest.FixtureRequest, name: str
) -> None:
    pytest.importorskip("mpi4py", reason="needs the package mpi4py")
    mpi: Mpi = request.getfixturevalue(name)
    folder = f"/fsx/faults/{name}/checkpoints"
    program = [sys.executable, str(SCRIPT), folder]
    spec = jobs.spec(
        name.replace("_", "-"),
        framework="command",
        command=[*program, f"--steps={STEPS}", f"--slow-from={SLOW_FROM}"],
        software={},  # a virtual environment with MPICH has its mpirun, too
        env={"MPI4PY_LIBMPI": mpi.library},
        time_limit="00:30:00",
        checkpoints={"path": folder, "marker": "latest.npz"},
        restarts={"time_limit": 3, "grace_seconds": 30},
        **mpi.keys,
    )
    job_id = jobs.submit(jobs.render(spec), **mpi.environment)
    job = Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)
    until(lambda: len(_STEP.findall(job.log())) > SLOW_FROM, TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")  # what Slurm does for --signal=B:USR1@...
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit", "completed"]
    library = "Open" if name == "open_mpi" else "MPICH"
    for rank in range(WORLD):
        said = f"rank {rank} counts 4 ranks, {library}, RANK {rank}"
        assert job.log().count(said) == 2, job.log()
    steps = [(int(step), float(loss)) for step, loss in _STEP.findall(job.log())]
    assert steps == list(enumerate(losses_without_mpi(), 1)), "a step is repeated or differs"
