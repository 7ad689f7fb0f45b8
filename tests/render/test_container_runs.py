"""What job.sh asks of each container runtime, run in bash beside stand-ins that record it.

The stand-ins run the command on this machine, in the folder that they are told.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from script_runs import Run, lines_of, run_script, script

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


IMAGE = "export LD_LIBRARY_PATH=/image/lib; "  # what a runtime takes from the image


def run_inside(folder: pathlib.Path, runtime: str, *setup: str) -> Run:
    """A job whose ranks run these lines in the container, beside a module of the node."""
    container = {"runtime": runtime, "image": IMAGES.get(runtime, "a/b:1"), "setup": [*setup]}
    show = 'printf "<%s>" "$@" "$LD_LIBRARY_PATH" "${FROM_FILE-}" "$IN_ENV"; echo'
    text = script(
        command=["bash", "-c", show, "show", "a word", ""],
        launcher="srun",
        software={"container": container, "modules": ["cuda/12"]},
        env={"IN_ENV": "env"},
        logs=str(folder / "logs"),
    )
    programs = {name: f"{IMAGE}{program}" for name, program in STAND_INS[runtime].items()}
    programs["module"] = 'echo "module $*" >> "$REQUESTS"'
    return run_script(folder, text, stand_ins=programs)


@pytest.mark.parametrize("runtime", STAND_INS)
def test_lines_inside_extend_the_variables_of_the_image(
    tmp_path: pathlib.Path, runtime: str
) -> None:
    file = tmp_path / "env.sh"
    file.write_text('export FROM_FILE="file $#"; set -- other words; IN_ENV=changed\n')
    extends = "export LD_LIBRARY_PATH=/opt/x:$LD_LIBRARY_PATH"
    run = run_inside(tmp_path, runtime, f"source {file}", extends)
    assert "<a word><></opt/x:/image/lib><file 0><changed>" in run.log, run.log
    assert run.reasons == ["completed"]
    assert "module load cuda/12" in run.requests


@pytest.mark.parametrize("line", ["false", "exit 1", "source /nowhere/env.sh"])
def test_a_line_that_fails_inside_ends_the_job_before_the_program(
    tmp_path: pathlib.Path, line: str
) -> None:
    run = run_inside(tmp_path, "apptainer", line)
    assert "clusterjobs: software.container.setup has ended with exit code 1" in run.log
    assert "<a word>" not in run.log
    assert run.reasons == ["failure"]
