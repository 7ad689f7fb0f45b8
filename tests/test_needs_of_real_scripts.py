"""What training scripts in use need: each need has a case of rendered files, and a run.

Each row names a case of cases/ and a test that runs a job, in bash or on a real Slurm.
"""

from __future__ import annotations

import ast
import pathlib

import pytest
from case_files import read_cases

TESTS = pathlib.Path(__file__).parent
IN_BASH = "render/test_values_from_outside.py"
STEPS = "render/test_limits_of_steps.py"
CONTAINERS = "render/test_container_runs.py"
SITE_FILES = "render/test_site_files.py"
REQUESTS = "lab/test_gpu_requests.py::test_slurm_gives_what_the_spec_requests"
SHELL = f"{IN_BASH}::test_the_shell_of_a_command_expands_its_own_variables"

NEEDS = {
    "a variable of the submitting shell in args": ("good/shell-with-arguments", SHELL),
    "the job's id in args": ("good/shell-with-arguments", SHELL),
    "no --partition": ("good/whole-nodes-unrequested", REQUESTS),
    "no request for GPUs": ("good/whole-nodes-unrequested", REQUESTS),
    "GPUs by their type": ("good/typed-gpus", REQUESTS),
    "GPUs by --gres": ("good/gpus-by-gres", REQUESTS),
    "one log of all jobs": (
        "good/log-of-all-jobs",
        "render/test_log_writer.py::test_a_log_of_all_jobs_gets_the_lines_of_each",
    ),
    "arguments of `sbatch job.sh`": (
        "good/shell-with-arguments",
        f"{IN_BASH}::test_arguments_of_the_script_come_after_those_of_the_spec",
    ),
    "no arguments of `sbatch job.sh`": (
        "good/forced-variables-p4d",
        f"{IN_BASH}::test_arguments_that_the_spec_does_not_allow_end_the_job_before_the_program",
    ),
    "a working folder inside the image": (
        "good/container-workdir-inside",
        f"{CONTAINERS}::test_ranks_run_in_the_folder_inside_the_image",
    ),
    "a parameter that is a variable of the ranks": (
        "good/forced-variables-p4d",
        f"{IN_BASH}::test_a_parameter_can_be_a_variable_of_the_ranks",
    ),
    "a reserved variable, set with a reason": (
        "good/forced-variables-p4d",
        f"{IN_BASH}::test_the_gpus_are_forced_after_slurm_has_set_them",
    ),
    "module purge": (
        "good/modules-and-site-files",
        f"{SITE_FILES}::test_modules_are_called_in_the_order_of_the_spec",
    ),
    "a site's file before workdir": (
        "good/modules-and-site-files",
        f"{SITE_FILES}::test_a_site_file_is_read_before_workdir",
    ),
    "variables of SPANK plugins": (
        "good/container-shifter-p4d",
        "render/test_calling_shell.py::test_the_options_of_spank_plugins_reach_the_ranks",
    ),
    "a mount that is given twice": (
        "good/container-mounts-given-again",
        f"{CONTAINERS}::test_a_mount_that_is_given_again_is_mounted_once",
    ),
    "shifter": (
        "good/container-shifter-p4d",
        f"{CONTAINERS}::test_shifter_gets_the_image_with_its_type",
    ),
    "singularity": (
        "good/container-singularity-p4d",
        f"{CONTAINERS}::test_ranks_run_in_the_folder_inside_the_image",
    ),
    "a command after a failure": (
        "good/steps-nccl-p5",
        f"{STEPS}::test_a_step_runs_at_every_end_and_changes_no_exit_code",
    ),
    "srun before the training, with its own options": (
        "good/steps-before-by-srun",
        "jobs/test_steps_in_a_job.py"
        "::test_steps_of_ranks_are_one_world_with_the_variables_of_the_training",
    ),
    "srun before the training, with the job's shape": (
        "bad/step-srun-of-its-own",
        "jobs/test_steps_in_a_job.py"
        "::test_steps_of_ranks_are_one_world_with_the_variables_of_the_training",
    ),
    "bash -c with variables": ("good/shell-with-arguments", SHELL),
    "--hint=nomultithread": (
        "good/hint-nomultithread-small",
        "jobs/test_hint_in_a_job.py::test_a_hint_binds_the_ranks",
    ),
}


@pytest.mark.parametrize("need", NEEDS)
def test_a_need_has_a_case_and_a_run(need: str) -> None:
    case, run = NEEDS[need]
    kind, _, name = case.partition("/")
    assert name in {one.name for one in read_cases(f"{kind}/*.txt")}
    file, _, name = run.partition("::")
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
