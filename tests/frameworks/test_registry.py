"""What is found through entry points: names without loading, and clear errors for what is wrong."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from clusterjobs import resources
from clusterjobs.errors import InputError, Problem
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS, RUNTIMES, Launcher
from clusterjobs.registry import Registry, forget_installed
from clusterjobs.spec.keys.container import Container

LISTS_NAMES = """
import json, sys
from clusterjobs.frameworks import FRAMEWORKS, option_models
from clusterjobs.launchers import LAUNCHERS
models = option_models()
names = [*FRAMEWORKS, *models.frameworks, *models.launchers, *LAUNCHERS]
assert "torchrun" in FRAMEWORKS and "torchrun" in LAUNCHERS and "torchrun" in models.frameworks
folders = ("clusterjobs.frameworks.", "clusterjobs.launchers.")
print(json.dumps([name for name in sys.modules if name.startswith(folders)]))
"""


def install(folder: pathlib.Path, package: str, group: str, name: str, value: str) -> None:
    """What pip would leave of a package with this entry point."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[clusterjobs.{group}]\n{name} = {value}\n")
    forget_installed()


@pytest.fixture
def packages(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder of installed packages."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget_installed()


def problem_of(name: str, registry: Registry[object]) -> Problem:
    with pytest.raises(InputError) as raised:
        registry[name]
    (problem,) = raised.value.problems
    return problem


def test_names_are_listed_without_loading_what_they_name() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTS_NAMES], capture_output=True, text=True, check=True
    )
    assert sorted(json.loads(done.stdout)) == [
        "clusterjobs.frameworks.arguments",
        "clusterjobs.frameworks.base",
    ]


def test_every_launcher_of_a_framework_is_registered_and_has_a_template() -> None:
    assert {name for one in FRAMEWORKS.values() for name in one.launchers} == set(LAUNCHERS)
    templates = resources.template_texts()
    for launcher in LAUNCHERS.values():
        assert f"launch/{launcher.name}.sh.j2" in templates
        if launcher.ssh_inside and not launcher.over_ssh:
            assert f"launch/{launcher.name}_in_docker.sh.j2" in templates
            assert launcher.reason_inside


def test_the_runtimes_are_those_of_a_spec() -> None:
    for runtime in RUNTIMES:
        assert Container.model_validate({"runtime": runtime, "image": "a:1"}).runtime == runtime
    for launcher in LAUNCHERS.values():
        assert {*launcher.refused_runtimes, *launcher.ssh_inside} <= set(RUNTIMES)


def test_an_unknown_name_is_a_key_error() -> None:
    assert LAUNCHERS.get("nonesuch") is None
    assert "nonesuch" not in FRAMEWORKS


def test_a_package_that_cannot_be_imported_is_named_with_the_reason(packages) -> None:
    install(packages, "site-tools", "launchers", "flux", "site_tools_nowhere:FLUX")
    assert "flux" in list(LAUNCHERS)  # its name is known, and others can be used
    assert LAUNCHERS["srun"].name == "srun"
    problem = problem_of("flux", LAUNCHERS)
    assert problem.what == (
        "launcher 'flux' of package site-tools cannot be loaded: "
        "ModuleNotFoundError: No module named 'site_tools_nowhere'"
    )
    assert problem.hint == "repair site-tools, or remove it: pip uninstall site-tools"


def test_an_entry_point_that_names_nothing_is_reported(packages) -> None:
    install(packages, "site-tools", "launchers", "flux", "json:FLUX")
    assert "AttributeError: module 'json' has no attribute 'FLUX'" in (
        problem_of("flux", LAUNCHERS).what
    )


def test_a_name_that_two_packages_have_is_refused(packages) -> None:
    install(packages, "site-tools", "launchers", "srun", "clusterjobs.launchers.srun:SRUN")
    problem = problem_of("srun", LAUNCHERS)
    assert problem.what == "launcher 'srun' is defined by clusterjobs and site-tools"
    assert problem.hint == "uninstall one of them"
    assert LAUNCHERS["torchrun"].name == "torchrun"


def test_an_object_of_another_type_is_refused(packages) -> None:
    value = "clusterjobs.launchers.srun:SRUN"
    install(packages, "site-tools", "frameworks", "srun", value)
    problem = problem_of("srun", FRAMEWORKS)
    assert problem.what == "framework 'srun' of package site-tools has the type Launcher"
    assert problem.hint == f"{value} must be a Framework"


def test_an_object_that_has_another_name_is_refused(packages) -> None:
    install(packages, "site-tools", "launchers", "flux", "clusterjobs.launchers.srun:SRUN")
    problem = problem_of("flux", LAUNCHERS)
    assert "has another name itself: 'srun'" in problem.what


def test_a_broken_package_is_reported_by_the_command_line(packages, clusterjobs, folder) -> None:
    install(packages, "site-tools", "frameworks", "flux", "site_tools_nowhere:Flux")
    (folder / "exp.yaml").write_text("name: a\ncluster: p4d-a100\nframework: flux\nscript: t.py\n")
    outcome = clusterjobs("plan", "exp.yaml")
    assert outcome.code == 1
    assert "framework 'flux' of package site-tools cannot be loaded" in outcome.err


def test_without_any_entry_point_clusterjobs_is_not_installed() -> None:
    problem = problem_of("srun", Registry("clusterjobs.nothing", Launcher))
    assert problem.what == "no entry points of clusterjobs.nothing are installed"
    assert problem.hint == "reinstall clusterjobs with pip"
