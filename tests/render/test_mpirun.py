"""A job by mpirun: which one it accepts, and what its ranks are told."""

from __future__ import annotations

import pathlib

from script_runs import run_script, script

# A rank as Open MPI starts it: its options end with a program, here bash.
OPEN_MPI = """case $1 in
  --version) echo 'mpirun (Open MPI) 5.0.7'; echo 'Report bugs to https://www.open-mpi.org/' ;;
  *) while [[ $1 != bash ]]; do shift; done
     OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=8 exec "$@" ;;
esac"""
HYDRA = "echo 'HYDRA build details: Version: 5.0.2'"
SHOW = ["bash", "-c", 'echo "rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE"']


def test_the_ranks_of_open_mpi_have_the_usual_variables(tmp_path: pathlib.Path) -> None:
    text = script(command=SHOW, launcher="mpirun", ranks_per_node=4)
    run = run_script(tmp_path, text, stand_ins={"mpirun": OPEN_MPI})
    assert run.code == 0, run.log
    assert "rank 5 of 8, 1 of 4" in run.log


def test_another_mpirun_ends_the_job_before_its_ranks_start(tmp_path: pathlib.Path) -> None:
    run = run_script(tmp_path, script(command=SHOW, launcher="mpirun"), stand_ins={"mpirun": HYDRA})
    assert (run.code, run.reasons) == (1, ["not_started"]), run.log
    assert f"mpirun is not Open MPI's: {tmp_path}/bin/mpirun." in run.log
    assert "srun: {mpi: pmi2}" in run.log
