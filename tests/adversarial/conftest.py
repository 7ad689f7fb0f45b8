"""How many specs are tried, and the stage that their scripts run on."""

from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import HealthCheck, Phase, settings
from script_stage import Stage

# The same specs every time, so that a failure is nobody's bad luck; ADVERSARIAL_SPECS=5000 tries
# more of them, and others each time. A failing spec is shown as it is: to make one smaller takes
# minutes of scripts, which ADVERSARIAL_SHRINK=1 spends.
SPECS = int(os.environ.get("ADVERSARIAL_SPECS", "120"))
settings.register_profile(
    "adversarial",
    derandomize="ADVERSARIAL_SPECS" not in os.environ,
    database=None,
    deadline=None,
    max_examples=SPECS,
    phases=[Phase.generate, *([Phase.shrink] if "ADVERSARIAL_SHRINK" in os.environ else [])],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(pathlib.Path(tmp_path_factory.mktemp("stage")))
