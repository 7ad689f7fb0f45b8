"""Plans are made as the tests of the plan make them, and files are rendered for a user's site."""

from __future__ import annotations

import json
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "plan"))  # plans.py

from real_parsers import fairseq_parses  # noqa: F401


@pytest.fixture
def deepspeed_config(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any], int], Any]:
    """DeepSpeed's own config class, with that many data parallel ranks."""
    config = pytest.importorskip("deepspeed.runtime.config", reason="needs the extra 'train'")
    monkeypatch.setattr("deepspeed.comm.get_rank", lambda group=None: 0)

    def read(keys: dict[str, Any], data_parallel: int) -> Any:
        ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: data_parallel)
        return config.DeepSpeedConfig(json.loads(json.dumps(keys)), ranks)

    return read
