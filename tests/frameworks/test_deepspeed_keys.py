"""The table of ds_config's keys, held against the DeepSpeed that is installed."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import pytest

from clusterjobs.frameworks import ds_config_rules
from clusterjobs.frameworks.flags import table

config = pytest.importorskip("deepspeed.runtime.config", reason="needs the extra 'train'")
KNOWN = table("deepspeed")
ROOT = pathlib.Path(__file__).parents[2]


def test_the_table_is_what_the_installed_deepspeed_asks_for() -> None:
    if importlib.metadata.version("deepspeed") != KNOWN.version:
        pytest.skip(f"the table is of DeepSpeed {KNOWN.version}")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/flag_tables.py"), "deepspeed", "--print"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "DS_ACCELERATOR": "cpu"},
    )
    assert json.loads(done.stdout.splitlines()[-1]) == KNOWN.types


def test_removed_features_are_those_that_deepspeed_names() -> None:
    assert set(ds_config_rules._REMOVED) == set(config._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    assert set(config._REMOVED_ZERO_CONFIG_KEYS) == set(ds_config_rules._REMOVED_OF_ZERO)


def test_deepspeeds_default_of_clipping_is_not_the_one_of_every_version(deepspeed_config) -> None:
    """It was 0 before; so the value is always written for Megatron-DeepSpeed."""
    assert deepspeed_config({"train_micro_batch_size_per_gpu": 1}, 1).gradient_clipping == 1.0


def test_the_flags_that_deepspeed_adds_to_a_parser_are_megatron_deepspeeds() -> None:
    deepspeed = pytest.importorskip("deepspeed")
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser(add_help=False))
    names = {one.lstrip("-") for action in parser._actions for one in action.option_strings}
    assert names >= {"deepspeed", "deepspeed_config"}
    assert names - set(table("megatron-deepspeed").types) == set()
