"""Megatron's arguments with paths that every node reads or writes."""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import DataPath
from clusterjobs.spec.experiment import Experiment

# The first node writes an index of the data beside it, or into data-cache-path.
_INDEXED = ("data_path", "train_data_path", "valid_data_path", "test_data_path")
_USED_BY_ALL_NODES = (
    *_INDEXED,
    "data_cache_path",
    "save",
    "load",
    "vocab_file",
    "merge_file",
    "tokenizer_model",
)


def data_paths_of(experiment: Experiment) -> Iterator[DataPath]:
    """The paths in the spec's arguments."""
    flags = {one.key: one for one in given_arguments(experiment)}
    for name in _USED_BY_ALL_NODES:
        flag = flags.get(name)
        indexed = name in _INDEXED and "data_cache_path" not in flags
        for word in flag.values if flag else ():
            if flag and word.startswith("/"):
                yield DataPath(flag.path, word, indexed)
