"""The spec's `ds_config`: keys in the spec, or a file beside it that has them.

Knows how such a file is read and where its keys are; it must not know what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import InputError
from clusterjobs.spec.field_types import path as checked_path
from clusterjobs.spec.references import expanding, has_variable
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path


def _keys_or_file(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str):
        raise ValueError("expected a mapping, or a file: write ds_config: ds_zero2.json")
    return checked_path(value)


DsConfigKeys = Annotated[dict[str, Any] | str, BeforeValidator(_keys_or_file)]


def config_file(ds_config: Mapping[str, Any] | str) -> tuple[str, ...]:
    """The file, if `ds_config` is one."""
    return (ds_config,) if isinstance(ds_config, str) else ()


def own_keys(
    ds_config: Mapping[str, Any] | str, texts: Mapping[str, str], diagnostics: Diagnostics
) -> Mapping[str, Any]:
    """The keys, from the spec or from the file's text; {} with a problem if it cannot be read.

    Later problems with a key are reported at its line in the file.
    """
    if not isinstance(ds_config, str):
        return ds_config
    if ds_config not in texts:
        diagnostics.problem(("ds_config",), *_missing(ds_config))
        return {}
    try:
        # In JSON, a tab can only be indentation, which YAML does not allow.
        document = yaml_document.load(texts[ds_config].replace("\t", " "), ds_config)
    except InputError as error:
        diagnostics.add(error.problems)
        return {}
    if not isinstance(document.value, dict):
        what = f"{ds_config} is not a config of DeepSpeed, which is a mapping of keys"
        diagnostics.problem(("ds_config",), what, 'write `{"zero_optimization": ...}` into it')
        return {}
    _relocate(document, document.value, (), diagnostics)
    return document.value


def keys_of(ds_config: Mapping[str, Any] | str, texts: Mapping[str, str]) -> Mapping[str, Any]:
    """The same without problems: {} where the file cannot be read."""
    if not isinstance(ds_config, str):
        return ds_config
    try:
        found = yaml_document.load(texts.get(ds_config, "{}").replace("\t", " "), ds_config).value
    except InputError:
        return {}
    return found if isinstance(found, dict) else {}


def _missing(name: str) -> tuple[str, str]:
    if has_variable(expanding(name)):
        return "the file is read when the job is rendered", "write its path without variables"
    return (
        f"there is no file {name} beside the spec or in workdir",
        "write its path, or the keys themselves: ds_config: {gradient_clipping: 1.0}",
    )


def _relocate(document: Document, value: Any, path: Path, diagnostics: Diagnostics) -> None:
    if path:
        diagnostics.relocate(("ds_config", *path), document.locate(path))
    items = value.items() if isinstance(value, dict) else ()
    for key, item in enumerate(value) if isinstance(value, list) else items:
        _relocate(document, item, (*path, key), diagnostics)
