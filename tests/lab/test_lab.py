"""What jobs see in a lab that is up."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from lab_fixtures import output_of

from clusterjobs.errors import InputError
from clusterjobs.lab.lab import Lab

pytestmark = pytest.mark.lab

MEET = """\
import os, socket, sys
port = 20000
if os.environ["SLURM_PROCID"] == "0":
    with socket.create_server((os.environ["MASTER_ADDR"], port)) as server:
        other, _ = server.accept()
        print("met", other.recv(99).decode())
else:
    import time
    for attempt in range(200):
        try:
            with socket.create_connection((os.environ["MASTER_ADDR"], port)) as to:
                to.sendall(socket.gethostname().encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


def run_job(lab: Lab, folder: Path, body: str, *options: str) -> str:
    """The output of a job that must succeed."""
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\nset -euo pipefail\n{body}\n")
    job_id = lab.sbatch(script, "--output=/fsx/%j.txt", *options, cwd=folder)
    end = lab.wait(job_id, 120)
    output = lab.folder.host_path(f"/fsx/{job_id}.txt").read_text()
    assert end.exit_code == 0, output
    return output


def test_each_node_has_its_own_name_and_address(shared_lab: Lab, tmp_path: Path) -> None:
    job = "srun bash -c 'echo $(hostname) $SLURMD_NODENAME $(ip -4 -o addr show eth0)'"
    lines = sorted(run_job(shared_lab, tmp_path, job, "--nodes=2").splitlines())
    words = [line.split() for line in lines]
    assert [line[:2] for line in words] == [
        ["train-dy-p4d-1", "train-dy-p4d-1"],
        ["train-st-p4d-1", "train-st-p4d-1"],
    ]
    assert {line[5] for line in words} == {"10.77.0.1/16", "10.77.0.2/16"}


def test_the_first_node_is_reached_by_its_name_from_the_other(
    shared_lab: Lab, tmp_path: Path
) -> None:
    (tmp_path / "meet.py").write_text(MEET)
    job = (
        'mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")\n'
        "export MASTER_ADDR=${nodes[0]}\n"
        f"srun {sys.executable} meet.py"
    )
    assert run_job(shared_lab, tmp_path, job, "--nodes=2") == "met train-st-p4d-1\n"


def test_shared_folders_are_shared_and_scratch_is_not(shared_lab: Lab, tmp_path: Path) -> None:
    job = (
        "srun bash -c 'touch /opt/shared/$(hostname) /scratch/$(hostname)'\n"
        "srun bash -c 'ls /opt/shared | xargs; ls /scratch; ls /dev/shm | wc -l'"
    )
    lines = run_job(shared_lab, tmp_path, job, "--nodes=2").splitlines()
    assert lines.count("train-dy-p4d-1 train-st-p4d-1") == 2
    assert lines.count("train-dy-p4d-1") == lines.count("train-st-p4d-1") == 1
    assert (shared_lab.folder.shared("/opt/shared") / "train-st-p4d-1").exists()
    assert not Path("/opt/shared").exists()
    assert not Path("/scratch").exists()


def test_a_queue_has_its_own_scratch_folder(shared_lab: Lab) -> None:
    assert shared_lab.node_run("cpu-dy-c5-1", ["touch", "/local/scratch/x"]).returncode == 0
    assert (shared_lab.folder / "nodes/cpu-dy-c5-1/scratch/x").exists()


def test_gpus_are_handed_out_and_numbered(shared_lab: Lab, tmp_path: Path) -> None:
    job = "srun bash -c 'echo $CUDA_VISIBLE_DEVICES'"
    assert run_job(shared_lab, tmp_path, job, "--nodes=1", "--gpus-per-node=a100:8") == (
        "0,1,2,3,4,5,6,7\n"
    )
    assert run_job(shared_lab, tmp_path, job, "--nodes=1", "--gpus-per-node=2") == "0,1\n"


def test_nodes_have_the_size_and_the_features_of_the_instance(shared_lab: Lab) -> None:
    shown = shared_lab.run(["sinfo", "-h", "-N", "-o", "%N|%c|%m|%f|%G"]).stdout
    assert (
        "train-dy-p4d-1|96|1120665|dynamic,p4d.24xlarge,p4d,efa,gpu|gpu:a100:8"
        in shown.splitlines()
    )
    refused = shared_lab.run(["srun", "--constraint=h100", "hostname"])
    assert "Invalid feature specification" in refused.stderr


def test_a_job_of_more_nodes_than_the_lab_has_is_refused(shared_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n")
    with pytest.raises(InputError, match="Node count specification invalid"):
        shared_lab.sbatch(tmp_path / "job.sh", "--nodes=3")


ARGUMENTS = ["a b", "", "two\nlines", "$HOME", "*", "é", '"quoted"', "--nodes=9", "\\", "'", "#"]


def test_arguments_reach_a_job_byte_for_byte_through_the_sbatch_of_a_shell(
    shared_lab: Lab, tmp_path: Path
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "job.sh").write_text('#!/bin/bash\nprintf \'%s\\0\' "$PWD" "$@" > /fsx/arguments\n')
    env = shared_lab.environment()
    submit = ["sbatch", "--parsable", "--output=/dev/null", "job.sh", *ARGUMENTS]
    job_id = output_of(submit, env=env, cwd=folder).strip()
    assert shared_lab.wait(job_id).exit_code == 0
    written = shared_lab.folder.host_path("/fsx/arguments").read_text()
    assert written.split("\0")[:-1] == [str(folder), *ARGUMENTS]


def test_a_script_can_come_from_standard_input(shared_lab: Lab) -> None:
    submit = ["sbatch", "--parsable", "--output=/fsx/%j.txt"]
    job_id = output_of(submit, env=shared_lab.environment(), input="#!/bin/bash\nexit 3\n")
    assert shared_lab.wait(job_id.strip()).exit_code == 3


def test_commands_keep_their_exit_code(shared_lab: Lab) -> None:
    done = subprocess.run(["srun", "sh", "-c", "exit 9"], env=shared_lab.environment())
    assert done.returncode == 9


def test_the_job_of_another_cluster_does_not_leak_in(shared_lab: Lab) -> None:
    foreign = {"SLURM_JOB_ID": "77", "SLURM_CONF": "/nowhere", "SLURM_NTASKS": "5"}
    env = {**shared_lab.environment(), **foreign}
    assert output_of(["srun", "sh", "-c", "echo $SLURM_NTASKS"], env=env) == "1\n"


def test_a_job_gets_no_library_path_of_the_labs(shared_lab: Lab, tmp_path: Path) -> None:
    assert run_job(shared_lab, tmp_path, "echo ${LD_LIBRARY_PATH-none}") == "none\n"


def test_waiting_too_long_says_what_the_job_waits_for(shared_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n")
    job_id = shared_lab.sbatch(tmp_path / "job.sh", "--output=/dev/null", "--hold")
    with pytest.raises(TimeoutError, match="PENDING \\(JobHeldUser\\)"):
        shared_lab.wait(job_id, 0.3)
    shared_lab.run(["scancel", job_id])
