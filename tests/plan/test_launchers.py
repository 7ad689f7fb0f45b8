"""What a launcher can start."""

from __future__ import annotations

import pytest
from plans import plan_of, problems_of

from clusterjobs.launchers import LAUNCHERS
from clusterjobs.sections import order

ALONE = LAUNCHERS["torchrun"]._replace(no_python_option="")


@pytest.fixture
def python_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torchrun that starts Python scripts, and no other program."""
    monkeypatch.setattr(order, "find_launcher", lambda *_: ALONE)


@pytest.mark.usefixtures("python_alone")
def test_a_launcher_of_python_scripts_alone_refuses_a_prefix() -> None:
    assert plan_of().launch.launcher == ALONE
    (problem,) = problems_of(prefix="numactl -l")
    assert problem.path == "prefix"
    assert problem.what == "torchrun starts Python scripts, and no other program"
