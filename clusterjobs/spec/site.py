"""A site's values, which `{{ site.private_subnet }}` in a cluster config refers to."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from clusterjobs.errors import one_problem
from clusterjobs.yaml import document as yaml_document


def load_site(texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The values of several site.yaml, given as (file, text), the highest precedence first.

    Raises InputError.
    """
    values: dict[str, Any] = {}
    for file, text in texts:
        values = {**_values(file, text), **values}
    return values


@functools.lru_cache(maxsize=64)  # many specs of one site
def _values(file: str, text: str) -> Mapping[str, Any]:
    document = yaml_document.load(text, file)
    if document.value is None:
        return {}
    if not isinstance(document.value, dict):
        raise one_problem(
            "expected a mapping of names to values",
            document.locate(()),
            hint="write private_subnet: subnet-0123456789abcdef0",
        )
    return document.value
