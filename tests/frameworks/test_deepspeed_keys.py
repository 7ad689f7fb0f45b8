"""The table of ds_config's keys, held against the DeepSpeed that is installed."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from clusterjobs.frameworks import ds_config_rules
from clusterjobs.frameworks.flags import table

config = pytest.importorskip("deepspeed.runtime.config", reason="needs the extra 'train'")
KNOWN = table("deepspeed").types
SECTIONS = {
    "zero_optimization": ("deepspeed.runtime.zero.config", "DeepSpeedZeroConfig"),
    "fp16": ("deepspeed.runtime.precision_config", "DeepSpeedFP16Config"),
    "bf16": ("deepspeed.runtime.precision_config", "DeepSpeedBF16Config"),
    "wandb": ("deepspeed.monitor.config", "WandbConfig"),
    "comms_logger": ("deepspeed.comm.config", "CommsLoggerConfig"),
}
REMOVED_OF_ZERO = set(ds_config_rules._REMOVED_OF_ZERO)
BY_INITIALIZE = {"data_parallel_size", "sequence_parallel_size", "mesh_param"}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_has_the_fields_of_deepspeeds_own_class(section: str) -> None:
    module, name = SECTIONS[section]
    fields = getattr(pytest.importorskip(module), name).model_fields
    names = {*fields, *(one.alias for one in fields.values() if one.alias)}
    listed = {key.split(".")[1] for key in KNOWN if key.startswith(f"{section}.")}
    assert listed - REMOVED_OF_ZERO == names


class Asked(dict[str, Any]):
    """A config that remembers which keys it is asked for."""

    def __init__(self, keys: dict[str, Any]) -> None:
        super().__init__(keys)
        self.names: set[str] = set(keys)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def keys(self) -> Any:
        return self  # for `key in config.keys()`

    def __copy__(self) -> Asked:
        return self


def test_the_keys_at_the_top_are_those_that_deepspeed_asks_for() -> None:
    asked = Asked({"train_micro_batch_size_per_gpu": 1})
    config.DeepSpeedConfig(asked)
    listed = {key for key in KNOWN if "." not in key}
    assert asked.names - listed == set()
    assert listed - asked.names <= BY_INITIALIZE


def test_removed_features_are_those_that_deepspeed_names() -> None:
    assert set(ds_config_rules._REMOVED) == set(config._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    assert set(config._REMOVED_ZERO_CONFIG_KEYS) == REMOVED_OF_ZERO


def test_deepspeeds_default_of_clipping_is_not_the_one_of_every_version(deepspeed_config) -> None:
    """It was 0 before; so the value is always written for Megatron-DeepSpeed."""
    assert deepspeed_config({"train_micro_batch_size_per_gpu": 1}, 1).gradient_clipping == 1.0


def test_the_flags_that_deepspeed_adds_to_a_parser_are_megatron_deepspeeds() -> None:
    deepspeed = pytest.importorskip("deepspeed")
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser(add_help=False))
    names = {one.lstrip("-") for action in parser._actions for one in action.option_strings}
    assert names >= {"deepspeed", "deepspeed_config"}
    assert names - set(table("megatron-deepspeed").types) == set()
