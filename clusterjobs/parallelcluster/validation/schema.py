"""ParallelCluster's own schema, run over a config's plain data.

This floor knows marshmallow's nested messages and how they become places; it must not know what
the validators say afterwards.
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

SCHEMA = "ConfigSchemaValidator"  # what the pcluster CLI calls it
_CLUSTER_NAME = "clusterjobs"


def check_schema(data: Data, region: str) -> list[Finding]:
    """The schema alone, in a few hundredths of a second once it is imported."""
    with quiet(), _without_account(region):
        return load(data)[1]


@contextlib.contextmanager
def _without_account(region: str) -> Iterator[None]:
    """Loading asks for the region and for capacity reservations, and for nothing else."""
    with environment(offline_environment(region)):
        from pcluster.aws.aws_api import AWSApi

        ec2 = types.SimpleNamespace(describe_capacity_reservations=lambda _ids: [])
        stand_in = types.SimpleNamespace(aws_region=region, ec2=ec2)
        with patch.object(AWSApi, "_instance", stand_in):
            yield


def load(data: Data) -> tuple[Any, list[Finding]]:
    """ParallelCluster's own object for the config, or None and what the schema says."""
    import marshmallow
    from pcluster.aws.common import AWSClientError
    from pcluster.schemas.cluster_schema import ClusterSchema

    schema = ClusterSchema(cluster_name=_CLUSTER_NAME)
    try:
        return schema.load(data), []
    except marshmallow.ValidationError as error:
        return None, list(_messages(error.messages, (), schema))
    except AWSClientError as error:
        return None, [about_value(error, data)]
    except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
        # ParallelCluster 3.16 stumbles over what it does not expect, such as an empty value.
        return None, [stumbled(error, data)]


def stumbled(error: Exception, data: Data) -> Finding:
    """ParallelCluster itself fails at this config; an empty value is what mostly makes it."""
    empty = next(_empty_values(data, ()), ())
    text = f"ParallelCluster fails at this config: {error}"
    hint = "write a value, or remove the key" if empty else ""
    return Finding(text, empty, validator=type(error).__name__, hint=hint)


def _empty_values(value: Any, path: Path) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in children:
        if item is None or item == "":
            yield (*path, key)
        elif isinstance(item, (dict, list)):
            yield from _empty_values(item, (*path, key))


def about_value(error: Exception, data: Data) -> Finding:
    """An error without a place, put where the longest value that it names stands.

    ParallelCluster asks for some things while it reads a config, and ends with what AWS answers.
    """
    text = str(error)
    named = [(path, str(value)) for path, value in scalars(data) if str(value) in text]
    best = max(named, key=lambda entry: len(entry[1]), default=((), ""))
    return Finding(text, best[0], validator=type(error).__name__)


# ------------------------------------------------------------------ messages to places

_UNKNOWN = "Unknown field."


def _messages(messages: Any, path: Path, schema: Any) -> Iterator[Finding]:
    """marshmallow nests its messages as the config is nested; `_schema` is about a whole map."""
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
    """The key of ParallelCluster's that an unknown one was probably meant to be."""
    fields = known_fields(schema, path[:-1])
    return did_you_mean(str(path[-1]), list(fields))


def known_fields(schema: Any, path: Path) -> dict[str, Any]:
    """The fields of the schema for the map at `path`, by the keys of a config."""
    for step in path:
        if isinstance(step, str):
            schema = getattr(known_fields(schema, ()).get(step), "schema", None)
    if schema is None:
        return {}
    return {field.data_key or name: field for name, field in schema.fields.items()}
