"""Checks a config's plain data with ParallelCluster's own schema.

This module knows how marshmallow's nested messages map to paths; it must not know the validators.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from clusterjobs.errors import did_you_mean
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.offline import offline_environment
from clusterjobs.parallelcluster.validation.optional_deps import environment, quiet
from clusterjobs.parallelcluster.validation.walk import Data, scalars
from clusterjobs.yaml.document import Path

SCHEMA = "ConfigSchemaValidator"  # the name in the pcluster CLI
_CLUSTER_NAME = "clusterjobs"


def check_schema(data: Data, region: str) -> list[Finding]:
    """The schema alone; takes a few hundredths of a second once it is imported."""
    with quiet(), _without_account(region):
        return load(data)[1]


@contextlib.contextmanager
def _without_account(region: str) -> Iterator[None]:
    """Loading reads only the region, and capacity reservations with their groups."""
    with environment(offline_environment(region)):
        from pcluster.aws.aws_api import AWSApi

        ec2 = types.SimpleNamespace(describe_capacity_reservations=lambda _ids: [])
        groups = types.SimpleNamespace(
            get_capacity_reservation_ids_from_group_resources=lambda _group: []
        )
        fake = types.SimpleNamespace(aws_region=region, ec2=ec2, resource_groups=groups)
        with patch.object(AWSApi, "_instance", fake):
            yield


def load(data: Data) -> tuple[Any, list[Finding]]:
    """ParallelCluster's own object for the config, or None and the findings of the schema."""
    import marshmallow
    from pcluster.aws.common import AWSClientError
    from pcluster.schemas.cluster_schema import ClusterSchema

    schema = ClusterSchema(cluster_name=_CLUSTER_NAME)
    try:
        return schema.load(data), []
    except marshmallow.ValidationError as error:
        return None, list(_messages(error.messages, (), schema))
    except AWSClientError as error:
        return None, [finding_at_value(error, data)]
    except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
        # ParallelCluster 3.16 crashes on unexpected values, such as an empty one.
        return None, [internal_failure(error, data)]


def internal_failure(error: Exception, data: Data) -> Finding:
    """For an exception inside ParallelCluster, which an empty value usually causes."""
    empty = next(_empty_values(data, ()), ())
    text = f"ParallelCluster crashes on this config: {error}"
    hint = "write a value, or remove the key" if empty else ""
    return Finding(text, empty, validator=type(error).__name__, hint=hint)


def _empty_values(value: Any, path: Path) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in children:
        if item is None or item == "":
            yield (*path, key)
        elif isinstance(item, (dict, list)):
            yield from _empty_values(item, (*path, key))


def finding_at_value(error: Exception, data: Data) -> Finding:
    """For an error without a path: located at the longest value that its text contains.

    ParallelCluster calls AWS while it reads a config, and stops at the first error from AWS.
    """
    text = str(error)
    named = [(path, str(value)) for path, value in scalars(data) if str(value) in text]
    best = max(named, key=lambda entry: len(entry[1]), default=((), ""))
    return Finding(text, best[0], validator=type(error).__name__)


# ------------------------------------------------------------------ messages to paths

_UNKNOWN = "Unknown field."


def _messages(messages: Any, path: Path, schema: Any) -> Iterator[Finding]:
    """marshmallow's messages are nested like the config; `_schema` concerns a whole map."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            yield from _messages(inner, path if key == "_schema" else (*path, key), schema)
    elif isinstance(messages, list):
        for message in messages:
            yield from _messages(message, path, schema)
    else:
        unknown = messages == _UNKNOWN
        hint = _nearest_key(path, schema) if unknown else ""
        yield Finding(str(messages), path, validator=SCHEMA, hint=hint, at_key=unknown)


def _nearest_key(path: Path, schema: Any) -> str:
    """A hint with the valid key that is most similar to an unknown one."""
    fields = known_fields(schema, path[:-1])
    return did_you_mean(str(path[-1]), list(fields))


def known_fields(schema: Any, path: Path) -> dict[str, Any]:
    """The schema's fields for the map at `path`, by their keys in a config."""
    for step in path:
        if isinstance(step, str):
            schema = getattr(known_fields(schema, ()).get(step), "schema", None)
    if schema is None:
        return {}
    return {field.data_key or name: field for name, field in schema.fields.items()}
