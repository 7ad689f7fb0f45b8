"""A site's values, which `{{ site.private_subnet }}` in a cluster config refers to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clusterjobs.errors import one_problem
from clusterjobs.yaml import document as yaml_document


def load_site(texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The values of several site.yaml, given as (file, text), the highest precedence first.

    Raises InputError.
    """
    values: dict[str, Any] = {}
    for file, text in texts:
        document = yaml_document.load(text, file)
        if document.value is None:
            continue
        if not isinstance(document.value, dict):
            raise one_problem(
                "expected a mapping of names to values",
                document.locate(()),
                hint="write private_subnet: subnet-0123456789abcdef0",
            )
        values = {**document.value, **values}
    return values
