"""What job.sh asks of each container runtime, run in bash beside stand-ins that record it.

The stand-ins run the command on this machine, in the folder that they are told.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from script_runs import lines_of, run_script, script

COMMAND = ["bash", "-c", 'echo "rank in $PWD"']
# One option a line; then the command, without the image's name before it.
OPTIONS = """\
while [[ $1 == --* || $1 == exec ]]; do
  printf '%s\\n' "$1" >> "$REQUESTS"
  case $1 in --pwd=* | --workdir=* | --container-workdir=*) cd -- "${1#*=}" ;; esac
  shift
done
"""
STAND_INS = {
    "pyxis": {"srun": f'{OPTIONS}SLURM_PROCID=0 SLURM_NTASKS=1 exec "$@"'},
    "apptainer": {"apptainer": f'{OPTIONS}shift; exec "$@"'},
    "singularity": {"singularity": f'{OPTIONS}shift; exec "$@"'},
    "shifter": {"shifter": f'{OPTIONS}exec "$@"'},
}
OPTIONS_OF_MOUNTS = ("--bind=", "--volume=", "--container-mounts=")
IMAGES = {"apptainer": "/fsx/a.sif", "singularity": "/fsx/a.sif"}


def options_of(folder: pathlib.Path, runtime: str, **container: Any) -> tuple[list[str], str]:
    """The options that the runtime gets, and the job's log."""
    wanted = {"runtime": runtime, "image": IMAGES.get(runtime, "a/b:1"), **container}
    text = script(
        command=COMMAND, launcher="srun", software={"container": wanted}, logs=str(folder / "logs")
    )
    run = run_script(folder, text, stand_ins=STAND_INS[runtime])
    assert run.reasons == ["completed"], run.log
    return lines_of(folder / "requests"), run.log


@pytest.mark.parametrize("runtime", STAND_INS)
def test_ranks_run_in_the_folder_inside_the_image(tmp_path: pathlib.Path, runtime: str) -> None:
    inside = tmp_path / "work space"
    inside.mkdir()
    _, log = options_of(tmp_path, runtime, workdir=str(inside))
    assert f"rank in {inside}" in log


@pytest.mark.parametrize(
    ("runtime", "mounts"),
    [
        ("pyxis", ["/fsx:/fsx", "/data:/data:ro"]),
        ("apptainer", ["/fsx:/fsx", "/data:/data:ro"]),
        ("singularity", ["/fsx:/fsx", "/data:/data:ro"]),
        ("shifter", ["/data:/data:ro"]),
    ],
)
def test_a_mount_that_is_given_again_is_mounted_once(
    tmp_path: pathlib.Path, runtime: str, mounts: list[str]
) -> None:
    given = ["/fsx:/fsx", "/fsx/a:/fsx/a", "/data:/data:ro", "/data/:/data:ro"]
    options, _ = options_of(tmp_path, runtime, mounts=given)
    values = [one.split("=", 1)[1] for one in options if one.startswith(OPTIONS_OF_MOUNTS)]
    found = [one for value in values for one in value.split(",")]
    assert [one for one in found if str(tmp_path) not in one] == mounts


def test_shifter_gets_the_image_with_its_type(tmp_path: pathlib.Path) -> None:
    options, _ = options_of(tmp_path, "shifter", image="nvcr.io/nvidia/pytorch:24.01-py3")
    assert "--image=docker:nvcr.io/nvidia/pytorch:24.01-py3" in options


def test_variables_of_a_role_pass_through_shifter(tmp_path: pathlib.Path) -> None:
    """Whatever the role is called: the script has names of its own for what shifter passes on."""
    text = script(
        nodes=2,
        command=["bash", "-c", 'echo "role at <$CLUSTERJOBS_INSIDE_ADDR>, <${ADDR-}>"; touch done'],
        roles={"inside": {"command": ["bash", "-c", "until [[ -e done ]]; do sleep 0.1; done"]}},
        software={"container": {"runtime": "shifter", "image": "a/b:1"}},
        launcher="srun",
    )
    stand_ins = {**STAND_INS["shifter"], "scontrol": "printf '%s\\n' node-1 node-2"}
    run = run_script(tmp_path, text, stand_ins=stand_ins, environment={"SLURM_CPUS_ON_NODE": "4"})
    assert "role at <node-2>, <>" in run.log
