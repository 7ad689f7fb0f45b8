"""Parts of the lab, without Slurm."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clusterjobs.errors import InputError
from clusterjobs.files import GrowingFile
from clusterjobs.lab import folder
from clusterjobs.lab.command import hidden
from clusterjobs.lab.folder import SCRIPTS, LabFolder, root_view
from clusterjobs.lab.lab import Lab
from clusterjobs.lab.namespaces import InitProcess, _how_to_allow
from clusterjobs.lab.shape import LabSpec
from clusterjobs.lab.slurm import Slurm, find_slurm
from clusterjobs.slurm.jobs import JobEnd, parse_job


def shown(state: str, exit_code: str = "0:0", more: str = "") -> str:
    return (
        f"JobId=12 JobName=a.b Requeue=1 Restarts=2 JobState={state} Reason=None "
        f"ExitCode={exit_code} NodeList=n[1-2] StdOut=/fsx/out dir/%x-%j.txt Power= {more}\n"
    )


@pytest.mark.parametrize(
    ("state", "exit_code", "end"),
    [
        ("COMPLETED", "0:0", JobEnd("COMPLETED", 0)),
        ("FAILED", "7:0", JobEnd("FAILED", 7)),
        ("CANCELLED", "0:15", JobEnd("CANCELLED", 143)),
        ("TIMEOUT", "0:0", JobEnd("TIMEOUT", 1)),
        ("RUNNING", "0:0", None),
        ("COMPLETING", "0:0", None),
        ("PENDING", "0:0", None),
    ],
)
def test_a_job_has_ended_only_in_a_final_state(
    state: str, exit_code: str, end: JobEnd | None
) -> None:
    assert parse_job(shown(state, exit_code)).end == end


def test_the_log_of_a_job_may_have_spaces_and_patterns_in_its_name() -> None:
    assert parse_job(shown("RUNNING")).stdout == "/fsx/out dir/a.b-12.txt"


def test_the_view_adds_a_folder_deep_down_and_keeps_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "opt/tools").mkdir(parents=True)
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "proc").mkdir()
    view = root_view({"/opt/shared": Path("/lab/shared")}, tmp_path)
    assert view.splitlines() == [
        "folder\t-\t/",
        "link\tusr/bin\t/bin",
        f"bind\t{tmp_path}/usr\t/usr",
        "folder\t-\t/opt",
        f"bind\t{tmp_path}/opt/tools\t/opt/tools",
        "bind\t/lab/shared\t/opt/shared",
    ]


def test_a_machine_without_a_hosts_file_gets_the_labs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = LabFolder(tmp_path)
    spec = LabSpec("small", (), shared=("/fsx",))
    slurm = Slurm((22, 5, 8), None, ())
    lab._write_view(spec, slurm)
    assert "/etc/hosts" not in (tmp_path / "view").read_text()
    monkeypatch.setattr(folder, "_HOSTS", tmp_path / "none")
    lab._write_view(spec, slurm)
    assert f"bind\t{tmp_path}/hosts\t/etc/hosts\n" in (tmp_path / "view").read_text()


def test_an_added_folder_hides_the_machines_own(tmp_path: Path) -> None:
    (tmp_path / "fsx").mkdir()
    lines = root_view({"/fsx": Path("/lab/fsx")}, tmp_path).splitlines()
    assert lines == ["folder\t-\t/", "bind\t/lab/fsx\t/fsx"]


def test_a_growing_log_is_continued_and_a_rewritten_log_is_read_from_its_start(
    tmp_path: Path,
) -> None:
    log = GrowingFile(tmp_path / "log")
    assert log.new_text() == ""
    log.path.write_bytes("één".encode()[:1])
    assert log.new_text() == ""  # half a letter
    log.path.write_bytes("één".encode())
    assert log.new_text() == "één"
    log.path.write_text("2")
    assert log.new_text() == "2"


def test_a_reused_pid_is_not_the_lab(tmp_path: Path) -> None:
    (tmp_path / "init").write_text(f"{os.getpid()} 1\n")
    assert InitProcess.read(tmp_path / "init") is None
    Lab(tmp_path).down()
    assert os.getpid()  # it was not killed


@pytest.mark.parametrize(
    ("switch", "value", "hint"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_restrict"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces=10000"),
    ],
)
def test_the_hint_names_the_sysctl_that_refuses_namespaces(
    tmp_path: Path, switch: str, value: str, hint: str
) -> None:
    (tmp_path / switch).parent.mkdir()
    (tmp_path / switch).write_text(f"{value}\n")
    assert hint in _how_to_allow(tmp_path)


def test_without_packages_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterjobs.lab.slurm.SYSTEM", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as error:
        find_slurm(tmp_path / "cache")
    (problem,) = error.value.problems
    assert "slurmctld slurmd slurm-client" in problem.hint
    assert problem.what.endswith("cannot be downloaded: apt-cache is missing")


def test_commands_of_a_stopped_lab_report_it(tmp_path: Path) -> None:
    (tmp_path / "enter.sh").write_text((SCRIPTS / "enter.sh").read_text())
    (tmp_path / "entrance.sh").write_text("entrance=()\n")
    command = ["bash", str(tmp_path / "enter.sh"), "sbatch"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"the lab in {tmp_path} is not running\n")


def test_the_scripts_are_valid_bash() -> None:
    for script in SCRIPTS.glob("*.sh"):
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_folders_of_this_machine_that_jobs_do_not_see_are_named() -> None:
    (line,) = hidden(("/fsx", "/work"), ("/work/envs/torch", "/workshop", "/home/me"))
    assert "jobs see the lab's /work, and not this machine's with /work/envs/torch" in line
