"""The data that a GPT-NeoX config names.

Source: EleutherAI/gpt-neox, megatron/data/gpt2_dataset.py: the first rank writes an index beside
the data, and without use_shared_fs the first rank of each node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.frameworks.base import DataPath

_PARTS = ("train", "valid", "test")
_LISTS = tuple(f"{part}_{kind}" for part in _PARTS for kind in ("data_paths", "label_data_paths"))


def data_paths(config: Mapping[str, Any]) -> Iterator[DataPath]:
    """The paths of data and vocabulary in a merged config."""
    is_indexed = config.get("use_shared_fs", True) is not False
    for key in ("data_path", *_LISTS):
        value = config.get(key)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str):
                yield DataPath(("neox", key), path, is_indexed)
    for key in ("vocab_file", "merge_file"):
        if isinstance(config.get(key), str):
            yield DataPath(("neox", key), config[key])
