"""What a container of the spec allows and what it refuses."""

from __future__ import annotations

import pytest
from plans import plan_of, problems_of

from clusterjobs.text import show

PYXIS = {"runtime": "pyxis", "image": "a/b:1"}


@pytest.mark.parametrize(
    ("venv", "planned"),
    [
        ("/opt/venv", "/opt/venv"),
        ("${HOME}/venv", "$HOME/venv"),
        ("{{ parameters.VENVS }}/venv", "$VENVS/venv"),
    ],
)
def test_a_venv_inside_is_a_whole_path_or_starts_with_a_variable(venv: str, planned: str) -> None:
    plan = plan_of(software={"container": PYXIS, "venv": venv}, parameters={"VENVS": "/opt"})
    assert plan.container
    assert plan.container.venv is not None
    assert show(plan.container.venv) == planned
    assert plan.environment.venv is None


def test_a_parameter_in_front_of_a_venv_inside_must_have_an_absolute_default() -> None:
    software = {"container": PYXIS, "venv": "{{ parameters.VENV }}"}
    (problem,) = problems_of(software=software, parameters={"VENV": "venvs/a"})
    assert problem.path == "parameters.VENV"
    assert "must be absolute, not venvs/a" in problem.what


def test_a_relative_venv_inside_is_refused() -> None:
    (problem,) = problems_of(software={"container": PYXIS, "venv": "venv"})
    assert problem.path == "software.venv"


@pytest.mark.parametrize("image", ["/fsx/a.sqsh", "${HOME}/a.sqsh"])
def test_a_file_is_an_image_of_pyxis_and_none_of_docker(image: str) -> None:
    assert not problems_of(software={"container": {"runtime": "pyxis", "image": image}})
    (problem,) = problems_of(software={"container": {"runtime": "docker", "image": image}})
    assert problem.path == "software.container.image"
