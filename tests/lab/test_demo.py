"""`make demo`: its files are in one folder, `make clean` removes them, and it says what is next."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clusterjobs.lab.slurm import Slurm, cache_dir

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the project with this Python environment and a shorter training."""
    copy = tmp_path / "project"
    left = shutil.ignore_patterns(".*", "generated", "build", "dist", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=left)
    (copy / ".venv").symlink_to(sys.prefix)
    spec = copy / "examples" / "tiny-gpt.yaml"
    spec.write_text(spec.read_text().replace("steps: 200", "steps: 3"))
    return copy


def files_of(*folders: Path) -> set[str]:
    found = (path for folder in folders for path in folder.rglob("*"))
    return {str(path) for path in found if not {"__pycache__", ".venv"} & {*path.parts}}


@pytest.mark.lab
@pytest.mark.slow
def test_the_demo_says_what_is_next_and_clean_removes_all_its_files(
    slurm: Slurm, copy: Path, tmp_path: Path
) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    home = tmp_path / "home"
    home.mkdir()
    kept = cache_dir().parent
    path = f"{copy}/.venv/bin:{os.environ['PATH']}"
    env = {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(kept), "PATH": path}
    env.pop("XDG_STATE_HOME", None)
    before = files_of(copy, home)
    done = subprocess.run(
        ["bash", copy / "tools" / "demo.sh"], env=env, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "step 3/3 loss" in done.stdout
    *_, last = done.stdout.split("\n\n")
    assert last.startswith("Next\n")
    assert "clusterjobs lab run examples/tiny-gpt.yaml --set name=slower --set args.lr=1e-3" in last
    assert {Path(name).relative_to(copy).parts[0] for name in files_of(copy, home) - before} == {
        ".demo"
    }
    cleaned = subprocess.run(["make", "clean"], env=env, cwd=copy, capture_output=True, text=True)
    assert cleaned.returncode == 0, cleaned.stderr
    assert files_of(copy, home) == before
    assert list((kept / "clusterjobs").glob("slurm-*"))


def test_the_next_steps_are_commands_that_exist(clusterjobs) -> None:
    text = (ROOT / "tools" / "demo.sh").read_text()
    (steps,) = re.findall(r"<<'END'\n(.*?)\nEND\n", text, re.DOTALL)
    commands = re.findall(r"clusterjobs ([a-z]+)(?: (up|run|down))?", steps)
    assert commands == [("plan", ""), ("lab", "up"), ("lab", "run"), ("lab", "down")]
    assert (
        clusterjobs("plan", ROOT / "examples" / "tiny-gpt.yaml", "--set", "args.lr=1e-3").code == 0
    )


def test_missing_programs_are_named_with_their_packages_before_anything_starts(
    tmp_path: Path,
) -> None:
    for name in ("bash", "mount", "sed"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    code = "from clusterjobs.lab import tools; tools.SBIN = ''; import sys; sys.exit(tools.main())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "this machine lacks umount: apt-get install mount\n" in done.stderr
    lacks = "unshare, nsenter, setpriv, setsid, pivot_root"
    assert f"this machine lacks {lacks}: apt-get install util-linux\n" in done.stderr
    assert "apt-get install bash" not in done.stderr


def test_programs_in_sbin_folders_are_found_without_them_on_the_path() -> None:
    command = [sys.executable, "-m", "clusterjobs.lab.tools"]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "/usr/local/bin:/usr/bin:/bin"}, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_demo_checks_the_programs_before_it_installs_anything() -> None:
    rule = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\nquick:")[0]
    assert rule.index("clusterjobs.lab.tools") < rule.index("tools/setup.sh")
    without_packages = [sys.executable, "-S", "-m", "clusterjobs.lab.tools"]
    assert subprocess.run(without_packages, cwd=ROOT).returncode == 0


def test_lab_up_names_missing_programs(clusterjobs, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("clusterjobs.lab.tools._PROGRAMS", {"some-package": ("no-such-program",)})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    done = clusterjobs("lab", "up", "p4d-a100")
    assert done.code == 1
    said = "this machine lacks no-such-program\n   hint: apt-get install some-package\n"
    assert done.err.endswith(said)
