"""The wheel alone, installed outside the checkout, has all that the first hour needs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest
from pages import Page, environment_of

from clusterjobs.lab.slurm import Slurm
from clusterjobs.version import __version__

pytestmark = pytest.mark.slow  # builds and installs the package

ROOT = pathlib.Path(__file__).parents[1]
SPEC = "name: a\ncluster: p4d-a100\nnodes: 2\nframework: torchrun\nscript: train.py\n"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The sdist, and the wheel that is built from it: what a release consists of."""
    folder = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: pathlib.Path) -> pathlib.Path:
    (path,) = dist.glob("clusterjobs-*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An environment with nothing but the wheel; its dependencies lie behind a .pth file."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:  # a wheel of pure Python is installed by unpacking it
        archive.extractall(site)
    # Behind: of what both have, the wheel's is found. Paths alone: the .pth files that lie there,
    # the one of the editable checkout among them, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "python"


def test_wheel_renders_a_ready_cluster_outside_the_checkout(
    python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "site.yaml").write_bytes((ROOT / "tests/cases/site.yaml").read_bytes())
    code = (
        "import sys, clusterjobs.cli.main as main; print(main.__file__); "
        "sys.exit(main.run(['render', 'spec.yaml']))"
    )
    done = subprocess.run(
        [python, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(python.parents[1]))
    assert str(ROOT) not in done.stdout
    names = {"job.sh", "cluster.yaml", "manifest.json"}
    assert {path.name for path in (tmp_path / "generated").iterdir()} == names
    script = (tmp_path / "generated" / "job.sh").read_text()
    assert "--nproc-per-node=8" in script


def test_wheel_does_all_of_the_first_hour_in_an_empty_folder(
    python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    def clusterjobs(*arguments: str) -> str:
        done = subprocess.run(
            [python, "-I", "-m", "clusterjobs", *arguments],
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stderr)
        assert str(ROOT) not in done.stdout + done.stderr
        return done.stdout

    assert f"version {__version__}" in clusterjobs("--version")
    assert "wrote exp.yaml" in clusterjobs("init", "--yes")
    assert "torchrun started by" in clusterjobs("plan", "exp.yaml")
    assert "generated/job.sh" in clusterjobs("render", "exp.yaml")
    assert "exp.yaml" in clusterjobs("validate", "exp.yaml")
    assert "samples on each GPU" in clusterjobs("explain", "batch.micro")
    assert '"$schema"' in clusterjobs("schema")
    assert "tiny-gpt" in clusterjobs("examples")
    assert "examples/tiny_gpt/train.py" in clusterjobs("examples", "tiny-gpt")
    assert "generated/job.sh" in clusterjobs("render", "examples/tiny-gpt.yaml", "--force")
    assert "p4d-a100" in clusterjobs("clusters", "list")
    assert "site/defaults.yaml" in clusterjobs("site", "init", "site")
    assert "_CLUSTERJOBS_COMPLETE" in clusterjobs("completion", "bash")


@pytest.mark.lab
def test_every_command_of_the_tutorial_works_with_the_wheel_alone(
    python: pathlib.Path, tmp_path: pathlib.Path, slurm: Slurm
) -> None:
    program = python.parent / "clusterjobs"
    program.write_text(
        f"#!{python}\nimport sys\nfrom clusterjobs.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    environment = environment_of(tmp_path)
    environment["PATH"] = os.pathsep.join([str(python.parent), environment["PATH"]])
    environment["VIRTUAL_ENV"] = str(python.parents[1])
    page, folder = Page(ROOT / "docs/tutorial.md"), tmp_path / "work"
    folder.mkdir()
    where = [python, "-c", "import clusterjobs; print(clusterjobs.__file__)"]
    found = subprocess.run(where, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(python.parents[1]))
    try:
        printed = page.run(folder, environment)
    finally:
        down = [program, "lab", "down", "--delete"]
        subprocess.run(down, env=environment, capture_output=True, check=False)
    assert len(printed) >= 13
    assert not (differences := page.differences(printed)), "\n\n".join(differences)


def test_wheel_names_the_packages_of_each_extra(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    for extra in ("aws", "docs", "import", "plot", "tensorboard"):
        assert any(
            line.startswith("Requires-Dist: ") and line.endswith(f"extra == '{extra}'")
            for line in lines
        )


def test_sdist_has_what_a_checkout_needs_to_build_test_and_read(dist: pathlib.Path) -> None:
    (path,) = dist.glob("clusterjobs-*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt"} <= packed
    assert {"mkdocs.yml", "docs/index.md", "tools/setup.sh", "tests/conftest.py"} <= packed
    for folder in ("templates", "cluster-configs", "site-folder", "examples"):
        files = [one for one in (ROOT / folder).rglob("*.*") if one.suffix in (".j2", ".yaml")]
        assert files
        assert {one.relative_to(ROOT).as_posix() for one in files} <= packed
    assert not [name for name in packed if name.startswith((".venv", ".git/", ".demo"))]


def test_wheel_holds_every_template_config_and_file_of_a_site_folder(
    wheel: pathlib.Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    for folder, pattern in (
        ("templates", "*.j2"),
        ("cluster-configs", "*.yaml"),
        ("site-folder", "*.*"),
        ("examples", "*.yaml"),
        ("examples/tiny_gpt", "*.py"),
    ):
        files = list((ROOT / folder).rglob(pattern))
        assert files
        for path in files:
            assert f"clusterjobs/_data/{path.relative_to(ROOT).as_posix()}" in packed


def test_wheel_says_that_it_is_typed(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        assert "clusterjobs/py.typed" in archive.namelist()


def test_wheel_holds_the_flag_table_of_every_framework(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    tables = list((ROOT / "clusterjobs/frameworks/flags").glob("*.json"))
    assert len(tables) >= 2
    for path in tables:
        assert path.relative_to(ROOT).as_posix() in packed


def test_wheel_holds_all_that_the_page_of_a_report_is_made_of(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = [path for path in (ROOT / "clusterjobs/report/page").rglob("*.*") if path.is_file()]
    needed = [path for path in files if path.suffix in (".js", ".css", ".j2")]
    assert len(needed) >= 10
    for path in needed:
        assert path.relative_to(ROOT).as_posix() in packed
    assert "clusterjobs/report/page/uplot/LICENSE" in packed


def test_wheel_holds_no_tests_and_no_secrets_of_a_checkout(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"clusterjobs"}


def test_wheel_makes_the_command(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "clusterjobs = clusterjobs.cli.main:main" in archive.read(name).decode()
