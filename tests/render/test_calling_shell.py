"""What the shell that called sbatch has exported changes neither the job nor its log."""

from __future__ import annotations

import collections
import itertools
import json
import os
import pathlib
import pwd
import re
import subprocess
import sys

import pytest
from hostile_environments import ENVIRONMENTS, KEPT, OF_THE_SCRIPT, OWN, Environment
from hypothesis import HealthCheck, Phase, given, settings
from script_runs import Run, run_script, script

ME = pwd.getpwuid(os.getuid())
CLEAN: Environment = {"HOME": ME.pw_dir, "USER": ME.pw_name, "SLURM_JOB_USER": ME.pw_name}
CLEAN |= {"A_KEY": "do-not-show"}

RANK = """\
import json, os, resource, shutil, signal, sys
limits = [resource.getrlimit(one) for one in range(16)]
found = [shutil.which(one) for one in ("scontrol", "srun", "mkdir", "awk", "sed")]
environment = {**os.environ, "A_KEY": len(os.environ["A_KEY"])}
print("seen:", json.dumps([sys.argv, environment, found, limits, os.getcwd(), sys.flags.optimize]))
"""
SHOW = """\
echo "seen: $- $SHELLOPTS $BASHOPTS $(umask)" $(declare -F)
exec "$0" rank.py 'a  *' "$@"
"""
_BY_THE_SHELL = {
    "PATH",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "_",
    "REQUESTS",
    "MASTER_PORT",
    "SLURM_SUBMIT_DIR",
}
_OF_THE_CALLER = {
    *KEPT,
    *OWN,
    *(f"BASH_FUNC_{one}%%" for one in OF_THE_SCRIPT),
    *_BY_THE_SHELL,
    *("LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "LC_NUMERIC", "LANGUAGE"),
    *("SECONDS", "HISTSIZE", "HISTFILESIZE"),  # of bash itself, by allexport and history
}


def run_beside(folder: pathlib.Path, environment: Environment) -> Run:
    folder.mkdir()
    (folder / "rank.py").write_text(RANK)
    (folder / "show.sh").write_text(SHOW)
    keys = {
        "command": ["bash", "-c", SHOW, sys.executable, "b\nc"],
        "before": [["true"]],
        "secrets": ["A_KEY"],
        "setup": [": > twice; : > twice", 'echo "seen: script: $-"'],
        "checkpoints": {"path": str(folder / "checkpoints")},
        "restarts": {"failure": 1},
    }
    text = script(logs=str(folder / "logs"), **keys)
    return run_script(folder, text, environment={**CLEAN, **environment})


def seen(run: Run) -> list[object]:
    """What the ranks saw, without what is the caller's own affair, and the names of this run."""
    text = run.log.replace(str(run.folder), "FOLDER")
    lines = [line.lstrip("0: ") for line in text.splitlines()]
    found: list[object] = [line for line in lines if line.startswith("seen: ")]
    return [_comparable(str(line)) for line in found]


def _comparable(line: str) -> object:
    if not line.startswith("seen: ["):
        return re.sub(rf" declare -fx ({'|'.join(OF_THE_SCRIPT)})", "", line)  # the caller's, too
    argv, environment, *others = json.loads(line.removeprefix("seen: "))
    return [argv, {k: v for k, v in environment.items() if k not in _OF_THE_CALLER}, *others]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    run = run_beside(tmp_path_factory.mktemp("clean") / "run", {})
    assert run.reasons == ["completed"], run.log
    assert len(seen(run)) == 3
    return seen(run)


def check(folder: pathlib.Path, environment: Environment, clean: list[object]) -> None:
    run = run_beside(folder, environment)
    assert (run.code, run.reasons) == (0, ["completed"]), run.log
    assert seen(run) == clean
    assert 0 <= run.records[0]["seconds"] < 3600
    assert "do-not-show" not in run.log
    assert not (folder / "executed").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"SHELLOPTS": "braceexpand:xtrace:verbose"},
        {"SHELLOPTS": "noclobber:noglob:allexport:keyword"},
        {"SHELLOPTS": "posix"},
        {"SHELLOPTS": "monitor"},
        {"SHELLOPTS": "noexec:onecmd"},
        {"POSIXLY_CORRECT": "1"},
        {"POSIXLY_CORRECT": "1", "BASH_FUNC_eval%%": "() { :; }", "BASH_FUNC_set%%": "() { :; }"},
        {"CDPATH": "/:/tmp", "GLOBIGNORE": "*", "IFS": "0/.", "EXECIGNORE": "*", "SECONDS": "-9"},
        {"BASHOPTS": "nocasematch:failglob:extglob:nullglob:lastpipe"},
        {"PYTHONSAFEPATH": "1", "PYTHONINSPECT": "1"},
        {"PATH": None, "HOME": None, "USER": None, "LC_ALL": None},
        {"PATH": "/nowhere"},
        {"BASH_FUNC_mkdir%%": "() { :; }", "BASH_FUNC_builtin%%": "() { :; }"},
        {"BASH_FUNC_scontrol%%": "() { :; }", "PATH": None},
        {"FUNCNEST": "2"},
    ],
    ids=str,
)
def test_what_the_calling_shell_has_exported_reaches_no_rank(
    tmp_path: pathlib.Path, environment: Environment, clean: list[object]
) -> None:
    check(tmp_path / "run", environment, clean)


@pytest.mark.parametrize("given", [{"PYTHONPATH": "/its/value", "PYTHONHASHSEED": "7"}, {}])
def test_the_log_names_the_callers_python_variables_without_their_values(
    tmp_path: pathlib.Path, given: Environment
) -> None:
    text = script(command=["true"], logs=str(tmp_path / "logs"))
    run = run_script(tmp_path, text, environment={**CLEAN, **given})
    said = "clusterjobs: unset, from the calling shell: PYTHONHASHSEED PYTHONPATH\n"
    assert run.log.startswith(said) is bool(given)
    assert "/its/value" not in run.log


def check_many(
    examples: int,
    clean: list[object],
    folders: pathlib.Path,
    fault_counts: collections.Counter[str],
) -> None:
    numbers = itertools.count()

    @settings(  # to make a failing environment smaller would take minutes
        max_examples=examples,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=[*HealthCheck],
    )
    @given(environment=ENVIRONMENTS)
    def in_any(environment: Environment) -> None:
        check(folders / str(next(numbers)), environment, clean)
        fault_counts["tried"] += 1

    fault_counts["wrong_records"] += 0
    in_any()


def test_a_job_runs_the_same_in_any_environment(
    tmp_path: pathlib.Path, clean: list[object], fault_counts: collections.Counter[str]
) -> None:
    check_many(8, clean, tmp_path, fault_counts)


@pytest.mark.faults
def test_a_job_runs_the_same_in_500_environments(
    tmp_path: pathlib.Path, clean: list[object], fault_counts: collections.Counter[str]
) -> None:
    check_many(500, clean, tmp_path, fault_counts)


def test_the_options_of_spank_plugins_reach_the_ranks(tmp_path: pathlib.Path) -> None:
    names = ("SLURM_SPANK_SHIFTER_IMAGE", "_SLURM_SPANK_OPTION_pyxis_container_image")
    text = script(command=["bash", "-c", f"echo seen: ${names[0]} ${names[1]}"])
    run = run_script(tmp_path, text, environment=dict.fromkeys(names, "a/b:1"))
    assert "seen: a/b:1 a/b:1" in run.log


def test_functions_that_hide_no_command_are_kept(tmp_path: pathlib.Path) -> None:
    """As `module`, which the shells of login nodes export."""
    keys = {"command": ["true"], "setup": ["module load cuda"], "logs": str(tmp_path / "logs")}
    environment = {"BASH_FUNC_module%%": '() { echo "module: $*"; }'}
    run = run_script(tmp_path, script(**keys), environment=environment)
    assert "module: load cuda" in run.log
    assert run.reasons == ["completed"]


def test_a_file_that_bash_reads_first_changes_nothing(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "before-all.sh"
    file.write_text("set -x; alias main=exit; mkdir() { exit 1; }; cd /; unset PATH; exit 3\n")
    keys = {"command": ["true"], "logs": str(tmp_path / "logs"), "before": [["true"]]}
    stand_ins = {"srun": "exit 0"}
    environment = {"BASH_ENV": str(file)}
    run = run_script(tmp_path, script(**keys), environment=environment, stand_ins=stand_ins)
    assert run.reasons == ["completed"], run.log


def test_a_trace_of_the_calling_shell_puts_no_secret_into_the_log(tmp_path: pathlib.Path) -> None:
    keys = {"secrets": ["A_KEY"], "command": ["true"], "logs": str(tmp_path / "logs")}
    environment = {"SHELLOPTS": "xtrace:verbose", "A_KEY": "do-not-show"}
    run = run_script(tmp_path, script(**keys), environment=environment)
    assert run.reasons == ["completed"], run.log
    assert "do-not-show" not in run.log


def test_a_script_that_is_not_submitted_says_so(tmp_path: pathlib.Path) -> None:
    """Outside of Slurm, and in the shell of salloc, which does not run on a node of the job."""
    (tmp_path / "job.sh").write_text(script(logs=str(tmp_path / "logs")))
    for environment in ({}, {"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "node-1"}):
        done = subprocess.run(
            ["bash", "job.sh"],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert done.stderr.endswith("this is a batch script: submit it with sbatch\n")
        assert not (tmp_path / "logs").exists()
